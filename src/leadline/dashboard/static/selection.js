// Selection of an interval on a time chart, and its breakdown.
import { nanoseconds, formatDuration, formatTime, zone } from "./times.js";

export function startSelection(axis, charts) {
  const panel = document.querySelector("[data-selection]");
  const state = { axis, charts, panel, isSelecting: false, interval: null, request: null, bands: new Map() };
  document.addEventListener("chart-drawn", (event) => addOverlay(state, event.target));
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
  state.request?.abort();
  state.panel?.replaceChildren();
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

async function select(state, interval) {
  setSelecting(state, false);
  state.interval = interval;
  updateBands(state);
  state.request?.abort();
  const request = (state.request = new AbortController());
  const query = new URLSearchParams({ start_ns: nanoseconds(interval.from), end_ns: nanoseconds(interval.to) });
  const url = `/runs/${encodeURIComponent(document.body.dataset.run)}/selection.json?${query}`;
  try {
    const response = await fetch(url, { signal: request.signal, headers: { Accept: "application/json" } });
    const parts = response.ok ? breakdown(await response.json()) : [create("p", "bad", await response.text())];
    show(state, interval, parts);
  } catch (error) {
    if (error.name !== "AbortError") show(state, interval, [create("p", "bad", "the dashboard does not respond")]);
  }
}

function show(state, interval, parts) {
  const head = create("div", "card-head");
  const length = formatDuration(interval.to - interval.from);
  const label = `${formatTime(interval.from, true)} – ${formatTime(interval.to)} ${zone()} (${length})`;
  const [zoom, close] = [create("button", "small", "Zoom to interval"), create("button", "small", "Close")];
  zoom.type = close.type = "button";
  zoom.addEventListener("click", () => state.axis.set(interval));
  close.addEventListener("click", () => clear(state));
  head.append(create("h2", "", "Selected interval"), create("span", "muted", label), create("span", "spacer"), zoom, close);
  state.panel.hidden = false;
  state.panel.replaceChildren(head, ...parts);
  state.panel.focus({ preventScroll: true });
}

// The response as elements; text from the run is set as text content.
function breakdown(response) {
  const grid = create("div", "grid");
  const parts = [timeBreakdown(response.phases, response.steps), operators(response.operators)].filter(Boolean);
  grid.append(...parts);
  const lists = [list("Findings", response.findings), list("Other events", response.events)].filter(Boolean);
  return [grid, ...lists];
}

function timeBreakdown(phases, steps) {
  const part = create("div", "selection-phases");
  part.append(create("h3", "", "Time breakdown"));
  if (!phases.length) {
    part.append(create("p", "muted", "no training phase ran in this interval"));
    return part;
  }
  part.append(create("p", "muted", steps));
  part.append(table(["Phase", "Time", "Share", ""], phases.map((phase) => [phase.words, phase.time, phase.percent, bar(phase)])));
  return part;
}

function operators(topOperators) {
  if (!topOperators) return null;
  const part = create("div");
  part.append(create("h3", "", "Operators"), create("p", "muted", topOperators.note));
  const rows = topOperators.rows.map((row) => [row.operator, row.phase, row.time, row.calls]);
  if (rows.length) part.append(table(["Operator", "Phase", "Time", "Calls"], rows));
  return part;
}

function list(title, entries) {
  if (!entries?.length) return null;
  const part = create("div");
  const items = create("ul");
  for (const entry of entries) {
    const item = create("li");
    if (entry.href) {
      const link = create("a", "", entry.words);
      link.href = entry.href;
      item.append(link);
    } else item.textContent = entry.words;
    items.append(item);
  }
  part.append(create("h3", "", title), items);
  return part;
}

function table(heads, rows) {
  const element = create("table", "tight");
  const head = element.createTHead().insertRow();
  for (const title of heads) head.append(create("th", ["Time", "Share", "Calls"].includes(title) ? "number" : "", title));
  const body = element.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((content, index) => {
      const cell = line.insertCell();
      if (["Time", "Share", "Calls"].includes(heads[index])) cell.className = "number";
      cell.append(content);
    });
  }
  return element;
}

function bar(phase) {
  const element = create("span", "bar");
  element.style.width = `${Math.max(1, Math.round(160 * phase.share))}px`;
  element.style.background = phase.colour;
  return element;
}

function create(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}
