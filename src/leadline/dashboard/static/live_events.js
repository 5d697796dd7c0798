// Live updates: one event stream per page, dispatched as "run-changed" on the document.

let source = null;

export function startLiveEvents() {
  const run = document.body.dataset.run;
  const url = run ? `/runs/${encodeURIComponent(run)}/live` : document.querySelector("[data-live-runs]") && "/live";
  if (!url) return;
  connect(url);
  // browsers limit connections per host: hidden pages release theirs
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect(url)));
  addEventListener("pagehide", disconnect);
}

function connect(url) {
  if (source || document.hidden) return;
  source = new EventSource(url);
  source.addEventListener("changed", (event) => dispatch(JSON.parse(event.data)));
  source.addEventListener("open", () => document.body.toggleAttribute("data-disconnected", false));
  source.addEventListener("error", () => document.body.toggleAttribute("data-disconnected", true));
}

function disconnect() {
  source?.close();
  source = null;
}

function dispatch(state) {
  for (const badge of document.querySelectorAll('[data-live="status"]')) {
    if (badge.dataset.status === state.status) continue;
    badge.textContent = state.status;
    badge.dataset.status = state.status;
  }
  document.dispatchEvent(new CustomEvent("run-changed", { detail: state }));
}
