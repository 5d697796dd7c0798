// Live parts of a page: rendered again by the server when the run has changed, fetched by htmx and morphed into the page.
import { showsParts } from "./live_events.js";

const RETRY_MS = 1500;
const KEPT = ".chart, .range-bar, dialog, select[data-sets], :is(input, select, textarea):focus"; // drawn by scripts, chosen, or in use
let pressed = null; // element under a pressed pointer: changing it would lose the click

export function startLivePage() {
  Object.assign(Idiomorph.defaults.callbacks, {
    beforeNodeMorphed: (old, fresh) => !(old instanceof Element && isUpToDate(old, fresh)),
    beforeAttributeUpdated: (name, element) => name !== "open" || !(element instanceof HTMLDetailsElement),
  });
  document.addEventListener("run-changed", (event) => {
    for (const place of document.querySelectorAll("[hx-get][data-parts]")) if (showsParts(place, event.detail)) htmx.trigger(place, "refresh");
  });
  document.addEventListener("pointerdown", (event) => (pressed = event.target), true);
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => setTimeout(() => (pressed = null)), true);
  }
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.requestConfig.elt !== detail.target || !isBeingUsed(detail.target)) return; // forms take effect at once
    detail.shouldSwap = false;
    setTimeout(() => htmx.trigger(detail.target, "refresh"), RETRY_MS);
  });
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.verb !== "get") return;
    for (const [name, value] of [...detail.formData]) if (value === "") detail.formData.delete(name); // for short URLs
  });
}

// Whether an element stays as scripts have changed it: a chart, a sortable head, a local time.
function isUpToDate(old, fresh) {
  if (old.localName === "th") return old.querySelector("button.sort") !== null && old.textContent === fresh.textContent;
  if (old.localName === "time") return old.dateTime === fresh.dateTime;
  return old.matches(KEPT);
}

// Whether something in a part of the page is pressed or selected.
function isBeingUsed(place) {
  if (pressed && place.contains(pressed)) return true;
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && place.contains(selection.anchorNode);
}
