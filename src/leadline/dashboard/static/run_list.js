// Runs page: loss sparklines, selection of runs to compare, columns, and the dialog of a run.
import { errorOf } from "./controls.js";

const MAX_COMPARED = 5;
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
  document.addEventListener("htmx:afterSwap", ({ target }) => (target.id === "run-dialog" ? target.showModal() : prepare()));
  document.addEventListener("htmx:afterRequest", onChanged);
  document.addEventListener("click", closeDialog);
  document.addEventListener("click", ({ target }) => closeMenus((menu) => !menu.contains(target)));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeMenus((menu) => menu.contains(document.activeElement));
  });
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

function closeMenus(isClosed) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!isClosed(menu)) continue;
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
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
    const response = await fetch(`/sparklines.json?${query}`);
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
  if (event.target.name === "column") rememberColumns(event.target.form);
  const name = event.target.dataset?.selectsRun;
  if (name === undefined) return;
  const index = selected.indexOf(name);
  if (index >= 0) selected.splice(index, 1);
  else selected.push(name);
  while (selected.length > MAX_COMPARED) selected.shift();
  prepare();
}

function showComparison() {
  const link = document.querySelector("[data-compares]");
  const canCompare = selected.length >= 2;
  link.textContent = canCompare ? `Compare ${selected.length}` : "Compare";
  link.setAttribute("aria-disabled", String(!canCompare));
  link.classList.toggle("primary", canCompare);
  if (canCompare) link.href = `/compare?${new URLSearchParams(selected.map((name) => ["run", name]))}`;
  else link.removeAttribute("href");
}

// The chosen columns are shown again on the next visit.
function rememberColumns(form) {
  const names = new FormData(form).getAll("column");
  document.cookie = `leadline-columns=${encodeURIComponent(names.join(","))}; path=/; max-age=31536000; samesite=strict`;
}

// --- note, tags, delete --------------------------------------------------------------------------------------

function onChanged({ target, detail }) {
  const dialog = target.closest("#run-dialog");
  if (!dialog || detail.requestConfig.verb !== "post") return;
  if (detail.successful) {
    dialog.close();
    htmx.trigger("#live", "refresh");
    return;
  }
  dialog.querySelector(".request-notice")?.remove();
  const notice = document.createElement("p");
  notice.className = "notice bad request-notice";
  notice.setAttribute("role", "alert");
  notice.textContent = errorOf(detail.xhr);
  target.append(notice);
}

function closeDialog(event) {
  if (event.target.closest("[data-closes]")) event.target.closest("#run-dialog")?.close();
}
