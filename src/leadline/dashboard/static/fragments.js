// Parts of a page that the server renders anew: fetched when the run has grown, and put in place of the old ones.
import { partsChanged } from "./parts.js";

const LEAST_MS = 1500;
const READY_MS = 3000;
let isUnderWay = false;
let isWanted = false;
let askedAt = -Infinity;
let pressed = null; // what a pointer is down on: a click is lost where its element goes between press and release

export function startFragments() {
  document.addEventListener("pointerdown", (event) => (pressed = event.target), true);
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => setTimeout(() => (pressed = null)), true);
  }
  document.addEventListener("run-changed", (event) => {
    const places = [...document.querySelectorAll("[data-fragment]")];
    if (places.filter((place) => partsChanged(place, event.detail)).length) refreshFragments();
  });
  setInterval(lookWhetherReady, READY_MS);
}

// A large run that is being made ready does not change, but more and more of it can be told.
async function lookWhetherReady() {
  if (!document.querySelector("[data-preparing]")) return;
  await refreshFragments();
  document.dispatchEvent(new Event("run-readier"));
}

// Fetch the page once more and take its fragments over; at most one request at a time.
export async function refreshFragments() {
  isWanted = true;
  if (isUnderWay) return;
  isUnderWay = true;
  try {
    while (isWanted) {
      await pause(askedAt + LEAST_MS - performance.now());
      isWanted = false;
      askedAt = performance.now();
      await takeOver();
    }
  } finally {
    isUnderWay = false;
  }
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, Math.max(0, ms)));
}

async function takeOver() {
  let answer;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return; // the dashboard is away; the next event asks again
  }
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const fresh of page.querySelectorAll("[data-fragment]")) if (swap(fresh)) isWanted = true;
}

const rendered = new WeakMap(); // the HTML of a fragment as the server sent it, before anything was opened or sorted

// Whether it has to wait, because somebody uses what is there.
function swap(fresh) {
  const old = document.querySelector(`[data-fragment="${CSS.escape(fresh.dataset.fragment)}"]`);
  if (!old || (rendered.get(old) ?? old.innerHTML) === fresh.innerHTML) return false;
  if (isBeingUsed(old)) return true;
  const html = fresh.innerHTML;
  const focused = old.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const opened = new Map([...old.querySelectorAll("details")].map((each) => [keyOf(each), each.open]));
  const scrolled = [...old.querySelectorAll("*")].filter((each) => each.scrollTop || each.scrollLeft)
    .map((each) => [keyOf(each), each.scrollTop, each.scrollLeft]);
  const made = document.importNode(fresh, true);
  for (const each of made.querySelectorAll("details")) each.open = opened.get(keyOf(each)) ?? each.open;
  old.replaceWith(made);
  rendered.set(made, html);
  for (const [key, top, left] of scrolled) Object.assign(byKey(made, key) ?? {}, { scrollTop: top, scrollLeft: left });
  if (focused) byKey(made, focused)?.focus({ preventScroll: true });
  document.dispatchEvent(new CustomEvent("fragment-swapped", { detail: made }));
  return false;
}

// Somebody presses something in it, marks its text, or writes into it.
function isBeingUsed(place) {
  if (pressed && place.contains(pressed)) return true;
  const selection = getSelection();
  if (selection && !selection.isCollapsed && place.contains(selection.anchorNode)) return true;
  return place.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox], [type=radio]), select, textarea");
}

// What an element is found by in the next rendering: its id, its key, or its place below the nearest that has one.
function keyOf(element) {
  if (element.id) return `#${element.id}`;
  if (element.dataset.key) return `@${element.dataset.key}`;
  if (element.dataset.fragment) return "";
  const siblings = [...element.parentElement.children].filter((each) => each.localName === element.localName);
  return `${element.parentElement ? keyOf(element.parentElement) : ""}>${element.localName}:${siblings.indexOf(element)}`;
}

function byKey(root, key) {
  return [...root.querySelectorAll("*")].find((each) => keyOf(each) === key);
}
