// Tables: sorted by a click on a head, filtered by typing; both are kept when the table is replaced by a newer one.

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const kept = new Map();

export function startTables() {
  prepareTables(document);
  document.addEventListener("fragment-swapped", (event) => prepareTables(event.detail ?? document));
}

export function prepareTables(root) {
  for (const table of root.querySelectorAll("table.sortable, table.filterable")) {
    if (table.dataset.isPrepared) continue;
    table.dataset.isPrepared = "yes";
    const key = keyOf(table);
    const state = kept.get(key) ?? { column: null, isDescending: false, words: "", focused: null };
    kept.set(key, state);
    if (table.classList.contains("sortable")) prepareHeads(table, state);
    if (table.classList.contains("filterable")) prepareFilter(table, state, key);
    show(table, state);
  }
}

function keyOf(table) {
  if (table.id) return table.id;
  return `table-${[...document.querySelectorAll("table")].indexOf(table)}`;
}

function bodyOf(table) {
  return table.tBodies[0] ?? table.createTBody();
}

function show(table, state) {
  if (state.column !== null && table.tHead?.rows[0]?.cells[state.column]) sort(table, state);
  if (table.classList.contains("filterable")) filter(table, state);
}

// --- order ---------------------------------------------------------------------------------------------------

function prepareHeads(table, state) {
  for (const head of table.tHead?.rows[0]?.cells ?? []) {
    if (head.classList.contains("unsorted") || head.querySelector("button")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => turn(table, state, head.cellIndex));
    button.addEventListener("focus", () => { state.focused = head.cellIndex; });
    // A head that is replaced loses the focus too: that does not count.
    button.addEventListener("blur", () => setTimeout(() => { if (button.isConnected) state.focused = null; }));
    if (state.focused === head.cellIndex && document.activeElement === document.body) button.focus({ preventScroll: true });
  }
}

function turn(table, state, column) {
  const isFirst = state.column !== column;
  state.isDescending = isFirst ? hasNumbers(table, column) : !state.isDescending;
  state.column = column;
  sort(table, state);
}

// Numbers are looked at the largest first, words from A on.
function hasNumbers(table, column) {
  const row = [...bodyOf(table).rows].find((each) => valueOf(each, column) !== null);
  return row !== undefined && typeof valueOf(row, column) === "number";
}

function sort(table, state) {
  const sign = state.isDescending ? -1 : 1;
  const body = bodyOf(table);
  const rows = [...body.rows].map((row) => ({ row, value: valueOf(row, state.column) }));
  rows.sort((one, other) => compare(one.value, other.value, sign));
  body.append(...rows.map((each) => each.row));
  for (const head of table.tHead.rows[0].cells) {
    if (!head.hasAttribute("aria-sort")) continue;
    const isOrdered = head.cellIndex === state.column;
    head.setAttribute("aria-sort", isOrdered ? (state.isDescending ? "descending" : "ascending") : "none");
  }
}

// What nobody knows comes last, whichever way.
function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === "number" && typeof other === "number") return sign * (one - other);
  return sign * collator.compare(String(one), String(other));
}

function valueOf(row, column) {
  const cell = row.cells[column];
  if (!cell) return null;
  const text = (cell.dataset.value ?? cell.textContent).trim();
  if (text === "" || text === "–") return null;
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

// --- filter --------------------------------------------------------------------------------------------------

function prepareFilter(table, state, key) {
  const known = document.getElementById(`filter-${key}`);
  if (known) return;
  const label = document.createElement("label");
  label.className = "table-filter";
  const input = document.createElement("input");
  input.type = "search";
  input.id = `filter-${key}`;
  input.placeholder = table.dataset.filter ?? "filter";
  input.setAttribute("aria-label", `${table.dataset.filter ?? "filter"}: ${table.caption?.textContent ?? "table"}`);
  const told = document.createElement("output");
  told.id = `filtered-${key}`;
  label.append(input, told);
  placeOf(table).before(label);
  input.addEventListener("input", () => {
    state.words = input.value;
    const current = tableOf(key);
    if (current) filter(current, state);
  });
}

// The field stands outside of what is replaced, so that nobody loses what he types.
function placeOf(table) {
  return table.closest("[data-fragment]") ?? table.closest(".table-wrap") ?? table;
}

function tableOf(key) {
  return [...document.querySelectorAll("table.filterable")].find((each) => keyOf(each) === key);
}

function filter(table, state) {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...bodyOf(table).rows];
  let count = 0;
  for (const row of rows) {
    const isMeant = words.length === 0 || words.every((word) => textOf(row).includes(word));
    row.hidden = !isMeant;
    if (isMeant) count += 1;
  }
  const told = document.getElementById(`filtered-${keyOf(table)}`);
  if (told) told.textContent = words.length ? `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
}

// A row's text, that which is cut included.
function textOf(row) {
  if (row.filterText === undefined) {
    const whole = [...row.querySelectorAll("[title]")].map((each) => each.title);
    row.filterText = [row.textContent, ...whole].join(" ").toLowerCase();
  }
  return row.filterText;
}
