// SPDX-License-Identifier: Apache-2.0
// What is filtered, sorted, selected and looked at; charts and table listen to it.

const state = {
  text: "", // words that all must be found
  only: new Map(), // text column -> index
  layers: [-Infinity, Infinity],
  ranges: [], // {name, low, high}
  typed: null, // another one, that is being written
  hidden: new Set(), // groups of the legend
  colorBy: "",
  sort: { name: "", down: false },
  shown: [], // heads that pass, in the order of the table
  selected: new Set(),
  pointed: -1, // head under the pointer or the keyboard
};

const listeners = { filter: [], selection: [], pointed: [], color: [] };
const on = (what, action) => listeners[what].push(action);
const tell = (what) => listeners[what].forEach((action) => action());

// ---- groups: what points are coloured by ---------------------------------------------------------

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "ink"];
const SHAPES = ["circle", "rect", "triangle", "rectRot", "crossRot", "star", "cross"];
const VIRIDIS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const CATEGORY_COLORS = ["#0072b2", "#56b4e9", "#d55e00", "#009e73", "#98a1ab"]; // as in the figures

const groups = { list: [], of: null };

function layerGroups() {
  const most = RAW.layer.reduce((a, b) => Math.max(a, b), 0) + 1;
  const bins = Math.min(VIRIDIS.length, most);
  const bin = (layer) => Math.min(bins - 1, Math.floor((layer * bins) / most));
  const list = Array.from({ length: bins }, (_, b) => {
    const first = Math.ceil((b * most) / bins);
    const last = Math.ceil(((b + 1) * most) / bins) - 1;
    const step = bins > 1 ? Math.round((b * (VIRIDIS.length - 1)) / (bins - 1)) : 0;
    return {
      label: first === last ? `layer ${first}` : `layers ${first}–${last}`,
      color: VIRIDIS[step], shape: "circle",
    };
  });
  return { list, of: (head) => bin(RAW.layer[head]) };
}

function textGroups(column) {
  const list = column.texts.map((label, i) => {
    const color = column.name === "category" ? CATEGORY_COLORS[i] : COLORS[i % COLORS.length];
    return { label, color, shape: SHAPES[(i + Math.floor(i / COLORS.length)) % SHAPES.length] };
  });
  const none = list.length;
  if (column.values.some(Number.isNaN)) list.push({ label: "none", color: "ink", shape: "circle" });
  return { list, of: (head) => (Number.isNaN(column.values[head]) ? none : column.values[head]) };
}

function colorBy(name) {
  state.colorBy = name;
  state.hidden.clear();
  Object.assign(groups, name === "layer" ? layerGroups() : textGroups(COLUMNS.get(name)));
  groups.index = Int32Array.from({ length: NUM_HEADS }, (_, head) => groups.of(head));
}

// ---- filter and order ----------------------------------------------------------------------------

let searched = null; // the words of each head, made when first needed

function searchTexts() {
  if (searched) return searched;
  const texts = [...COLUMNS.values()].filter((column) => column.text);
  searched = Array.from({ length: NUM_HEADS }, (_, head) =>
    [...texts.map((column) => textOf(column, head)), RAW.models[RAW.model[head]].name, headName(head)]
      .join("\n").toLowerCase());
  return searched;
}

function passes(head, words) {
  if (state.hidden.has(groups.index[head])) return false;
  for (const [name, index] of state.only)
    if (COLUMNS.get(name).values[head] !== index) return false;
  const layer = RAW.layer[head];
  if (layer < state.layers[0] || layer > state.layers[1]) return false;
  for (const { name, low, high } of state.typed ? [...state.ranges, state.typed] : state.ranges) {
    const value = COLUMNS.get(name).values[head];
    if (!(value >= low && value <= high)) return false;
  }
  return words.every((word) => searched[head].includes(word));
}

// Texts go in the study's order, which names of checkpoints ("100", "20") would not give. Heads without a
// number come last whichever way the order goes; equal ones in table order.
function comparison() {
  const column = COLUMNS.get(state.sort.name);
  if (!column) return null;
  const sign = state.sort.down ? -1 : 1, key = column.values;
  return (a, b) => {
    const x = key[a], y = key[b];
    const noX = Number.isNaN(x), noY = Number.isNaN(y);
    if (noX || noY) return noX - noY || a - b;
    return sign * (x - y) || a - b;
  };
}

function sortShown() {
  const compare = comparison();
  if (compare) state.shown.sort(compare);
}

const passing = new Uint8Array(NUM_HEADS).fill(1); // 1 for each head that is shown

function applyFilter() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length) searchTexts();
  state.shown = [];
  for (let head = 0; head < NUM_HEADS; head++) {
    passing[head] = passes(head, words) ? 1 : 0;
    if (passing[head]) state.shown.push(head);
  }
  sortShown();
  tell("filter");
}

function select(heads, add) {
  if (!add) state.selected.clear();
  for (const head of heads) state.selected.add(head);
  tell("selection");
}

function toggle(head) {
  if (!state.selected.delete(head)) state.selected.add(head);
  tell("selection");
}

function point(head) {
  if (state.pointed === head) return;
  state.pointed = head;
  tell("pointed");
}
