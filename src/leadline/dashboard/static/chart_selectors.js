// Selectors beside a chart: devices, a worker, a number of steps.

const MAX_DEVICES = 20;

export function startChartSelectors() {
  document.addEventListener("change", (event) => {
    const selector = event.target.closest("[data-selector]");
    if (selector) apply(selector);
    if (event.target.matches("select[data-sets]")) setKey(event.target);
    if (event.target.matches("select[data-submits]")) event.target.form.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-select]");
    if (!button) return;
    const selector = button.closest("[data-selector]");
    boxes(selector).forEach((box, index) => { box.checked = button.dataset.select === "all" && index < MAX_DEVICES; });
    apply(selector);
  });
}

function boxes(selector) {
  return [...selector.querySelectorAll('input[type="checkbox"]')];
}

function apply(selector) {
  const all = boxes(selector);
  const chosen = all.filter((box) => box.checked).map((box) => box.value);
  const { base, mean } = selector.dataset;
  selector.dataset.label ??= selector.querySelector("[data-selected]").textContent;
  for (const box of all) box.disabled = chosen.length >= MAX_DEVICES && !box.checked;
  selector.querySelector("[data-selected]").textContent = chosen.length ? `${chosen.length} of ${all.length}` : selector.dataset.label;
  setQuery(selector.dataset.selector, chosen.length ? `${base}&devices=${chosen.map(encodeURIComponent).join(",")}` : base + mean);
}

function setKey(select) {
  for (const id of select.dataset.for.split(" ")) {
    const query = new URLSearchParams(document.getElementById(id)?.dataset.query ?? "");
    query.set(select.dataset.sets, select.value);
    setQuery(id, query.toString());
  }
}

function setQuery(id, query) {
  const chart = document.getElementById(id);
  if (!chart) return;
  chart.dataset.query = query;
  chart.dispatchEvent(new Event("chart-query-changed"));
}
