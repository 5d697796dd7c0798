// Choosing an interval on any chart of time, and what went on in it.
import { nanoseconds, spokenLength, spokenMoment, zone } from "./times.js";

export function startSelection(axis, charts) {
  const panel = document.querySelector("[data-selection]");
  const state = { axis, charts, panel, isOn: false, interval: null, under: null, bands: new Map() };
  document.addEventListener("chart-drawn", (event) => overlay(state, event.target));
  return {
    toggle: () => setOn(state, !state.isOn),
    stop: () => (state.isOn ? setOn(state, false) : clear(state)),
    lookInto: (interval) => interval && choose(state, interval),
  };
}

function setOn(state, isOn) {
  if (!state.panel) return;
  state.isOn = isOn;
  document.body.classList.toggle("selecting", isOn);
  for (const button of document.querySelectorAll('[data-frame-action="select"]')) button.setAttribute("aria-pressed", String(isOn));
}

function clear(state) {
  state.interval = null;
  state.under?.abort();
  state.panel?.replaceChildren();
  if (state.panel) state.panel.hidden = true;
  placeBands(state);
}

// A sheet over a chart: it takes the pointer while an interval is chosen, and shows the one that is.
function overlay(state, place) {
  if (!state.panel || place.dataset.axis !== "time") return;
  const chart = state.charts.get(place);
  if (!chart?.plot) return void state.bands.delete(place);
  let found = state.bands.get(place);
  if (!found || found.sheet.parentElement !== place) {
    const sheet = made("div", "selection-sheet");
    const band = made("div", "selection-band");
    band.hidden = true;
    sheet.append(band);
    place.append(sheet);
    found = { sheet, band, chart };
    state.bands.set(place, found);
    sheet.addEventListener("pointerdown", (event) => drag(state, found, event));
  }
  const area = chart.area();
  Object.assign(found.sheet.style, {
    left: `${area.left}px`, top: `${area.top}px`, width: `${area.width}px`, height: `${area.height}px`,
  });
  placeBand(state, found);
}

function drag(state, found, event) {
  if (!state.isOn || !state.axis.shown || event.button !== 0) return;
  event.preventDefault();
  const { sheet } = found;
  sheet.setPointerCapture(event.pointerId);
  const begin = momentAt(state, sheet, event.clientX);
  const move = (moved) => {
    const end = momentAt(state, sheet, moved.clientX);
    state.interval = { from: Math.min(begin, end), to: Math.max(begin, end) };
    placeBands(state);
  };
  const up = (released) => {
    sheet.removeEventListener("pointermove", move);
    move(released);
    if (state.interval.to > state.interval.from) choose(state, state.interval);
  };
  sheet.addEventListener("pointermove", move);
  sheet.addEventListener("pointerup", up, { once: true });
}

function momentAt(state, sheet, x) {
  const box = sheet.getBoundingClientRect();
  const share = Math.max(0, Math.min(1, (x - box.left) / box.width));
  const { from, to } = state.axis.shown;
  return from + share * (to - from);
}

function placeBands(state) {
  for (const found of state.bands.values()) placeBand(state, found);
}

function placeBand(state, { band }) {
  const { interval, axis } = state;
  band.hidden = !interval || !axis.shown;
  if (band.hidden) return;
  const share = (moment) => Math.max(0, Math.min(1, (moment - axis.shown.from) / (axis.shown.to - axis.shown.from)));
  band.style.left = `${100 * share(interval.from)}%`;
  band.style.width = `${100 * (share(interval.to) - share(interval.from))}%`;
}

async function choose(state, interval) {
  setOn(state, false);
  state.interval = interval;
  placeBands(state);
  state.under?.abort();
  const under = (state.under = new AbortController());
  const query = new URLSearchParams({ start_ns: nanoseconds(interval.from), end_ns: nanoseconds(interval.to) });
  const address = `/runs/${encodeURIComponent(document.body.dataset.run)}/selection.json?${query}`;
  try {
    const answer = await fetch(address, { signal: under.signal, headers: { Accept: "application/json" } });
    const parts = answer.ok ? told(await answer.json()) : [made("p", "bad", await answer.text())];
    show(state, interval, parts);
  } catch (error) {
    if (error.name !== "AbortError") show(state, interval, [made("p", "bad", "the dashboard does not answer")]);
  }
}

function show(state, interval, parts) {
  const head = made("div", "card-head");
  const length = spokenLength(interval.to - interval.from);
  const spoken = `${spokenMoment(interval.from, true)} – ${spokenMoment(interval.to)} ${zone()} (${length})`;
  const [zoom, close] = [made("button", "small", "Zoom to it"), made("button", "small", "Close")];
  zoom.type = close.type = "button";
  zoom.addEventListener("click", () => state.axis.set(interval));
  close.addEventListener("click", () => clear(state));
  head.append(made("h2", "", "In this interval"), made("span", "muted", spoken), made("span", "spacer"), zoom, close);
  state.panel.hidden = false;
  state.panel.replaceChildren(head, ...parts);
  state.panel.focus({ preventScroll: true });
}

// The answer of the server as elements; whatever comes from the run is set as text.
function told(answer) {
  const grid = made("div", "grid");
  const parts = [division(answer.phases, answer.steps), operators(answer.operators)].filter(Boolean);
  grid.append(...parts);
  const lists = [list("Found in it", answer.findings), list("What else happened", answer.events)].filter(Boolean);
  return [grid, ...lists];
}

function division(phases, steps) {
  const part = made("div", "selection-phases");
  part.append(made("h3", "", "How the time divides"));
  if (!phases.length) {
    part.append(made("p", "muted", "no phase of the training ran in it"));
    return part;
  }
  part.append(made("p", "muted", steps));
  part.append(table(["Phase", "Time", "Share", ""], phases.map((each) => [each.words, each.time, each.percent, bar(each)])));
  return part;
}

function operators(found) {
  if (!found) return null;
  const part = made("div");
  part.append(made("h3", "", "Operators"), made("p", "muted", found.note));
  const rows = found.rows.map((each) => [each.operator, each.phase, each.time, each.calls]);
  if (rows.length) part.append(table(["Operator", "Phase", "Time", "Calls"], rows));
  return part;
}

function list(title, entries) {
  if (!entries?.length) return null;
  const part = made("div");
  const items = made("ul");
  for (const each of entries) {
    const item = made("li");
    if (each.href) {
      const link = made("a", "", each.words);
      link.href = each.href;
      item.append(link);
    } else item.textContent = each.words;
    items.append(item);
  }
  part.append(made("h3", "", title), items);
  return part;
}

function table(heads, rows) {
  const whole = made("table", "tight");
  const head = whole.createTHead().insertRow();
  for (const each of heads) head.append(made("th", ["Time", "Share", "Calls"].includes(each) ? "number" : "", each));
  const body = whole.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((each, place) => {
      const cell = line.insertCell();
      if (["Time", "Share", "Calls"].includes(heads[place])) cell.className = "number";
      cell.append(each);
    });
  }
  return whole;
}

function bar(phase) {
  const found = made("span", "bar");
  found.style.width = `${Math.max(1, Math.round(160 * phase.share))}px`;
  found.style.background = phase.colour;
  return found;
}

function made(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}
