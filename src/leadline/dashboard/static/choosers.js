// What a chart shows, chosen beside it: devices one by one, a worker, a number of steps.

const MOST = 20;

export function startChoosers() {
  document.addEventListener("change", (event) => {
    const chooser = event.target.closest("[data-chooser]");
    if (chooser) choose(chooser);
    if (event.target.matches("select[data-sets]")) setKey(event.target);
    if (event.target.matches("select[data-submits]")) event.target.form.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choose]");
    if (!button) return;
    const chooser = button.closest("[data-chooser]");
    boxes(chooser).forEach((box, place) => { box.checked = button.dataset.choose === "all" && place < MOST; });
    choose(chooser);
  });
}

function boxes(chooser) {
  return [...chooser.querySelectorAll('input[type="checkbox"]')];
}

function choose(chooser) {
  const all = boxes(chooser);
  const chosen = all.filter((box) => box.checked).map((box) => box.value);
  const { base, mean } = chooser.dataset;
  chooser.dataset.words ??= chooser.querySelector("[data-chosen]").textContent;
  for (const box of all) box.disabled = chosen.length >= MOST && !box.checked;
  chooser.querySelector("[data-chosen]").textContent = chosen.length ? `${chosen.length} of ${all.length}` : chooser.dataset.words;
  ask(chooser.dataset.chooser, chosen.length ? `${base}&device=${chosen.map(encodeURIComponent).join(",")}` : base + mean);
}

function setKey(select) {
  for (const id of select.dataset.for.split(" ")) {
    const query = new URLSearchParams(document.getElementById(id)?.dataset.query ?? "");
    query.set(select.dataset.sets, select.value);
    ask(id, query.toString());
  }
}

function ask(id, query) {
  const place = document.getElementById(id);
  if (!place) return;
  place.dataset.query = query;
  place.dispatchEvent(new Event("chart-asked"));
}
