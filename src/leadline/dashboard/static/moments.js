// Moments in the viewer's own time zone: <time datetime="2026-11-20T17:03:12.000Z">.

const SHORT = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const LONG = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export function startMoments() {
  showMoments(document);
  document.addEventListener("fragment-swapped", (event) => showMoments(event.detail));
}

export function showMoments(within) {
  for (const place of within.querySelectorAll("time[datetime]")) {
    const moment = new Date(place.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    place.textContent = SHORT.format(moment);
    place.title = `${LONG.format(moment)} · ${place.dateTime}`;
  }
}
