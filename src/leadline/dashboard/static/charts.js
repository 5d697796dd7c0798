// All charts of a page: draws the visible ones on shared axes, and again when the run or the theme changes.
import { Axis, readUrl, writeUrl } from "./axes.js";
import { Chart } from "./chart.js";
import { startRangeBars } from "./range_bar.js";
import { onThemeChange } from "./chart_style.js";
import { showsParts } from "./live_events.js";

const PRELOAD_MARGIN = "300px";

export function startCharts() {
  const axes = { time: new Axis("time"), step: new Axis("step") };
  for (const axis of Object.values(axes)) {
    readUrl(axis);
    axis.addEventListener("range", () => writeUrl(axis));
  }
  const charts = new Map();
  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => charts.get(entry.target)?.setVisible(entry.isIntersecting)),
    { rootMargin: PRELOAD_MARGIN },
  );
  const update = () => updateCharts(charts, axes, observer);
  update();
  document.addEventListener("htmx:afterSwap", update);
  document.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")), true);
  document.addEventListener("run-changed", (event) => {
    for (const chart of charts.values()) if (showsParts(chart.element, event.detail)) chart.refresh();
  });
  onThemeChange(() => charts.forEach((chart) => chart.repaint()));
  startRangeBars(axes, charts);
}

function updateCharts(charts, axes, observer) {
  for (const [element] of charts) {
    if (element.isConnected) continue;
    observer.unobserve(element);
    charts.delete(element);
  }
  for (const element of document.querySelectorAll(".chart[data-chart]")) {
    if (charts.has(element)) continue;
    charts.set(element, new Chart(element, axes[element.dataset.axis]));
    observer.observe(element);
  }
}
