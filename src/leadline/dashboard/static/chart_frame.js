// What stands around a plot: its title, the choice of the scale, and the list of findings.

import { ALONG } from "./step_times.js";

// The title bar of a chart; with a slider that smooths its lines, and choices of what lies along x and of the scale, where the chart has them.
export function titleBar(name, { scale, onScale, smoothing, onSmoothing, along, onAlong } = {}) {
  const bar = document.createElement("div");
  bar.className = "chart-head";
  const title = document.createElement("h3");
  title.textContent = name;
  if (name) bar.append(title);
  if (smoothing !== undefined) bar.append(slider(name, smoothing, onSmoothing));
  if (along) bar.append(choice(name, along, onAlong));
  if (scale) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small scale";
    button.textContent = "log";
    button.title = "Logarithmic value axis";
    button.setAttribute("aria-label", `log axis of ${name}`);
    button.setAttribute("aria-pressed", String(scale === "log"));
    button.addEventListener("click", () => onScale(scale === "log" ? "linear" : "log"));
    bar.append(button);
  }
  return bar;
}

function choice(name, along, onAlong) {
  const select = document.createElement("select");
  select.className = "along";
  select.setAttribute("aria-label", `horizontal axis of ${name}`);
  for (const [value, text] of Object.entries(ALONG)) select.add(new Option(text, value, false, value === along));
  select.addEventListener("change", () => onAlong(select.value));
  return select;
}

function slider(name, smoothing, onSmoothing) {
  const label = document.createElement("label");
  label.className = "smoothing";
  label.title = "Weight of earlier values in an exponential moving average; the values themselves stay in the background";
  const input = document.createElement("input");
  Object.assign(input, { type: "range", min: "0", max: "0.99", step: "0.01", value: String(smoothing) });
  input.setAttribute("aria-label", `smooth ${name}`.trim());
  input.addEventListener("input", () => onSmoothing(Number(input.value)));
  label.append("smooth", input);
  return label;
}

// The findings of the numbered flags, in their order.
export function flagList(texts, more) {
  const list = document.createElement("ol");
  list.className = "flags";
  for (const text of texts) {
    const entry = document.createElement("li");
    entry.textContent = text;
    list.append(entry);
  }
  if (more > 0) {
    const rest = document.createElement("li");
    rest.className = "more";
    rest.textContent = `and ${more.toLocaleString("en")} more`;
    list.append(rest);
  }
  return list;
}
