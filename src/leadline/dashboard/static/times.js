// Times: stored in UTC, shown in the viewer's time zone. Plotly shows numbers, but not strings, in local time.

const ARRAYS = {
  f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array,
  i2: Int16Array, u2: Uint16Array, i1: Int8Array, u1: Uint8Array,
};

// Parse a time of Plotly's axes ("2026-11-20 19:42:48.99", local time) to ms since the epoch.
export function parseLocalTime(value) {
  if (typeof value === "number") return value;
  const [day, time = "00:00"] = String(value).split(" ");
  return new Date(`${day}T${time.length < 3 ? `${time}:00` : time}`).getTime();
}

export function zone() {
  const parts = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts(new Date());
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "local time";
}

// Parse a time in a URL: ISO 8601, or ms or ns since the epoch; null: invalid.
export function parseTime(text) {
  if (!text) return null;
  if (/^\d{16,}$/.test(text)) return Number(text) / 1e6;
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  return Number.isFinite(ms) ? ms : null;
}

export function nanoseconds(ms) {
  return `${BigInt(Math.round(ms * 1000)) * 1000n}`;
}

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const DATE = { year: "numeric", month: "short", day: "numeric" };

// The date and the time of day, with 24 hours: Nov 20, 20:19:16; the year only where it is not this one.
export function formatTime(ms, hasDate = true) {
  const time = new Date(ms);
  if (!hasDate) return time.toLocaleString(undefined, TIME);
  const isThisYear = time.getFullYear() === new Date().getFullYear();
  return time.toLocaleString(undefined, isThisYear ? { ...TIME, month: "short", day: "numeric" } : { ...DATE, ...TIME });
}

// The date, the time and the time zone.
export function formatMoment(ms) {
  return new Date(ms).toLocaleString(undefined, { ...DATE, ...TIME, timeZoneName: "short" });
}

// A length with three significant digits: 259 ms, 1.05 s, 6 m 12 s.
export function formatDuration(ms) {
  const seconds = Math.round(ms / 1000);
  if (ms < 999.5) return `${Number(ms.toPrecision(3))} ms`;
  if (ms < 59_950) return `${Number((ms / 1000).toPrecision(3))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} m`;
}

// The numbers of a trace, possibly in Plotly's binary encoding.
export function numbers(values) {
  if (!values?.bdata) return values ?? [];
  const bytes = Uint8Array.from(atob(values.bdata), (character) => character.charCodeAt(0));
  return new ARRAYS[values.dtype](bytes.buffer);
}

// Convert the times of a figure to numbers, which Plotly shows in local time.
export function localize(figure) {
  const layout = figure.layout ?? {};
  for (const trace of figure.data) if (isTimed(layout, trace.xaxis)) localizeTrace(trace);
  for (const item of [...(layout.shapes ?? []), ...(layout.annotations ?? [])]) {
    if (!isTimed(layout, item.xref)) continue;
    for (const key of ["x", "x0", "x1"]) if (key in item) item[key] = utc(item[key]);
  }
  for (const key of timedAxes(layout)) {
    if (layout[key].range) layout[key].range = layout[key].range.map(utc);
    if (layout[key].hoverformat) layout[key].hoverformat = layout[key].hoverformat.replace("UTC", zone());
  }
}

export function timedAxes(layout) {
  return Object.keys(layout).filter((key) => /^xaxis\d*$/.test(key) && layout[key].type === "date");
}

function isTimed(layout, reference) {
  if (reference === "paper") return false;
  return layout[`xaxis${(reference ?? "x").slice(1).split(" ")[0]}`]?.type === "date";
}

function localizeTrace(trace) {
  const key = trace.base === undefined ? "x" : "base";
  if (Array.isArray(trace[key])) trace[key] = trace[key].map(utc);
  else if (typeof trace[key] === "string") trace[key] = utc(trace[key]);
  if (trace.x0 !== undefined) trace.x0 = utc(trace.x0);
}

// Parse a time of a figure: ms, or ISO in UTC with or without a zone.
export function utc(value) {
  if (typeof value !== "string") return value;
  const text = value.replace(" ", "T");
  return Date.parse(/(Z|[+-]\d\d:\d\d)$/.test(text) ? text : `${text}${text.includes("T") ? "" : "T00:00:00"}Z`);
}
