// Charts over steps, drawn over the time since the first of them, or over the time of day.
import { numbers } from "./times.js";

export const ALONG = { step: "step", elapsed: "time since start", clock: "time of day" };
const UNITS = [["days", 86_400_000], ["hours", 3_600_000], ["minutes", 60_000], ["seconds", 1000]];
const LEAST_UNITS = 2;

// Move what is drawn from steps to times.
export function overTime(traces, layout, along) {
  const { step: steps, start_ms: start, ms } = layout.meta.moments;
  const length = ms.at(-1);
  const [unit, size] = UNITS.find(([, size]) => length >= LEAST_UNITS * size) ?? UNITS.at(-1);
  const moved = (step) => {
    const time = momentOf(step, steps, ms);
    return along === "clock" ? start + time : time / size;
  };
  for (const trace of traces) if (trace.x !== undefined) trace.x = Array.from(numbers(trace.x), moved);
  for (const item of [...(layout.shapes ?? []), ...(layout.annotations ?? [])]) {
    if (item.xref === "paper") continue;
    for (const key of ["x", "x0", "x1"]) if (typeof item[key] === "number") item[key] = moved(item[key]);
  }
  const { gridcolor, linecolor, tickcolor } = layout.xaxis;
  const title = along === "clock" ? "time of day" : `${unit} since the first step`;
  layout.xaxis = { gridcolor, linecolor, tickcolor, title: { text: title }, type: along === "clock" ? "date" : "linear" };
}

// When a step was, in ms since the first, by the nearest known ones.
function momentOf(step, steps, ms) {
  const next = steps.findIndex((known) => known >= step);
  if (next <= 0) return next ? ms.at(-1) : 0;
  const share = (step - steps[next - 1]) / (steps[next] - steps[next - 1]);
  return ms[next - 1] + share * (ms[next] - ms[next - 1]);
}
