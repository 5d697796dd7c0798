// Page fragments: rendered again by the server and replaced when the run has changed.
import { partsChanged } from "./run_parts.js";

const MIN_REFRESH_MS = 1500;
const COMPACTION_POLL_MS = 3000;
let isRefreshing = false;
let isOutdated = false;
let requestedAt = -Infinity;
let pressed = null; // element under a pressed pointer: replacing it would lose the click

export function startFragments() {
  document.addEventListener("pointerdown", (event) => (pressed = event.target), true);
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => setTimeout(() => (pressed = null)), true);
  }
  document.addEventListener("run-changed", (event) => {
    const places = [...document.querySelectorAll("[data-fragment]")];
    if (places.filter((place) => partsChanged(place, event.detail)).length) refreshFragments();
  });
  setInterval(pollCompaction, COMPACTION_POLL_MS);
}

// A run that is being compacted does not change, but more of it becomes available.
async function pollCompaction() {
  if (!document.querySelector("[data-compacting]")) return;
  await refreshFragments();
  document.dispatchEvent(new Event("compaction-progress"));
}

// Fetch the page and replace its fragments; at most one request at a time.
export async function refreshFragments() {
  isOutdated = true;
  if (isRefreshing) return;
  isRefreshing = true;
  try {
    while (isOutdated) {
      await pause(requestedAt + MIN_REFRESH_MS - performance.now());
      isOutdated = false;
      requestedAt = performance.now();
      await replaceFragments();
    }
  } finally {
    isRefreshing = false;
  }
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, Math.max(0, ms)));
}

async function replaceFragments() {
  let response;
  try {
    response = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return; // the dashboard is not reachable; the next event tries again
  }
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const fresh of page.querySelectorAll("[data-fragment]")) if (swap(fresh)) isOutdated = true;
}

const rendered = new WeakMap(); // fragment HTML as received, before anything was opened or sorted

// Replace a fragment; return whether it must wait because the old one is in use.
function swap(fresh) {
  const old = document.querySelector(`[data-fragment="${CSS.escape(fresh.dataset.fragment)}"]`);
  if (!old || (rendered.get(old) ?? old.innerHTML) === fresh.innerHTML) return false;
  if (isBeingUsed(old)) return true;
  const html = fresh.innerHTML;
  const focused = old.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const opened = new Map([...old.querySelectorAll("details")].map((details) => [keyOf(details), details.open]));
  const scrolled = [...old.querySelectorAll("*")].filter((element) => element.scrollTop || element.scrollLeft)
    .map((element) => [keyOf(element), element.scrollTop, element.scrollLeft]);
  const replacement = document.importNode(fresh, true);
  for (const details of replacement.querySelectorAll("details")) details.open = opened.get(keyOf(details)) ?? details.open;
  old.replaceWith(replacement);
  rendered.set(replacement, html);
  for (const [key, top, left] of scrolled) Object.assign(byKey(replacement, key) ?? {}, { scrollTop: top, scrollLeft: left });
  if (focused) byKey(replacement, focused)?.focus({ preventScroll: true });
  document.dispatchEvent(new CustomEvent("fragment-swapped", { detail: replacement }));
  return false;
}

// Whether something in it is pressed, selected or being edited.
function isBeingUsed(place) {
  if (pressed && place.contains(pressed)) return true;
  const selection = getSelection();
  if (selection && !selection.isCollapsed && place.contains(selection.anchorNode)) return true;
  return place.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox], [type=radio]), select, textarea");
}

// Key of an element across renderings: its id, its data-key, or its path below the nearest element that has one.
function keyOf(element) {
  if (element.id) return `#${element.id}`;
  if (element.dataset.key) return `@${element.dataset.key}`;
  if (element.dataset.fragment) return "";
  const siblings = [...element.parentElement.children].filter((sibling) => sibling.localName === element.localName);
  return `${element.parentElement ? keyOf(element.parentElement) : ""}>${element.localName}:${siblings.indexOf(element)}`;
}

function byKey(root, key) {
  return [...root.querySelectorAll("*")].find((element) => keyOf(element) === key);
}
