// SPDX-License-Identifier: Apache-2.0
// Tables as files: CSV as in RFC 4180, safe to open in a spreadsheet.

// A spreadsheet takes text that begins like this for a formula; an apostrophe keeps it text. Numbers
// are never touched, be they a name.
const FORMULA = /^(?:\s*[=+\-@＝＋－＠]|[\t\r\n])/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function csvText(text) {
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

function csvField(value) {
  if (typeof value === "string") return csvText(value);
  return value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
}

function csvLines(rows) {
  return rows.map((row) => row.map(csvField).join(",") + "\r\n").join("");
}

// content: text, bytes or a Blob.
function save(name, content, type = "text/csv;charset=utf-8") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function saveHeadlines() {
  save("summary.csv", csvLines([HEADLINES.columns, ...HEADLINES.rows]));
}

// The selected heads, or all that are shown when none is, with every column.
function saveHeads() {
  const heads = state.selected.size ? [...state.selected].sort((a, b) => a - b) : state.shown;
  const columns = [...COLUMNS.values()];
  const labels = columns.map((column) => (column.name === "model" ? "label" : column.name));
  const rows = heads.map((head) => [RAW.models[RAW.model[head]].name,
    ...columns.map((column) => (column.text ? textOf(column, head) : column.values[head]))]);
  save("heads.csv", csvLines([["model", ...labels], ...rows]));
}
