// Smoothing of the lines of a chart by an exponential moving average.
import { numbers } from "./times.js";

const FEWEST_VALUES = 10;
const BACKGROUND_OPACITY = 0.25;

// Whether a figure has a line of values over steps that can be smoothed.
export function isSmoothable(figure) {
  return figure.layout?.meta?.axis === "step" && figure.data.some(isLine);
}

// The traces with a smoothed copy of each line, which takes its place in the legend and on hover; they stay in the background.
export function smoothed(traces, weight) {
  if (!weight) return traces;
  return traces.flatMap((trace) => {
    if (!isLine(trace)) return [trace];
    const behind = { ...trace, opacity: BACKGROUND_OPACITY, showlegend: false, hoverinfo: "skip", hovertemplate: undefined };
    return [behind, { ...trace, y: average(numbers(trace.y), weight), mode: "lines" }];
  });
}

// A line of values, not the edge of a band.
function isLine(trace) {
  return (trace.mode ?? "").includes("lines") && !trace.fill && trace.hoverinfo !== "skip" && numbers(trace.y).length >= FEWEST_VALUES;
}

// The average of the values so far, each weighted by ``weight`` to the power of its age; gaps stay gaps.
function average(values, weight) {
  let sum = 0;
  let total = 0;
  return Array.from(values, (value) => {
    if (!Number.isFinite(value)) return null;
    sum = weight * sum + value;
    total = weight * total + 1;
    return sum / total;
  });
}
