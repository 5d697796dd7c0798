// Live updates: one event stream per page, dispatched as "run-changed" with the names of the changed parts of the run.
//
// htmx's SSE extension is not used: it keeps the streams of hidden pages open.

const ENDED = ["Completed", "Failed", "Stopped", "Interrupted"];
const COMPACTION_POLL_MS = 3000;
let source = null;
let last = null; // state of the run as last received
let isCompacting = false;

export function startLiveEvents() {
  const run = document.body.dataset.run;
  const url = run ? `/runs/${encodeURIComponent(run)}/live` : document.getElementById("live") && "/live";
  if (!url) return;
  connect(url);
  // browsers limit connections per host: hidden pages release theirs
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect(url)));
  addEventListener("pagehide", disconnect);
  setInterval(pollCompaction, COMPACTION_POLL_MS);
}

function connect(url) {
  if (source || document.hidden) return;
  source = new EventSource(url);
  source.addEventListener("changed", (event) => receive(JSON.parse(event.data)));
  source.addEventListener("open", () => document.getElementById("not-live")?.remove());
  source.addEventListener("error", () => source?.readyState === EventSource.CLOSED && onRefusal());
}

// Browsers connect again when the dashboard does not respond, but not when it refuses them, such as after a restart with another token.
function onRefusal() {
  disconnect();
  if (document.getElementById("not-live")) return;
  const notice = document.createElement("p");
  notice.id = "not-live";
  notice.className = "notice warn";
  notice.setAttribute("role", "alert");
  notice.textContent = "This page is no longer updated: the dashboard refuses it. Reload the page, or open the link that leadline ui printed last.";
  document.getElementById("main").prepend(notice);
}

function disconnect() {
  source?.close();
  source = null;
}

function receive(state) {
  const badge = document.querySelector('[data-live="status"]');
  // a run that has not ended may have changed since the page was rendered
  last ??= ENDED.includes(state.status) && state.status === badge?.dataset.status ? state : { parts: {} };
  const parts = Object.keys(state.parts).filter((part) => state.status !== last.status || state.parts[part] !== last.parts[part]);
  last = state;
  if (badge && badge.dataset.status !== state.status) badge.textContent = badge.dataset.status = state.status;
  if (badge) badge.dataset.level = state.level;
  if (parts.length) dispatch(parts);
}

// A run that is being compacted does not change, but more of it becomes available, at last when it is done.
function pollCompaction() {
  const wasCompacting = isCompacting;
  isCompacting = document.querySelector("[data-compacting]") !== null;
  if (last && (isCompacting || wasCompacting)) dispatch(Object.keys(last.parts));
}

function dispatch(parts) {
  document.dispatchEvent(new CustomEvent("run-changed", { detail: parts }));
}

// Whether an element shows one of these parts of the run; an element that names none shows all.
export function showsParts(element, parts) {
  const names = (element.dataset.parts ?? "").split(" ").filter(Boolean);
  return !names.length || names.some((name) => parts.includes(name));
}
