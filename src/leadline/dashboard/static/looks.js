// The page's colours in a figure, and the figure in words.
import { numbers, spokenMoment } from "./times.js";

const FALLBACK = { text: "#7b8490", grid: "rgba(128,128,128,0.22)", surface: "#ffffff" };

function variable(style, name, otherwise) {
  return style.getPropertyValue(name).trim() || otherwise;
}

export function paint(layout) {
  const style = getComputedStyle(document.documentElement);
  const text = variable(style, "--text", FALLBACK.text);
  const muted = variable(style, "--muted", FALLBACK.text);
  const grid = variable(style, "--line", FALLBACK.grid);
  const surface = variable(style, "--surface", FALLBACK.surface);
  layout.font = { ...layout.font, color: muted };
  if (layout.title) layout.title.font = { ...layout.title.font, color: text };
  layout.hoverlabel = { ...layout.hoverlabel, bgcolor: surface, bordercolor: grid, font: { color: text } };
  for (const key of Object.keys(layout)) {
    if (/^[xy]axis\d*$/.test(key)) Object.assign(layout[key], { gridcolor: grid, linecolor: grid, tickcolor: grid });
  }
}

// Calls back when the page turns light or dark.
export function onRepaint(call) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", call);
  new MutationObserver(call).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
}

const MOST = 6;

// What a chart shows, for those who do not see it.
export function essence(figure) {
  const title = plain(figure.layout?.title?.text) || "Chart";
  const traces = figure.data.filter((trace) => trace.hoverinfo !== "skip");
  const told = traces.slice(0, MOST).map(spoken).filter(Boolean);
  if (traces.length > MOST) told.push(`and ${traces.length - MOST} more`);
  return [title, ...told].join("; ");
}

function spoken(trace) {
  if (trace.type === "pie") return share(trace);
  if (trace.type === "heatmap") return `${trace.y?.length ?? 0} rows over ${numbers(trace.x).length} columns`;
  const values = Array.from(numbers(trace.orientation === "h" ? trace.x : trace.y)).filter(Number.isFinite);
  const name = plain(trace.name);
  if (!values.length) return name;
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const course = least === most ? brief(least) : `${brief(least)} to ${brief(most)}, last ${brief(values.at(-1))}`;
  return name ? `${name}: ${course}` : course;
}

function share(trace) {
  const values = Array.from(numbers(trace.values));
  const whole = values.reduce((sum, each) => sum + each, 0) || 1;
  return values.map((each, place) => `${plain(trace.labels[place])} ${Math.round((100 * each) / whole)} %`).join(", ");
}

function brief(value) {
  return Number(value.toPrecision(3)).toString();
}

function plain(text) {
  return new DOMParser().parseFromString(text ?? "", "text/html").body.textContent;
}

export function spokenRange(axis) {
  const shown = axis.shown;
  if (!shown) return "";
  if (!axis.isTime) return `steps ${Math.max(0, Math.ceil(shown.from)).toLocaleString()} – ${Math.floor(shown.to).toLocaleString()}`;
  const isLong = shown.to - shown.from > 43_200_000 || new Date(shown.from).toDateString() !== new Date().toDateString();
  return `${spokenMoment(shown.from, isLong)} – ${spokenMoment(shown.to, isLong)}`;
}
