// The page Runs: filtering while one types, losses as small lines, and two runs chosen to be compared.
import { refreshFragments } from "./fragments.js";

const TYPING_MS = 250;
const AT_ONCE = 12;
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, MARGIN] = [120, 24, 2];
const chosen = [];
const courses = new Map();
const visible = new Set();
let isAsking = false;
let observer = null;

export function startRuns() {
  const form = document.querySelector("[data-filters-runs]");
  if (!form) return;
  observer = new IntersectionObserver(onSeen, { rootMargin: "200px" });
  startFilter(form);
  document.addEventListener("change", onChoice);
  document.addEventListener("fragment-swapped", prepare);
  prepare();
}

function prepare() {
  observer.disconnect();
  visible.clear();
  for (const place of document.querySelectorAll("[data-course]")) {
    draw(place);
    observer.observe(place);
  }
  for (const box of document.querySelectorAll("[data-chooses]")) box.checked = chosen.includes(box.dataset.chooses);
  showComparison();
}

// --- filter --------------------------------------------------------------------------------------------------

function startFilter(form) {
  let timer = 0;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => apply(form), TYPING_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply(form);
  });
  form.querySelector("button").hidden = true;
}

function apply(form) {
  const told = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `/${told.size ? `?${told}` : ""}`);
  refreshFragments();
}

// --- losses --------------------------------------------------------------------------------------------------

function onSeen(entries) {
  for (const each of entries) visible[each.isIntersecting ? "add" : "delete"](each.target);
  ask();
}

async function ask() {
  const wanted = [...visible].filter((place) => courses.get(place.dataset.course)?.version !== place.dataset.version);
  if (isAsking || !wanted.length) return;
  isAsking = true;
  const query = new URLSearchParams(wanted.slice(0, AT_ONCE).map((place) => ["run", place.dataset.course]));
  try {
    const answer = await fetch(`/courses.json?${query}`);
    if (!answer.ok) return;
    const found = await answer.json();
    for (const place of wanted.slice(0, AT_ONCE)) {
      const course = found[place.dataset.course];
      courses.set(place.dataset.course, { version: place.dataset.version, values: course?.values ?? [] });
    }
    for (const place of document.querySelectorAll("[data-course]")) draw(place);
  } catch {
    return; // the dashboard is away; what is seen next asks again
  } finally {
    isAsking = false;
  }
  ask();
}

function draw(place) {
  const values = courses.get(place.dataset.course)?.values ?? [];
  const finite = values.filter((each) => each !== null);
  place.replaceChildren();
  if (finite.length < 2) return;
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "sparkline");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `loss from ${finite[0]} to ${finite.at(-1)}`);
  for (const points of pieces(values, low, high - low)) {
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", points.join(" "));
    svg.append(line);
  }
  const title = document.createElementNS(SVG, "title");
  title.textContent = `loss ${finite[0]} → ${finite.at(-1)}, between ${low} and ${high}`;
  svg.prepend(title);
  place.append(svg);
}

// What is not finite is a gap.
function pieces(values, low, span) {
  const found = [[]];
  values.forEach((value, at) => {
    if (value === null) return found.push([]);
    const x = MARGIN + ((WIDTH - 2 * MARGIN) * at) / Math.max(1, values.length - 1);
    const y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (span > 0 ? (value - low) / span : 0.5);
    return found.at(-1).push(`${x.toFixed(1)},${y.toFixed(1)}`);
  });
  return found.filter((each) => each.length);
}

// --- comparing -----------------------------------------------------------------------------------------------

function onChoice(event) {
  const name = event.target.dataset?.chooses;
  if (name === undefined) return;
  const place = chosen.indexOf(name);
  if (place >= 0) chosen.splice(place, 1);
  else chosen.push(name);
  while (chosen.length > 2) chosen.shift();
  prepare();
}

function showComparison() {
  const link = document.querySelector("[data-compares]");
  const isReady = chosen.length === 2;
  link.setAttribute("aria-disabled", String(!isReady));
  link.classList.toggle("primary", isReady);
  if (isReady) link.href = `/compare?${new URLSearchParams({ a: chosen[0], b: chosen[1] })}`;
  else link.removeAttribute("href");
}
