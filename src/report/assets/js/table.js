// SPDX-License-Identifier: Apache-2.0
// Tables that sort by their headers. First that of all heads: only the rows on the screen are in the document, so that
// 20,000 are as quick as 20; arrow keys walk through all of them. Then all others, whose rows are there.

const ROW_HEIGHT = 28; // as in the style sheet
const SPARE_ROWS = 8;
const FIRST_COLUMNS = ["model", "layer", "q_head", "category", "r_q", "r_k", "ev0", "bias_strength",
  "separation_strength", "plane_var_fraction", "ap_overall", "ap_drop"];

const table = { columns: [], active: 0, first: 0, last: -1, due: false };

function chooseColumns() {
  const names = [...FIRST_COLUMNS.filter((name) => COLUMNS.has(name)), ...[...COLUMNS.values()].filter((c) => c.first).map((c) => c.name)];
  table.columns = names.map((name) => COLUMNS.get(name));
  $("columns").replaceChildren(...[...COLUMNS.values()].map((column) => {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = names.includes(column.name);
    box.addEventListener("change", () => {
      const ticked = [...$("columns").querySelectorAll("input")].map((input) => input.checked);
      table.columns = [...COLUMNS.values()].filter((_, i) => ticked[i]);
      drawHead();
      drawRows(true);
    });
    label.title = column.about;
    label.append(box, ` ${headOf(column)}`);
    return label;
  }));
}

function sortBy(name) {
  const same = state.sort.name === name;
  state.sort = { name, down: same ? !state.sort.down : !COLUMNS.get(name).id };
  drawHead();
  if (state.sort.name) sortShown();
  table.active = 0;
  $("table").scrollTop = 0;
  drawRows(true);
  $("table").querySelector(`th[data-name="${name}"] button`).focus();
  linkChanged();
}

function drawHead() {
  const row = document.createElement("tr");
  for (const column of table.columns) {
    const cell = document.createElement("th");
    const button = document.createElement("button");
    const sorted = state.sort.name === column.name;
    cell.scope = "col";
    cell.dataset.name = column.name;
    cell.className = column.text ? "text" : "";
    cell.setAttribute("aria-sort", !sorted ? "none" : state.sort.down ? "descending" : "ascending");
    button.type = "button";
    button.title = column.about;
    button.textContent = headOf(column) + (!sorted ? "" : state.sort.down ? " ▼" : " ▲");
    button.addEventListener("click", () => sortBy(column.name));
    cell.append(button);
    row.append(cell);
  }
  $("table").querySelector("thead").replaceChildren(row);
}

function makeRow(position) {
  const head = state.shown[position];
  const row = document.createElement("tr");
  row.dataset.head = head;
  row.dataset.position = position;
  row.tabIndex = position === table.active ? 0 : -1;
  row.setAttribute("aria-rowindex", position + 2);
  markRow(row, head);
  for (const column of table.columns) {
    const cell = document.createElement("td");
    if (column.text) {
      const name = document.createElement("bdi");
      name.textContent = shortText(textOf(column, head));
      cell.className = "text";
      cell.append(name);
    } else {
      cell.textContent = show(column.values[head]);
    }
    row.append(cell);
  }
  return row;
}

function markRow(row, head) {
  row.setAttribute("aria-selected", String(state.selected.has(head)));
  row.classList.toggle("pointed", head === state.pointed);
}

function spacer(rows) {
  const row = document.createElement("tr");
  const cell = document.createElement("td");
  row.className = "spacer";
  row.setAttribute("aria-hidden", "true");
  cell.colSpan = table.columns.length || 1;
  cell.style.height = `${rows * ROW_HEIGHT}px`;
  row.append(cell);
  return row;
}

function drawRows(force) {
  const box = $("table");
  const total = state.shown.length;
  const seen = Math.ceil(box.clientHeight / ROW_HEIGHT) + 1;
  const top = Math.floor(box.scrollTop / ROW_HEIGHT);
  const first = Math.max(0, Math.min(top, total - seen) - SPARE_ROWS);
  const last = Math.min(total, top + seen + SPARE_ROWS) - 1;
  if (!force && first === table.first && last === table.last) return;
  const focused = box.contains(document.activeElement) && document.activeElement.matches("tbody tr");
  Object.assign(table, { first, last });
  table.active = Math.min(Math.max(table.active, 0), Math.max(total - 1, 0));
  const rows = [];
  for (let position = first; position <= last; position++) rows.push(makeRow(position));
  if (rows.length && !rows.some((row) => row.tabIndex === 0)) rows[0].tabIndex = 0;
  const body = box.querySelector("tbody");
  body.replaceChildren(spacer(first), ...rows, spacer(Math.max(0, total - 1 - last)));
  box.querySelector("table").setAttribute("aria-rowcount", total + 1);
  if (focused) {
    const row = body.querySelector(`tr[data-position="${table.active}"]`) || rows[0];
    if (row) row.focus({ preventScroll: true });
  }
}

function drawSoon() {
  if (table.due) return;
  table.due = true;
  requestAnimationFrame(() => {
    table.due = false;
    drawRows(false);
  });
}

