// SPDX-License-Identifier: Apache-2.0
// The numbers of the page: every head by its index, every column by its name.

const $ = (id) => document.getElementById(id);

function readBlock(id) {
  const block = $(id);
  return block ? JSON.parse(block.textContent) : null;
}

const HEADLINES = readBlock("qk-headlines");
const RAW = readBlock("qk-heads");
const NUM_HEADS = RAW ? RAW.model.length : 0;

// A column: {name, head: over it in a table, if that is not its name, label, about, text: bool, first: shown before others are
// chosen, values} with a number for each head, NaN for none; of a text column the number is an index into `texts`.
const COLUMNS = new Map();

const headOf = (column) => column.head || column.name;

function addColumn(column) {
  COLUMNS.set(column.name, column);
}

const POWERS = Array.from({ length: 23 }, (_, k) => Number(`1e${k}`));

// The decimal number of seven digits that a float stands for. toPrecision would take a third of the time in which a large page opens.
function ofFloat(value) {
  if (!value) return value;
  const power = POWERS[6 - Math.floor(Math.log10(Math.abs(value)))];
  return power ? Math.round(value * power) / power : Number(value.toPrecision(7));
}

// Loops, which are faster than Uint8Array.from: a large page has a million of these bytes.
function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// A list, or base64 of little-endian floats.
function numbers(values) {
  const packed = typeof values === "string";
  const view = packed ? new DataView(bytesOf(values).buffer) : null;
  const out = new Float64Array(packed ? view.byteLength / 4 : values.length);
  for (let i = 0; i < out.length; i++)
    out[i] = packed ? ofFloat(view.getFloat32(4 * i, true)) : values[i] === null ? NaN : values[i];
  return out;
}

function depths() {
  return RAW.model.map((m, i) => RAW.layer[i] / (RAW.models[m].last_layer || 1));
}

function makeColumns() {
  const of = (list) => numbers(RAW.model.map((m) => list[m]));
  const id = (name, label, about, values) =>
    addColumn({ name, label, about, text: false, id: true, values: numbers(values) });
  const text = (name, label, about, texts, values) =>
    addColumn({ name, label, about, text: true, id: true, texts, values });
  text("model", "model", "label of the model", RAW.models.map((m) => m.label), numbers(RAW.model));
  if (RAW.families.length > 1 || RAW.families[0] !== RAW.models[0].label)
    text("family", "family", "family of the model", RAW.families, of(RAW.models.map((m) => m.family)));
  if (RAW.phases.length)
    text("phase", "phase", "phase of training", RAW.phases, of(RAW.models.map((m) => m.phase)));
  id("layer", "layer", "layer, from 0", RAW.layer);
  id("q_head", "query head", "query head of the layer, from 0", RAW.q_head);
  id("k_head", "key head", "key head it attends with", RAW.k_head);
  id("depth", "depth (layer / last layer)", "layer over the last layer of the model", depths());
  if (RAW.category.some((c) => c >= 0))
    text("category", "category", "category, from r_q and r_k on PC0", RAW.categories,
      numbers(RAW.category.map((c) => (c < 0 ? null : c))));
  for (const field of RAW.fields) {
    for (const part of ["values", "lo", "hi", "cv"])
      if (field[part]) field[part] = numbers(field[part]);
    addColumn({ ...field, text: false });
    for (const [end, word] of [["lo", "lower"], ["hi", "upper"]])
      if (field[end])
        addColumn({ name: `${field.name}_${end}`, label: `${word} end of the interval of ${field.name}`, end: true, text: false,
          about: `${word} end of the interval of ${field.name} over texts`, values: field[end] });
  }
  RAW.fields = null; // the copies above are what is used
}

if (RAW) makeColumns();

function textOf(column, head) {
  const value = column.values[head];
  return Number.isNaN(value) ? "" : column.texts[value];
}

// "L5H13": how a head is called next to its model.
function headName(head) {
  return `L${RAW.layer[head]}H${RAW.q_head[head]}`;
}

// Long names are cut on the screen only; filters and exports have them whole.
function shortText(text, points = 40) {
  const characters = [...text];
  return characters.length > points ? characters.slice(0, points).join("") + "…" : text;
}

// A number for reading, with about four digits and a real minus sign.
function show(value, digits = 4) {
  if (Number.isNaN(value) || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value).replace("-", "−");
  const text = size >= 1e-3 && size < 1e5 ? value.toPrecision(digits) : value.toExponential(digits - 1);
  return text.replace(/-/g, "−");
}

// Without zeros at its end: 0.5, not 0.50.
const tickText = (value) => show(Number(value.toPrecision(3)), 3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
