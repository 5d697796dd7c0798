// Runs page: loss sparklines, and selection of two runs to compare.

const BATCH_SIZE = 12;
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, MARGIN] = [120, 24, 2];
const selected = [];
const sparklines = new Map();
const visible = new Set();
let isLoading = false;
let observer = null;

export function startRunList() {
  if (!document.querySelector("[data-compares]")) return;
  observer = new IntersectionObserver(onIntersect, { rootMargin: "200px" });
  document.addEventListener("change", onSelect);
  document.addEventListener("htmx:afterSwap", prepare);
  prepare();
}

function prepare() {
  observer.disconnect();
  visible.clear();
  for (const cell of document.querySelectorAll("[data-sparkline]")) {
    draw(cell);
    observer.observe(cell);
  }
  for (const box of document.querySelectorAll("[data-selects-run]")) box.checked = selected.includes(box.dataset.selectsRun);
  showComparison();
}

// --- losses --------------------------------------------------------------------------------------------------

function onIntersect(entries) {
  for (const entry of entries) visible[entry.isIntersecting ? "add" : "delete"](entry.target);
  loadSparklines();
}

async function loadSparklines() {
  const outdated = [...visible].filter((cell) => sparklines.get(cell.dataset.sparkline)?.version !== cell.dataset.version);
  if (isLoading || !outdated.length) return;
  isLoading = true;
  const query = new URLSearchParams(outdated.slice(0, BATCH_SIZE).map((cell) => ["run", cell.dataset.sparkline]));
  try {
    const response = await fetch(`/courses.json?${query}`);
    if (!response.ok) return;
    const sparklinesByRun = await response.json();
    for (const cell of outdated.slice(0, BATCH_SIZE)) {
      const sparkline = sparklinesByRun[cell.dataset.sparkline];
      sparklines.set(cell.dataset.sparkline, { version: cell.dataset.version, values: sparkline?.values ?? [] });
    }
    for (const cell of document.querySelectorAll("[data-sparkline]")) draw(cell);
  } catch {
    return; // the dashboard is not reachable; scrolling tries again
  } finally {
    isLoading = false;
  }
  loadSparklines();
}

function draw(cell) {
  const values = sparklines.get(cell.dataset.sparkline)?.values ?? [];
  const finite = values.filter((value) => value !== null);
  cell.replaceChildren();
  if (finite.length < 2) return;
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "sparkline");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `loss from ${finite[0]} to ${finite.at(-1)}`);
  for (const points of segments(values, low, high - low)) {
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", points.join(" "));
    svg.append(line);
  }
  const title = document.createElementNS(SVG, "title");
  title.textContent = `loss ${finite[0]} → ${finite.at(-1)}, between ${low} and ${high}`;
  svg.prepend(title);
  cell.append(svg);
}

// Non-finite values are gaps.
function segments(values, low, span) {
  const lines = [[]];
  values.forEach((value, index) => {
    if (value === null) return lines.push([]);
    const x = MARGIN + ((WIDTH - 2 * MARGIN) * index) / Math.max(1, values.length - 1);
    const y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (span > 0 ? (value - low) / span : 0.5);
    return lines.at(-1).push(`${x.toFixed(1)},${y.toFixed(1)}`);
  });
  return lines.filter((line) => line.length);
}

// --- comparing -----------------------------------------------------------------------------------------------

function onSelect(event) {
  const name = event.target.dataset?.selectsRun;
  if (name === undefined) return;
  const index = selected.indexOf(name);
  if (index >= 0) selected.splice(index, 1);
  else selected.push(name);
  while (selected.length > 2) selected.shift();
  prepare();
}

function showComparison() {
  const link = document.querySelector("[data-compares]");
  const canCompare = selected.length === 2;
  link.setAttribute("aria-disabled", String(!canCompare));
  link.classList.toggle("primary", canCompare);
  if (canCompare) link.href = `/compare?${new URLSearchParams({ a: selected[0], b: selected[1] })}`;
  else link.removeAttribute("href");
}
