// All charts of a page: those in sight are drawn, on common axes, anew when the run has grown or the colours change.
import { Axis, readAddress, writeAddress } from "./axes.js";
import { Chart } from "./chart.js";
import { startFrame } from "./frame.js";
import { onRepaint } from "./looks.js";
import { partsChanged } from "./parts.js";

const NEAR = "300px";

export function startCharts() {
  const axes = { time: new Axis("time"), step: new Axis("step") };
  for (const axis of Object.values(axes)) {
    readAddress(axis);
    axis.addEventListener("range", () => writeAddress(axis));
  }
  const charts = new Map();
  const watcher = new IntersectionObserver(
    (entries) => entries.forEach((entry) => charts.get(entry.target)?.see(entry.isIntersecting)),
    { rootMargin: NEAR },
  );
  const adopt = () => adoptAll(charts, axes, watcher);
  adopt();
  document.addEventListener("fragment-swapped", adopt);
  document.addEventListener("charts-added", adopt);
  document.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")), true);
  document.addEventListener("run-changed", (event) => {
    for (const chart of charts.values()) if (partsChanged(chart.place, event.detail)) chart.grow();
  });
  document.addEventListener("run-readier", () => charts.forEach((chart) => chart.grow()));
  onRepaint(() => charts.forEach((chart) => chart.repaint()));
  startFrame(axes, charts);
}

function adoptAll(charts, axes, watcher) {
  for (const [place] of charts) {
    if (place.isConnected) continue;
    watcher.unobserve(place);
    charts.delete(place);
  }
  for (const place of document.querySelectorAll(".chart[data-chart], .chart[data-src]")) {
    if (charts.has(place)) continue;
    charts.set(place, new Chart(place, axes[place.dataset.axis]));
    watcher.observe(place);
  }
}
