// Range bar above the charts, also by keyboard: zoom, pan, follow the run, select an interval.
import { formatRange } from "./chart_style.js";
import { showsParts } from "./live_events.js";
import { startSelection } from "./selection.js";
import { zone } from "./times.js";

const ZOOM = 0.5;
const PAN = 0.25;

export function startRangeBars(axes, charts) {
  for (const bar of document.querySelectorAll("[data-range-axis]")) startBar(bar, axes[bar.dataset.rangeAxis]);
  const bars = [...document.querySelectorAll("[data-range-axis]")];
  if (!bars.length) return;
  const selection = startSelection(axes.time, charts);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-range-action]");
    if (button) perform(button.dataset.rangeAction, axisOf(button, axes), selection);
  });
  document.addEventListener("click", (event) => keepRange(event.target.closest("a[data-keep-range]")));
  document.addEventListener("keydown", (event) => onKey(event, axes, selection));
  document.addEventListener("run-changed", (event) => {
    if (bars.some((bar) => showsParts(bar, event.detail))) updateExtent(axes.time);
  });
}

function startBar(bar, axis) {
  const label = bar.querySelector("[data-range-label]");
  const follow = bar.querySelector('[data-range-action="follow"]');
  const update = () => {
    label.textContent = axis.visible ? `${formatRange(axis)}${axis.isTime ? ` ${zone()}` : ""}` : "";
    follow?.setAttribute("aria-pressed", String(axis.follows));
    const wholeButton = bar.querySelector('[data-range-action="whole"]');
    if (wholeButton) wholeButton.disabled = !axis.range && axis.follows;
  };
  if (bar.dataset.from) axis.grow({ from: Number(bar.dataset.from), to: Number(bar.dataset.to) });
  axis.addEventListener("range", update);
  axis.addEventListener("extent", update);
  update();
}

function axisOf(element, axes) {
  return axes[element.closest("[data-range-axis]")?.dataset.rangeAxis ?? element.closest(".chart")?.dataset.axis] ?? null;
}

function perform(action, axis, selection) {
  if (action === "keys") return document.getElementById("chart-keys")?.showModal();
  if (action === "select") return selection.toggle();
  if (action === "analyze") return selection.analyze(axis.visible);
  if (!axis) return undefined;
  if (action === "in") return axis.zoom(ZOOM);
  if (action === "out") return axis.zoom(1 / ZOOM);
  if (action === "left") return axis.pan(-PAN);
  if (action === "right") return axis.pan(PAN);
  if (action === "whole") return axis.reset();
  if (action === "follow") {
    if (axis.follows) return axis.fix();
    axis.follow();
    return updateExtent(axis);
  }
  return undefined;
}

// Links to other nodes keep the range.
function keepRange(link) {
  if (!link) return;
  const query = new URLSearchParams(location.search);
  const url = new URL(link.href);
  for (const key of ["from", "to"]) if (query.has(key)) url.searchParams.set(key, query.get(key));
  link.href = url;
}

const KEYS = {
  ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "whole", f: "follow", s: "select", "?": "keys",
};

// Keys apply on the page itself, on a chart, on the bar, on an interval's analysis, or where a dialog that was just
// closed still has the focus.
function onKey(event, axes, selection) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  const isApplicable = target === document.body || target.id === "main" || target.classList?.contains("chart") || target.closest?.("[data-range-axis], [data-selection], dialog");
  if (event.key === "Escape") selection.stop();
  const action = KEYS[event.key];
  if (!isApplicable || !action || document.querySelector("dialog[open]")) return;
  if (event.key.startsWith("Arrow") && target.closest?.("[data-range-axis]") && target.matches("select, input")) return;
  const axis = axisOf(target, axes) ?? axes[document.querySelector("[data-range-axis]").dataset.rangeAxis];
  event.preventDefault();
  perform(action, axis, selection);
}

// Extend a followed range to the current end of the run.
async function updateExtent(axis) {
  if (!axis.isTime || !axis.range || !axis.follows) return;
  const response = await fetch(`/runs/${encodeURIComponent(document.body.dataset.run)}/span.json`).catch(() => null);
  if (!response?.ok) return;
  const span = await response.json();
  axis.grow({ from: span.start_ns / 1e6, to: span.end_ns / 1e6 });
}
