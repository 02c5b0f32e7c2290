// SPDX-License-Identifier: Apache-2.0
// All heads in one picture: layer by head, one map a model, coloured by any column. What has no number
// is hatched. Cells are drawn on a canvas; pointer and arrow keys walk, a click or Enter opens the head, with
// Shift it marks it, so that several can be opened side by side.

const FIRST_FIELDS = ["r_q", "category", "ap_overall", "bias_strength", "distance_share"];
const MANY_MAPS = 4; // that are drawn smaller
const MAP_GUTTER = 26, MAP_FOOT = 18, MAP_FONT = "11.5px system-ui, sans-serif";
const maps = { list: [], scale: null, field: "", model: "", said: null }; // said: the [map, cell] of the read-out

// ---- colours -------------------------------------------------------------------------------------

function mixColors(stops, x) {
  const at = Math.min(Math.max(x, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const part = (stop, from) => parseInt(stop.slice(from, from + 2), 16);
  const channel = (from) => Math.round(part(stops[i], from) * (1 - at + i) + part(stops[i + 1], from) * (at - i));
  return `rgb(${channel(1)}, ${channel(3)}, ${channel(5)})`;
}

// A column has the colours that it has in the figures, which zero is the palest of where there are two sides;
// what is no column of a table has those of the layers.
function numberScale(column) {
  const finite = column.values.filter((v) => Number.isFinite(v));
  if (finite.length === 0) return { none: true, color: () => null };
  const least = finite.reduce((a, b) => Math.min(a, b)), most = finite.reduce((a, b) => Math.max(a, b));
  const { low, high, colors: stops } = column.scale ?? { low: least, high: Math.max(most, least + 1), colors: VIRIDIS };
  return {
    low, high, stops, cutLow: least < low, cutHigh: most > high,
    color: (value) => (Number.isNaN(value) ? null : mixColors(stops, (value - low) / (high - low))),
  };
}

function textScale(column) {
  const { list } = textGroups(column);
  return { list, color: (value) => (Number.isNaN(value) ? null : inkOr(list[value].color)) };
}

function hatch(context) {
  const tile = document.createElement("canvas");
  const brush = tile.getContext("2d");
  tile.width = tile.height = 6;
  brush.fillStyle = css("--panel");
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = css("--faint");
  brush.beginPath();
  for (const x of [-3, 3, 9]) {
    brush.moveTo(x - 4, 7);
    brush.lineTo(x + 4, -1);
  }
  brush.stroke();
  return context.createPattern(tile, "repeat");
}

// ---- one map -------------------------------------------------------------------------------------

class HeadMap {
  constructor(model) {
    this.model = model;
    this.layers = RAW.models[model].last_layer + 1;
    this.rows = 1;
    this.cursor = null; // [layer, row] that the keyboard is at
    this.heads = [];
    for (let head = 0; head < NUM_HEADS; head++)
      if (RAW.model[head] === model) {
        this.heads.push(head);
        this.rows = Math.max(this.rows, RAW.q_head[head] + 1);
        this.layers = Math.max(this.layers, RAW.layer[head] + 1);
      }
    this.index = new Int32Array(this.layers * this.rows).fill(-1);
    for (const head of this.heads) this.index[RAW.layer[head] * this.rows + RAW.q_head[head]] = head;
    this.make();
  }

  make() {
    const label = RAW.models[this.model].label;
    const name = document.createElement("bdi");
    const caption = document.createElement("figcaption");
    this.box = document.createElement("figure");
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "head map");
    this.canvas.setAttribute("aria-describedby", "map-status");
    this.canvas.setAttribute("aria-label", `${shortText(label)}: ${this.layers} layers across, ${this.rows} heads down`);
    name.textContent = shortText(label);
    caption.append(name);
    this.box.append(caption, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.look(this.cellAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.look(null));
    this.canvas.addEventListener("click", (event) => {
      const cell = this.cellAt(event);
      if (cell) this.choose(cell, event.shiftKey);
    });
    this.canvas.addEventListener("focus", () => this.look(this.cursor || this.firstCell()));
    this.canvas.addEventListener("blur", () => this.look(null));
    this.canvas.addEventListener("keydown", (event) => this.walk(event));
  }

  firstCell() {
    return this.heads.length ? [RAW.layer[this.heads[0]], RAW.q_head[this.heads[0]]] : [0, 0];
  }

  at([layer, row]) {
    return this.index[layer * this.rows + row];
  }

  cellAt(event) {
    const frame = this.canvas.getBoundingClientRect();
    const layer = Math.floor((event.clientX - frame.left - MAP_GUTTER) / this.width);
    const row = Math.floor((event.clientY - frame.top) / this.height);
    return layer >= 0 && layer < this.layers && row >= 0 && row < this.rows ? [layer, row] : null;
  }

  walk(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
      Home: [-this.layers, 0], End: [this.layers, 0] };
    const cell = this.cursor || this.firstCell();
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(cell, event.shiftKey);
    } else if (event.key in steps) {
      event.preventDefault();
      const [x, y] = steps[event.key];
      this.look([Math.min(Math.max(cell[0] + x, 0), this.layers - 1), Math.min(Math.max(cell[1] + y, 0), this.rows - 1)]);
    }
  }

  choose(cell, mark) {
    const head = this.at(cell);
    if (head < 0) return;
    if (mark) toggle(head);
    else openHead(head, this.canvas);
  }

  // Says and marks what is under pointer or keyboard.
  look(cell) {
    if (cell) this.cursor = cell;
    const same = this.marked === cell || (this.marked && cell && this.marked.join() === cell.join());
    if (same) return;
    this.marked = cell;
    this.draw();
    if (cell) sayCell(this, cell);
  }

  draw() {
    const context = this.canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.max(this.box.clientWidth, 60);
    const tallest = maps.list.length > MANY_MAPS ? 100 : maps.list.length > 1 ? 190 : 330;
    this.width = (wide - MAP_GUTTER - 1) / this.layers;
    this.height = Math.max(Math.min(this.width, 18, tallest / this.rows), Math.min(9, tallest / this.rows), 3);
    const tall = Math.ceil(this.height * this.rows) + MAP_FOOT;
    Object.assign(this.canvas, { width: wide * ratio, height: tall * ratio });
    Object.assign(this.canvas.style, { width: `${wide}px`, height: `${tall}px` });
    context.scale(ratio, ratio);
    const empty = hatch(context), gap = Math.min(this.width, this.height) > 5 ? 1 : 0;
    const values = COLUMNS.get(maps.field).values;
    for (let layer = 0; layer < this.layers; layer++)
      for (let row = 0; row < this.rows; row++) {
        const head = this.at([layer, row]);
        context.fillStyle = (head >= 0 && maps.scale.color(values[head])) || empty;
        const x = MAP_GUTTER + layer * this.width, y = row * this.height;
        context.fillRect(x, y, this.width - gap, this.height - gap);
      }
    this.drawLabels(context);
    for (const head of state.selected)
      if (RAW.model[head] === this.model) this.drawMark(context, [RAW.layer[head], RAW.q_head[head]], "--mark");
    if (this.marked) this.drawMark(context, this.marked, "--ink");
  }

  drawLabels(context) {
    const foot = this.rows * this.height + 13, last = this.layers - 1;
    context.fillStyle = css("--muted");
    context.font = MAP_FONT;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText("0", MAP_GUTTER - 5, Math.max(this.height / 2, 6));
    if (this.rows * this.height > 24)
      context.fillText(String(this.rows - 1), MAP_GUTTER - 5, (this.rows - 0.5) * this.height);
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText("layer 0", MAP_GUTTER, foot);
    context.textAlign = "right";
    if (last > 0) context.fillText(String(last), MAP_GUTTER + this.layers * this.width, foot);
    if (this.rows * this.height < 60) return;
    context.save();
    context.translate(11, (this.rows * this.height) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText("head", 0, 0);
    context.restore();
  }

  drawMark(context, [layer, row], ink) {
    for (const [color, line] of [["--paper", 4], [ink, 2]]) {
      context.strokeStyle = css(color);
      context.lineWidth = line;
      context.strokeRect(MAP_GUTTER + layer * this.width - 1, row * this.height - 1, this.width + 1, this.height + 1);
    }
  }
}

function sayCell(map, [layer, row]) {
  maps.said = [map, [layer, row]];
  const head = map.at([layer, row]);
  const column = COLUMNS.get(maps.field);
  const model = shortText(RAW.models[map.model].label);
  if (head < 0) {
    $("map-status").textContent = `${model}, layer ${layer}, head ${row}: not analysed.`;
    return;
  }
  const value = column.text ? textOf(column, head) || "none" : show(column.values[head]);
  const category = column.name !== "category" && COLUMNS.has("category") ? textOf(COLUMNS.get("category"), head) : "";
  $("map-status").textContent =
    `${model}, layer ${layer}, head ${row}: ${column.name} ${value}${category ? `, ${category}` : ""}. Click or Enter opens it.`;
}

// ---- the scale -----------------------------------------------------------------------------------

function swatch(color, text) {
  const item = document.createElement("span");
  const box = document.createElement("i");
  const name = document.createElement("bdi");
  if (color) box.style.background = color;
  else box.className = "hatched";
  name.textContent = shortText(text);
  item.className = "swatch";
  item.append(box, name);
  return item;
}

function drawScale() {
  const { scale } = maps;
  const parts = [];
  if (scale.list) {
    parts.push(...scale.list.map((group) => swatch(inkOr(group.color), group.label)));
  } else if (!scale.none) {
    const bar = document.createElement("i");
    const text = (value) => Object.assign(document.createElement("span"), { textContent: value });
    bar.className = "ramp";
    bar.style.background = `linear-gradient(to right, ${scale.stops.join(", ")})`;
    parts.push(text((scale.cutLow ? "≤ " : "") + show(scale.low, 3)), bar, text((scale.cutHigh ? "≥ " : "") + show(scale.high, 3)));
  }
  parts.push(swatch("", "no number"));
  $("map-legend").replaceChildren(...parts);
}

function drawMaps() {
  const column = COLUMNS.get(maps.field);
  maps.scale = column.text ? textScale(column) : numberScale(column);
  $("map-about").textContent = `${column.label === column.name ? "" : `${column.label}: `}${column.about}`;
  drawScale();
  for (const map of maps.list) map.draw();
  if (maps.said) sayCell(...maps.said); // in words of the new column
}

function chooseMaps() {
  const shown = RAW.models.map((_, m) => m).filter((m) => maps.model === "" || RAW.models[m].name === maps.model);
  if (maps.said && !shown.includes(maps.said[0].model)) {
    maps.said = null;
    $("map-status").textContent = maps.hint;
  }
  maps.list = shown.map((m) => new HeadMap(m));
  $("map-grid").classList.toggle("one", shown.length === 1);
  $("map-grid").classList.toggle("many", shown.length > MANY_MAPS);
  $("map-grid").replaceChildren(...maps.list.map((map) => map.box));
  drawMaps();
}

function startMap() {
  const field = $("map-field"), model = $("map-model");
  const columns = [...COLUMNS.values()].filter((c) => !c.end && !["model", "family", "phase", "layer", "q_head", "depth"].includes(c.name));
  const first = (columns.find((c) => c.first) || {}).name || FIRST_FIELDS.find((name) => COLUMNS.has(name)) || (columns.find((c) => !c.id) || columns[0]).name;
  field.replaceChildren(...columns.map(({ name, label }) =>
    new Option(name === label ? name : `${name}: ${label}`, name, false, name === first)));
  model.replaceChildren(new Option("all", ""), ...RAW.models.map((m) => new Option(shortText(m.label, 120), m.name)));
  model.closest("label").hidden = RAW.models.length < 2;
  maps.field = first;
  maps.hint = $("map-status").textContent;
  const apply = () => {
    const other = maps.model !== model.value;
    Object.assign(maps, { field: field.value, model: model.value });
    if (other) chooseMaps();
    else drawMaps();
    linkChanged();
  };
  field.addEventListener("change", apply);
  model.addEventListener("change", apply);
  chooseMaps();
  new ResizeObserver(() => requestAnimationFrame(() => maps.list.forEach((map) => {
    if (map.box.clientWidth !== map.drawnFor) {
      map.drawnFor = map.box.clientWidth;
      map.draw();
    }
  }))).observe($("map-grid"));
  linkPart("map", () => (maps.field === first ? "" : maps.field), (value) => {
    field.value = COLUMNS.has(value) ? value : first;
    apply();
  });
  linkPart("of", () => maps.model, (value) => {
    model.value = RAW.models.some((m) => m.name === value) ? value : "";
    apply();
  });
  $("map-open").addEventListener("click", () => openMarked($("map-open")));
  on("color", drawMaps);
  on("selection", () => maps.list.forEach((map) => map.draw()));
}
