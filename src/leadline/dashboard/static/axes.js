// The axes that the charts of a page share: one of time, one of steps; which part of it is seen, and whether it follows.
import { nanoseconds, numbers, readMoment, readShown, timedAxes, utc } from "./times.js";

const MARGIN = 0.25; // so much more than is seen is asked for, so that panning a little shows something

export class Axis extends EventTarget {
  #least;

  constructor(kind) {
    super();
    this.kind = kind;
    this.isTime = kind === "time";
    this.extent = null;
    this.range = null;
    this.follows = true;
    this.#least = this.isTime ? 1 : 2;
  }

  // What is to be seen: a part, or all there is.
  get shown() {
    return this.range ?? this.extent;
  }

  set(range, { follows = false } = {}) {
    const found = range && this.#wide(range);
    if (same(found, this.range) && follows === this.follows) return;
    this.range = found;
    this.follows = follows;
    this.dispatchEvent(new Event("range"));
  }

  reset() {
    this.set(null, { follows: true });
  }

  fix() {
    if (this.shown) this.set({ ...this.shown });
  }

  follow() {
    this.set(this.range && this.#atEnd(this.range), { follows: true });
  }

  zoom(factor) {
    if (!this.shown) return;
    const { from, to } = this.shown;
    const middle = (from + to) / 2;
    const half = ((to - from) / 2) * factor;
    if (this.extent && 2 * half >= this.extent.to - this.extent.from) this.reset();
    else this.set({ from: middle - half, to: middle + half });
  }

  pan(share) {
    if (!this.shown) return;
    const by = (this.shown.to - this.shown.from) * share;
    this.set({ from: this.shown.from + by, to: this.shown.to + by });
  }

  // A chart, or the server, has seen so far.
  grow({ from, to }) {
    if (!Number.isFinite(from) || !Number.isFinite(to)) return;
    const known = this.extent;
    const extent = known ? { from: Math.min(from, known.from), to: Math.max(to, known.to) } : { from, to };
    if (same(extent, known)) return;
    this.extent = extent;
    if (this.range && this.follows) this.range = this.#atEnd(this.range);
    this.dispatchEvent(new Event(this.range && this.follows ? "range" : "extent"));
  }

  // What a chart asks the server for.
  question() {
    if (!this.range) return {};
    const { from, to } = this.range;
    const more = (to - from) * MARGIN;
    if (this.isTime) return { start_ns: nanoseconds(from - more), end_ns: nanoseconds(to + more) };
    return { start_step: Math.max(0, Math.floor(from - more)), end_step: Math.ceil(to + more) + 1 };
  }

  // As Plotly's axes have it, and back.
  toPlot({ from, to }) {
    return [from, to];
  }

  fromPlot([from, to]) {
    return this.isTime ? { from: readShown(from), to: readShown(to) } : { from: Number(from), to: Number(to) };
  }

  // Which of a layout's axes it is.
  keys(layout) {
    if (this.isTime) return timedAxes(layout);
    return Object.keys(layout).filter((key) => /^xaxis\d*$/.test(key) && layout[key].type !== "date");
  }

  #wide({ from, to }) {
    if (to - from >= this.#least) return { from, to };
    const middle = (from + to) / 2;
    return { from: middle - this.#least / 2, to: middle + this.#least / 2 };
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

// From where to where a figure has data, before its moments are shifted.
export function extentOf(figure, axis) {
  const keys = axis.keys(figure.layout);
  let [from, to] = [Infinity, -Infinity];
  for (const trace of figure.data) {
    if (!keys.includes(`xaxis${(trace.xaxis ?? "x").slice(1)}`)) continue;
    const begins = listed(trace.base ?? trace.x, axis);
    const lengths = trace.base === undefined ? [] : listed(trace.x, { isTime: false });
    begins.forEach((each, place) => {
      if (!Number.isFinite(each)) return;
      from = Math.min(from, each);
      to = Math.max(to, each + (lengths[place] ?? 0));
    });
  }
  for (const shape of figure.layout.shapes ?? []) {
    if (!keys.includes(`xaxis${(shape.xref ?? "x").split(" ")[0].slice(1)}`)) continue;
    const [begin, end] = listed([shape.x0, shape.x1], axis);
    if (end > begin) [from, to] = [Math.min(from, begin), Math.max(to, end)];
  }
  if (!axis.isTime && to >= from) [from, to] = [from - 0.5, to + 0.5]; // a bar of a step is one step wide
  return { from, to };
}

function listed(values, axis) {
  const found = values?.bdata || Array.isArray(values) ? Array.from(numbers(values)) : values === undefined ? [] : [values];
  return axis.isTime ? found.filter((each) => each !== null).map(utc) : found.map((each) => (each === null ? NaN : Number(each)));
}

// The part that an address names, and the address that names a part.
export function readAddress(axis) {
  const query = new URLSearchParams(location.search);
  const [from, to] = axis.isTime
    ? [readMoment(query.get("from")), readMoment(query.get("to"))]
    : ["from_step", "to_step"].map((name) => (query.get(name) ? Number(query.get(name)) : null));
  if (from !== null && to !== null && to > from) axis.set({ from, to });
}

export function writeAddress(axis) {
  const query = new URLSearchParams(location.search);
  const names = axis.isTime ? ["from", "to"] : ["from_step", "to_step"];
  const told = axis.range && !axis.follows ? [axis.range.from, axis.range.to] : [null, null];
  names.forEach((name, place) => {
    if (told[place] === null) query.delete(name);
    else query.set(name, axis.isTime ? new Date(told[place]).toISOString() : Math.round(told[place]));
  });
  const text = query.toString();
  history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
}
