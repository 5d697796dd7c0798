// Times in the viewer's time zone: <time datetime="2026-11-20T17:03:12.000Z">.
import { formatMoment, formatTime } from "./times.js";

export function startTimestamps() {
  showTimestamps();
  document.addEventListener("htmx:afterSwap", showTimestamps);
}

function showTimestamps() {
  for (const element of document.querySelectorAll("time[datetime]:not([title])")) {
    const time = new Date(element.dateTime);
    if (Number.isNaN(time.getTime())) continue;
    element.textContent = formatTime(time.getTime());
    element.title = `${formatMoment(time.getTime())} · ${element.dateTime}`;
  }
}
