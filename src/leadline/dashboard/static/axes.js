// Time and step axes shared by the charts of a page: visible range, extent, and whether to follow the run.
import { nanoseconds, numbers, parseTime, parseLocalTime, timedAxes, utc } from "./times.js";

const MARGIN = 0.25; // share of the visible range that is loaded beyond its ends, so that short pans show data

export class Axis extends EventTarget {
  #minLength;

  constructor(kind) {
    super();
    this.kind = kind;
    this.isTime = kind === "time";
    this.extent = null;
    this.range = null;
    this.follows = true;
    this.#minLength = this.isTime ? 1 : 2;
  }

  // The visible range: a part, or the whole extent.
  get visible() {
    return this.range ?? this.extent;
  }

  // The length of the visible range; 0: nothing is visible.
  get length() {
    return this.visible ? this.visible.to - this.visible.from : 0;
  }

  set(range, { follows = false } = {}) {
    const widened = range && this.#widen(range);
    if (same(widened, this.range) && follows === this.follows) return;
    this.range = widened;
    this.follows = follows;
    this.dispatchEvent(new Event("range"));
  }

  reset() {
    this.set(null, { follows: true });
  }

  fix() {
    if (this.visible) this.set({ ...this.visible });
  }

  follow() {
    this.set(this.range && this.#atEnd(this.range), { follows: true });
  }

  zoom(factor) {
    if (!this.visible) return;
    const { from, to } = this.visible;
    const middle = (from + to) / 2;
    const half = ((to - from) / 2) * factor;
    if (this.extent && 2 * half >= this.extent.to - this.extent.from) this.reset();
    else this.set({ from: middle - half, to: middle + half });
  }

  pan(share) {
    if (!this.visible) return;
    const by = (this.visible.to - this.visible.from) * share;
    this.set({ from: this.visible.from + by, to: this.visible.to + by });
  }

  // Extend the extent by data of a chart or the server.
  grow({ from, to }) {
    if (!Number.isFinite(from) || !Number.isFinite(to)) return;
    const previous = this.extent;
    const extent = previous ? { from: Math.min(from, previous.from), to: Math.max(to, previous.to) } : { from, to };
    if (same(extent, previous)) return;
    this.extent = extent;
    if (this.range && this.follows) this.range = this.#atEnd(this.range);
    this.dispatchEvent(new Event(this.range && this.follows ? "range" : "extent"));
  }

  // Query parameters of a chart request.
  query() {
    if (!this.range) return {};
    const { from, to } = this.range;
    const margin = (to - from) * MARGIN;
    if (this.isTime) return { start_ns: nanoseconds(from - margin), end_ns: nanoseconds(to + margin) };
    return { start_step: Math.max(0, Math.floor(from - margin)), end_step: Math.ceil(to + margin) + 1 };
  }

  // Convert to and from the values of Plotly's axes.
  toPlot({ from, to }) {
    return [from, to];
  }

  fromPlot([from, to]) {
    return this.isTime ? { from: parseLocalTime(from), to: parseLocalTime(to) } : { from: Number(from), to: Number(to) };
  }

  // The keys of this axis in a layout.
  keys(layout) {
    if (this.isTime) return timedAxes(layout);
    return Object.keys(layout).filter((key) => /^xaxis\d*$/.test(key) && layout[key].type !== "date");
  }

  #widen({ from, to }) {
    if (to - from >= this.#minLength) return { from, to };
    const middle = (from + to) / 2;
    return { from: middle - this.#minLength / 2, to: middle + this.#minLength / 2 };
  }

  #atEnd({ from, to }) {
    return this.extent ? { from: this.extent.to - (to - from), to: this.extent.to } : { from, to };
  }
}

function same(one, other) {
  return one === other || (!!one && !!other && near(one.from, other.from, one) && near(one.to, other.to, one));
}

function near(one, other, range) {
  return Math.abs(one - other) <= Math.max(1e-9, (range.to - range.from) * 1e-6);
}

// The extent of a figure's data, before times are converted to the local zone.
export function extentOf(figure, axis) {
  const keys = axis.keys(figure.layout);
  let [from, to] = [Infinity, -Infinity];
  for (const trace of figure.data) {
    if (!keys.includes(`xaxis${(trace.xaxis ?? "x").slice(1)}`)) continue;
    const starts = listed(trace.base ?? trace.x, axis);
    const lengths = trace.base === undefined ? [] : listed(trace.x, { isTime: false });
    starts.forEach((start, index) => {
      if (!Number.isFinite(start)) return;
      from = Math.min(from, start);
      to = Math.max(to, start + (lengths[index] ?? 0));
    });
  }
  for (const shape of figure.layout.shapes ?? []) {
    if (!keys.includes(`xaxis${(shape.xref ?? "x").split(" ")[0].slice(1)}`)) continue;
    const [start, end] = listed([shape.x0, shape.x1], axis);
    if (end > start) [from, to] = [Math.min(from, start), Math.max(to, end)];
  }
  if (!axis.isTime && to >= from) [from, to] = [from - 0.5, to + 0.5]; // a bar of a step is one step wide
  return { from, to };
}

function listed(values, axis) {
  const items = values?.bdata || Array.isArray(values) ? Array.from(numbers(values)) : values === undefined ? [] : [values];
  return axis.isTime ? items.filter((item) => item !== null).map(utc) : items.map((item) => (item === null ? NaN : Number(item)));
}

// Read the range from the URL, and write it to the URL.
export function readUrl(axis) {
  const query = new URLSearchParams(location.search);
  const [from, to] = axis.isTime
    ? [parseTime(query.get("from")), parseTime(query.get("to"))]
    : ["from_step", "to_step"].map((name) => (query.get(name) ? Number(query.get(name)) : null));
  if (from !== null && to !== null && to > from) axis.set({ from, to });
}

export function writeUrl(axis) {
  const query = new URLSearchParams(location.search);
  const names = axis.isTime ? ["from", "to"] : ["from_step", "to_step"];
  const bounds = axis.range && !axis.follows ? [axis.range.from, axis.range.to] : [null, null];
  names.forEach((name, index) => {
    if (bounds[index] === null) query.delete(name);
    else query.set(name, axis.isTime ? new Date(bounds[index]).toISOString() : Math.round(bounds[index]));
  });
  const text = query.toString();
  history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
}
