// Times in the viewer's time zone: <time datetime="2026-11-20T17:03:12.000Z">.

const SHORT = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const LONG = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export function startTimestamps() {
  showTimestamps();
  document.addEventListener("htmx:afterSwap", showTimestamps);
}

function showTimestamps() {
  for (const element of document.querySelectorAll("time[datetime]:not([title])")) {
    const time = new Date(element.dateTime);
    if (Number.isNaN(time.getTime())) continue;
    element.textContent = SHORT.format(time);
    element.title = `${LONG.format(time)} · ${element.dateTime}`;
  }
}