function markRows() {
  for (const row of $("table").querySelectorAll("tbody tr[data-head]")) markRow(row, Number(row.dataset.head));
}

function scrollTo(position) {
  const box = $("table");
  const header = box.querySelector("thead").offsetHeight;
  const top = position * ROW_HEIGHT, room = box.clientHeight - header - ROW_HEIGHT;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top > box.scrollTop + room) box.scrollTop = top - room;
}

// Brings the first selected head into view (a click in a chart).
function showSelected() {
  if (state.selected.size !== 1) return;
  const position = state.shown.indexOf([...state.selected][0]);
  if (position < 0) return;
  table.active = position;
  scrollTo(position);
  drawRows(true);
}

function walk(event) {
  const page = Math.max(1, Math.floor($("table").clientHeight / ROW_HEIGHT) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const row = event.target.closest("tbody tr[data-head]");
  if (!row) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    toggle(Number(row.dataset.head));
  } else if (event.key === "o" || event.key === "O") {
    openHead(Number(row.dataset.head), row);
  } else if (event.key in steps) {
    event.preventDefault();
    table.active = Math.min(Math.max(Number(row.dataset.position) + steps[event.key], 0), state.shown.length - 1);
    scrollTo(table.active);
    drawRows(true);
    const next = $("table").querySelector(`tr[data-position="${table.active}"]`);
    if (next) next.focus({ preventScroll: true });
  }
}

function startTable() {
  const box = $("table");
  const headOf = (event) => {
    const row = event.target.closest("tbody tr[data-head]");
    return row ? Number(row.dataset.head) : -1;
  };
  chooseColumns();
  drawHead();
  box.addEventListener("scroll", drawSoon, { passive: true });
  box.addEventListener("keydown", walk);
  box.addEventListener("click", (event) => {
    const head = headOf(event);
    if (head < 0) return;
    table.active = Number(event.target.closest("tr").dataset.position);
    if (event.shiftKey || event.ctrlKey || event.metaKey) toggle(head);
    else if (state.selected.size === 1 && state.selected.has(head)) select([], false);
    else select([head], false);
  });
  box.addEventListener("dblclick", (event) => headOf(event) >= 0 && openHead(headOf(event), event.target.closest("tr")));
  box.addEventListener("pointerover", (event) => point(headOf(event)));
  box.addEventListener("pointerleave", () => point(-1));
  box.addEventListener("focusin", (event) => point(headOf(event)));
  new ResizeObserver(drawSoon).observe(box);
  on("filter", () => {
    table.active = 0;
    box.scrollTop = 0;
    drawRows(true);
  });
  on("selection", markRows);
  on("pointed", markRows);
}

function linkTable() {
  linkPart("sort", () => (state.sort.name ? (state.sort.down ? "-" : "") + state.sort.name : ""), (value) => {
    const name = value.replace(/^-/, "");
    state.sort = { name: COLUMNS.has(name) ? name : "", down: value.startsWith("-") };
    drawHead();
    applyFilter();
  }, "explorer");
}

// ---- tables whose rows are all in the document -----------------------------------------------------

// A number, else the text; null where there is nothing, which comes last whichever way the order goes.
function sortKey(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const value = Number(text.replaceAll(",", "").replaceAll("−", "-"));
  return text === "" || text === "–" ? null : Number.isNaN(value) ? text : value;
}

// By the first column: in the order in which the rows came, which names would not give.
function sortedRows(rows, index, down) {
  const keyed = rows.map((row) => ({ row, place: Number(row.dataset.place), key: index === 0 ? Number(row.dataset.place) : sortKey(row.cells[index]) }));
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
  keyed.sort((a, b) => (a.key === null) - (b.key === null) || order(a.key, b.key) || a.place - b.place);
  return keyed.map(({ row }) => row);
}

// Rows that sum up others, and headings of groups, stay where they are; the rows between two of them are sorted.
const stays = (row) => row.matches(".family, .all") || row.querySelector(".grouphead, .missing") !== null;

function sortTable(table, index, down) {
  const out = [];
  let run = [];
  for (const row of [...table.tBodies[0].rows, null]) {
    if (row && !stays(row)) {
      run.push(row);
      continue;
    }
    out.push(...sortedRows(run, index, down), ...(row ? [row] : []));
    run = [];
  }
  table.tBodies[0].replaceChildren(...out);
}

function makeSortable(table) {
  const headers = [...table.tHead.rows[0].cells], rows = [...table.tBodies[0].rows];
  if (rows.filter((row) => !stays(row)).length < 2) return;
  rows.forEach((row, place) => (row.dataset.place = place));
  headers.forEach((cell, index) => {
    const button = make("button", { type: "button" }, ...cell.childNodes);
    cell.setAttribute("aria-sort", "none");
    cell.append(button);
    button.addEventListener("click", () => {
      const was = cell.getAttribute("aria-sort");
      const down = was === "none" ? index > 0 : was === "ascending";
      for (const other of headers) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      sortTable(table, index, down);
    });
  });
}

function startTables() {
  for (const table of document.querySelectorAll("table.numbers")) makeSortable(table);
}
