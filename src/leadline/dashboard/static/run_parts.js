// Detects which parts of a run have changed since an element was last updated.

const ENDED = ["Completed", "Failed", "Stopped", "Interrupted"];
const rendered = document.querySelector('[data-live="status"]')?.dataset.status;
const lastStates = new WeakMap();
let first = null;

// Whether one of the parts that an element names (all, if none) has changed since the last call.
export function partsChanged(element, state) {
  first ??= ENDED.includes(state.status) && state.status === rendered ? state : {}; // it may have changed since rendering
  const names = (element.dataset.parts ?? "").split(" ").filter(Boolean);
  const stateOf = (of) => JSON.stringify([of.status, names.length ? names.map((name) => of.parts?.[name]) : of.parts]);
  const before = lastStates.get(element) ?? stateOf(first);
  lastStates.set(element, stateOf(state));
  return before !== lastStates.get(element);
}
