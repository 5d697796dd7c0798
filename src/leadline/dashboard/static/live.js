// Live updates: one stream of events per page; everything else listens to "run-changed" on the document.

let source = null;

export function startLive() {
  const run = document.body.dataset.run;
  const address = run ? `/runs/${encodeURIComponent(run)}/live` : document.querySelector("[data-live-runs]") && "/live";
  if (!address) return;
  listen(address);
  // a browser keeps few connections to one host: pages that nobody sees leave theirs to others
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : listen(address)));
  addEventListener("pagehide", leave);
}

function listen(address) {
  if (source || document.hidden) return;
  source = new EventSource(address);
  source.addEventListener("changed", (event) => tell(JSON.parse(event.data)));
  source.addEventListener("open", () => document.body.toggleAttribute("data-away", false));
  source.addEventListener("error", () => document.body.toggleAttribute("data-away", true));
}

function leave() {
  source?.close();
  source = null;
}

function tell(state) {
  for (const place of document.querySelectorAll('[data-live="status"]')) {
    if (place.dataset.status === state.status) continue;
    place.textContent = state.status;
    place.dataset.status = state.status;
  }
  document.dispatchEvent(new CustomEvent("run-changed", { detail: state }));
}
