// Selection of an interval on a time chart, and its breakdown.
import { nanoseconds, formatDuration, formatTime, zone } from "./times.js";

export function startSelection(axis, charts) {
  const panel = document.querySelector("[data-selection]");
  const state = { axis, charts, panel, isSelecting: false, interval: null, bands: new Map() };
  document.addEventListener("chart-drawn", (event) => addOverlay(state, event.target));
  panel?.addEventListener("htmx:afterSwap", () => show(state));
  for (const name of ["htmx:responseError", "htmx:sendError"]) panel?.addEventListener(name, ({ detail }) => showError(state, detail));
  panel?.addEventListener("click", ({ target }) => {
    if (target.closest("[data-selection-zoom]")) axis.set(state.interval);
    if (target.closest("[data-selection-close]")) clear(state);
  });
  return {
    toggle: () => setSelecting(state, !state.isSelecting),
    stop: () => (state.isSelecting ? setSelecting(state, false) : clear(state)),
    analyze: (interval) => interval && select(state, interval),
  };
}

function setSelecting(state, isSelecting) {
  if (!state.panel) return;
  state.isSelecting = isSelecting;
  document.body.classList.toggle("selecting", isSelecting);
  for (const button of document.querySelectorAll('[data-range-action="select"]')) button.setAttribute("aria-pressed", String(isSelecting));
}

function clear(state) {
  state.interval = null;
  if (state.panel) state.panel.hidden = true;
  updateBands(state);
}

// An overlay on a chart: receives the pointer while selecting, and shows the selected interval.
function addOverlay(state, element) {
  if (!state.panel || element.dataset.axis !== "time") return;
  const chart = state.charts.get(element);
  if (!chart?.plot) return void state.bands.delete(element);
  let entry = state.bands.get(element);
  if (!entry || entry.overlay.parentElement !== element) {
    const overlay = create("div", "selection-overlay");
    const band = create("div", "selection-band");
    band.hidden = true;
    overlay.append(band);
    element.append(overlay);
    entry = { overlay, band, chart };
    state.bands.set(element, entry);
    overlay.addEventListener("pointerdown", (event) => drag(state, entry, event));
  }
  const area = chart.area();
  Object.assign(entry.overlay.style, {
    left: `${area.left}px`, top: `${area.top}px`, width: `${area.width}px`, height: `${area.height}px`,
  });
  updateBand(state, entry);
}

function drag(state, entry, event) {
  if (!state.isSelecting || !state.axis.visible || event.button !== 0) return;
  event.preventDefault();
  const { overlay } = entry;
  overlay.setPointerCapture(event.pointerId);
  const start = timeAt(state, overlay, event.clientX);
  const move = (moved) => {
    const end = timeAt(state, overlay, moved.clientX);
    state.interval = { from: Math.min(start, end), to: Math.max(start, end) };
    updateBands(state);
  };
  const up = (released) => {
    overlay.removeEventListener("pointermove", move);
    move(released);
    if (state.interval.to > state.interval.from) select(state, state.interval);
  };
  overlay.addEventListener("pointermove", move);
  overlay.addEventListener("pointerup", up, { once: true });
}

function timeAt(state, overlay, x) {
  const box = overlay.getBoundingClientRect();
  const share = Math.max(0, Math.min(1, (x - box.left) / box.width));
  const { from, to } = state.axis.visible;
  return from + share * (to - from);
}

function updateBands(state) {
  for (const entry of state.bands.values()) updateBand(state, entry);
}

function updateBand(state, { band }) {
  const { interval, axis } = state;
  band.hidden = !interval || !axis.visible;
  if (band.hidden) return;
  const share = (time) => Math.max(0, Math.min(1, (time - axis.visible.from) / (axis.visible.to - axis.visible.from)));
  band.style.left = `${100 * share(interval.from)}%`;
  band.style.width = `${100 * (share(interval.to) - share(interval.from))}%`;
}

function select(state, interval) {
  setSelecting(state, false);
  state.interval = interval;
  updateBands(state);
  const length = formatDuration(interval.to - interval.from);
  state.panel.querySelector("[data-selection-label]").textContent =
    `${formatTime(interval.from, true)} – ${formatTime(interval.to, false)} ${zone()} (${length})`;
  const query = new URLSearchParams({ start_ns: nanoseconds(interval.from), end_ns: nanoseconds(interval.to) });
  const url = `/runs/${encodeURIComponent(document.body.dataset.run)}/selection?${query}`;
  const target = state.panel.querySelector("[data-selection-breakdown]");
  htmx.ajax("GET", url, { source: target, target });
}

function show(state) {
  if (!state.interval) return; // cleared meanwhile
  state.panel.hidden = false;
  state.panel.focus({ preventScroll: true });
}

function showError(state, { elt, xhr }) {
  elt.replaceChildren(create("p", "bad", xhr.responseText || "the dashboard does not respond"));
  show(state);
}

function create(name, className, text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}
