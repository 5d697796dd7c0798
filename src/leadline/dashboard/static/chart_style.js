// Page colours for figures, and text descriptions of figures.
import { numbers, formatTime } from "./times.js";

const FALLBACK = { text: "#7b8490", grid: "rgba(128,128,128,0.22)", surface: "#ffffff" };

function variable(style, name, fallback) {
  return style.getPropertyValue(name).trim() || fallback;
}

export function applyTheme(layout) {
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

// Calls back when the theme changes.
export function onThemeChange(callback) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
  new MutationObserver(callback).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
}

const MAX_TRACES = 6;

// A text description of a chart for screen readers.
export function describeFigure(figure) {
  const title = plainText(figure.layout?.title?.text) || "Chart";
  const traces = figure.data.filter((trace) => trace.hoverinfo !== "skip");
  const descriptions = traces.slice(0, MAX_TRACES).map(describeTrace).filter(Boolean);
  if (traces.length > MAX_TRACES) descriptions.push(`and ${traces.length - MAX_TRACES} more`);
  return [title, ...descriptions].join("; ");
}

function describeTrace(trace) {
  if (trace.type === "pie") return describePie(trace);
  if (trace.type === "heatmap") return `${trace.y?.length ?? 0} rows over ${numbers(trace.x).length} columns`;
  const values = Array.from(numbers(trace.orientation === "h" ? trace.x : trace.y)).filter(Number.isFinite);
  const name = plainText(trace.name);
  if (!values.length) return name;
  const [min, max] = [Math.min(...values), Math.max(...values)];
  const summary = min === max ? formatNumber(min) : `${formatNumber(min)} to ${formatNumber(max)}, last ${formatNumber(values.at(-1))}`;
  return name ? `${name}: ${summary}` : summary;
}

function describePie(trace) {
  const values = Array.from(numbers(trace.values));
  const total = values.reduce((sum, value) => sum + value, 0) || 1;
  return values.map((value, index) => `${plainText(trace.labels[index])} ${Math.round((100 * value) / total)} %`).join(", ");
}

function formatNumber(value) {
  return Number(value.toPrecision(3)).toString();
}

function plainText(text) {
  return new DOMParser().parseFromString(text ?? "", "text/html").body.textContent;
}

export function formatRange(axis) {
  const range = axis.visible;
  if (!range) return "";
  if (!axis.isTime) return `steps ${Math.max(0, Math.ceil(range.from)).toLocaleString()} – ${Math.floor(range.to).toLocaleString()}`;
  const isWithinDay = new Date(range.from).toDateString() === new Date(range.to).toDateString();
  return `${formatTime(range.from)} – ${isWithinDay ? formatTime(range.to, false) : formatTime(range.to)}`;
}
