// The bar above the charts: zoom, pan, follow or fix; the same from the keyboard; and which interval is looked into.
import { spokenRange } from "./looks.js";
import { partsChanged } from "./parts.js";
import { startSelection } from "./selection.js";
import { zone } from "./times.js";

const ZOOM = 0.5;
const PAN = 0.25;

export function startFrame(axes, charts) {
  for (const bar of document.querySelectorAll("[data-frame]")) startBar(bar, axes[bar.dataset.frame]);
  const bars = [...document.querySelectorAll("[data-frame]")];
  if (!bars.length) return;
  const selection = startSelection(axes.time, charts);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-frame-action]");
    if (button) act(button.dataset.frameAction, axisOf(button, axes), selection);
  });
  document.addEventListener("click", (event) => keepFrame(event.target.closest("a[data-keep-frame]")));
  document.addEventListener("keydown", (event) => pressed(event, axes, selection));
  document.addEventListener("run-changed", (event) => {
    if (bars.some((bar) => partsChanged(bar, event.detail))) lookAtEnd(axes.time);
  });
}

function startBar(bar, axis) {
  const words = bar.querySelector("[data-frame-words]");
  const follow = bar.querySelector('[data-frame-action="follow"]');
  const tell = () => {
    words.textContent = axis.shown ? `${spokenRange(axis)}${axis.isTime ? ` ${zone()}` : ""}` : "";
    follow?.setAttribute("aria-pressed", String(axis.follows));
    const whole = bar.querySelector('[data-frame-action="whole"]');
    if (whole) whole.disabled = !axis.range && axis.follows;
  };
  if (bar.dataset.from) axis.grow({ from: Number(bar.dataset.from), to: Number(bar.dataset.to) });
  axis.addEventListener("range", tell);
  axis.addEventListener("extent", tell);
  tell();
}

function axisOf(element, axes) {
  return axes[element.closest("[data-frame]")?.dataset.frame ?? element.closest(".chart")?.dataset.axis] ?? null;
}

function act(action, axis, selection) {
  if (action === "keys") return document.getElementById("chart-keys")?.showModal();
  if (action === "select") return selection.toggle();
  if (action === "look") return selection.lookInto(axis.shown);
  if (!axis) return undefined;
  if (action === "in") return axis.zoom(ZOOM);
  if (action === "out") return axis.zoom(1 / ZOOM);
  if (action === "left") return axis.pan(-PAN);
  if (action === "right") return axis.pan(PAN);
  if (action === "whole") return axis.reset();
  if (action === "follow") {
    if (axis.follows) return axis.fix();
    axis.follow();
    return lookAtEnd(axis);
  }
  return undefined;
}

// Another node is shown in the same frame.
function keepFrame(link) {
  if (!link) return;
  const here = new URLSearchParams(location.search);
  const address = new URL(link.href);
  for (const key of ["from", "to"]) if (here.has(key)) address.searchParams.set(key, here.get(key));
  link.href = address;
}

const KEYS = {
  ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "whole", f: "follow", s: "select", "?": "keys",
};

// Keys count where nothing else wants them: on the page itself, on a chart, or on the bar.
function pressed(event, axes, selection) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  const isFree = at === document.body || at.id === "main" || at.classList?.contains("chart") || at.closest?.("[data-frame]");
  if (event.key === "Escape") selection.stop();
  const action = KEYS[event.key];
  if (!isFree || !action || document.querySelector("dialog[open]")) return;
  if (event.key.startsWith("Arrow") && at.closest?.("[data-frame]") && at.matches("select, input")) return;
  const axis = axisOf(at, axes) ?? axes[document.querySelector("[data-frame]").dataset.frame];
  event.preventDefault();
  act(action, axis, selection);
}

// Where the run is by now: a frame that follows moves on although its charts only saw its old end.
async function lookAtEnd(axis) {
  if (!axis.isTime || !axis.range || !axis.follows) return;
  const answer = await fetch(`/runs/${encodeURIComponent(document.body.dataset.run)}/span.json`).catch(() => null);
  if (!answer?.ok) return;
  const span = await answer.json();
  axis.grow({ from: span.start_ns / 1e6, to: span.end_ns / 1e6 });
}
