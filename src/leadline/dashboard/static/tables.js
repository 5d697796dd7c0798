// Sortable and filterable tables, long ones cut; all three are kept when a table is updated.

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const states = new Map();
// A table of so many rows is shortened to 25 (style.css); a button for a few more rows would not be worth it.
const LONG_ROWS = 35;

export function startTables() {
  prepareTables();
  document.addEventListener("htmx:afterSwap", prepareTables);
}

function prepareTables() {
  for (const table of document.querySelectorAll("table.sortable, table.filterable")) {
    const key = keyOf(table);
    const state = states.get(key) ?? { column: null, isDescending: false, filterText: "", isWhole: false };
    states.set(key, state);
    if (table.classList.contains("sortable")) prepareHeads(table, state);
    if (table.classList.contains("filterable")) prepareFilter(table, state, key);
    prepareShortening(table, state, key);
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
  shorten(table, state);
}

// --- length --------------------------------------------------------------------------------------------------

// A button below a long table shows all of its rows; a filter does, too.
function prepareShortening(table, state, key) {
  const rows = bodyOf(table).rows.length;
  const old = document.getElementById(`whole-${key}`);
  if (state.isWhole || rows < LONG_ROWS) return old?.remove();
  const button = old ?? document.createElement("button");
  button.textContent = `Show all ${rows.toLocaleString("en")} rows`;
  if (old) return undefined;
  button.type = "button";
  button.id = `whole-${key}`;
  button.className = "quiet small show-all";
  button.addEventListener("click", () => {
    state.isWhole = true;
    button.remove();
    const current = tableOf(key);
    if (current) shorten(current, state);
  });
  (table.closest(".table-wrap") ?? table).after(button);
  return undefined;
}

function shorten(table, state) {
  const isShort = !state.isWhole && !state.filterText.trim() && bodyOf(table).rows.length >= LONG_ROWS;
  table.classList.toggle("short", isShort);
  const button = document.getElementById(`whole-${keyOf(table)}`);
  if (button) button.hidden = !isShort;
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
    button.addEventListener("click", () => toggleSort(table, state, head.cellIndex));
  }
}

function toggleSort(table, state, column) {
  const isFirst = state.column !== column;
  state.isDescending = isFirst ? hasNumbers(table, column) : !state.isDescending;
  state.column = column;
  sort(table, state);
}

// Numbers sort descending first, text ascending.
function hasNumbers(table, column) {
  const row = [...bodyOf(table).rows].find((candidate) => valueOf(candidate, column) !== null);
  return row !== undefined && typeof valueOf(row, column) === "number";
}

function sort(table, state) {
  const sign = state.isDescending ? -1 : 1;
  const body = bodyOf(table);
  const rows = [...body.rows].map((row) => ({ row, value: valueOf(row, state.column) }));
  rows.sort((a, b) => compare(a.value, b.value, sign));
  for (const { row } of rows) (body.moveBefore ?? body.insertBefore).call(body, row, null); // moveBefore keeps the focus
  for (const head of table.tHead.rows[0].cells) {
    if (!head.hasAttribute("aria-sort")) continue;
    const isOrdered = head.cellIndex === state.column;
    head.setAttribute("aria-sort", isOrdered ? (state.isDescending ? "descending" : "ascending") : "none");
  }
}

// Missing values sort last in both directions.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * collator.compare(String(a), String(b));
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
  if (document.getElementById(`filter-${key}`)) return;
  const label = document.createElement("label");
  label.className = "table-filter";
  const input = document.createElement("input");
  input.type = "search";
  input.id = `filter-${key}`;
  input.placeholder = table.dataset.filter ?? "filter";
  input.setAttribute("aria-label", `${table.dataset.filter ?? "filter"}: ${table.caption?.textContent ?? "table"}`);
  const count = document.createElement("output");
  count.id = `filtered-${key}`;
  label.append(input, count);
  (table.closest(".table-wrap") ?? table).before(label);
  input.addEventListener("input", () => {
    state.filterText = input.value;
    const current = tableOf(key);
    if (!current) return;
    filter(current, state);
    shorten(current, state);
  });
}

function tableOf(key) {
  return [...document.querySelectorAll("table.sortable, table.filterable")].find((table) => keyOf(table) === key);
}

function filter(table, state) {
  const words = state.filterText.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...bodyOf(table).rows];
  let count = 0;
  for (const row of rows) {
    const isMatch = words.length === 0 || words.every((word) => textOf(row).includes(word));
    row.hidden = !isMatch;
    if (isMatch) count += 1;
  }
  const output = document.getElementById(`filtered-${keyOf(table)}`);
  if (output) output.textContent = words.length ? `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
}

// The text of a row, including truncated parts.
function textOf(row) {
  const titles = [...row.querySelectorAll("[title]")].map((element) => element.title);
  return [row.textContent, ...titles].join(" ").toLowerCase();
}
