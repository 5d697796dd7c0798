// Which parts of a run grew since an element last showed them.

const ENDED = ["Completed", "Failed", "Stopped", "Interrupted"];
const rendered = document.querySelector('[data-live="status"]')?.dataset.status;
const known = new WeakMap();
let first = null;

// Whether one of the parts that an element names (all, if none) is another than when it was last asked.
export function partsChanged(element, state) {
  first ??= ENDED.includes(state.status) && state.status === rendered ? state : {}; // it may have grown since
  const names = (element.dataset.parts ?? "").split(" ").filter(Boolean);
  const said = (of) => JSON.stringify([of.status, names.length ? names.map((name) => of.parts?.[name]) : of.parts]);
  const before = known.get(element) ?? said(first);
  known.set(element, said(state));
  return before !== known.get(element);
}
