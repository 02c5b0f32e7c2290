// SPDX-License-Identifier: Apache-2.0
// What is shown of one head, or of several side by side on the same axes: queries and keys, numbers in
// groups, components, curves. head.js opens it.

const VIEWS = readBlock("qk-views") || { points: [], curves: [] };

// Groups of numbers, in words: those named, or all others of a table. What is not there comes by a command.
const NUMBER_GROUPS = [
  { title: "Position on the first component", table: "qk.csv",
    names: ["r_q", "r_k", "category_probability", "r_q_width", "ev0", "mu_q", "mu_k", "alpha", "beta", "mu_q_beta", "alpha_beta"] },
  { title: "Position in all components", table: "heads.csv",
    names: ["pos_var_q", "pos_var_k", "pos_var_q_pc0_share", "lin_var_q", "lin_var_k", "positional_overhead",
      "position_r_q", "position_r_k", "octave_r_q", "octave_r_k"] },
  { title: "Queries against keys, first tokens, what it rests on", table: "heads.csv" },
  { title: "Rotation: axes a and b", table: "rotated.csv" },
  { title: "Plasticity", table: "head_metrics.csv" },
  { title: "Attention, measured", table: "attention.csv" },
  { title: "Before and after RoPE", table: "stages.csv" },
  { title: "What the model loses without it", table: "ablation_heads.csv" },
  { title: "What changed", table: "compare.csv" },
];
const PLANES = [
  { name: "pca", title: "Queries and keys on PC0 and PC1", x: "PC0", y: "PC1" },
  { name: "ab", title: "Queries and keys on axes a and b", x: "a (position)", y: "b (separation)" },
  { name: "pre_pca", before: "pre_", title: "Before RoPE: on PC0 and PC1 of its own", x: "PC0", y: "PC1" },
  { name: "pre_ab", before: "pre_", title: "Before RoPE: on axes a and b of its own", x: "a (position)", y: "b (separation)" },
];
const CHARTS = [
  { name: "components", title: "All components", x: "component", log: false, table: "qk.csv",
    about: "How far each component follows position, and its share of the variance.",
    lines: [["share of variance", "--muted", []], ["r_q, queries", "--queries", []], ["r_k, keys", "--keys", []]], zero: true },
  { name: "profile", title: "Plasticity over the context", x: "position of the query", log: false, table: "head_metrics.csv",
    about: "1: the choice between two keys is a coin toss over queries; 0: the same key wins whatever the query is.",
    lines: [["plasticity", "--ink", []]], range: [0, 1] },
  { name: "scores", title: "Mean score by distance", x: "distance in tokens", log: true, table: "stages.csv",
    about: "Measured, and as mean vectors and frequencies predict it. Distance 0 is in the table alone.",
    lines: [["measured", "--ink", []], ["predicted", "--mark", [5, 3]]] },
  { name: "attention", title: "Attention by distance", x: "distance in tokens", log: true, table: "attention.csv",
    about: "Of the latest rows, over uniform attention (1): measured, and as mean vectors and bias strength predict it.",
    lines: [["measured", "--ink", []], ["mean vectors", "--mark", [5, 3]], ["bias strength", "--link", [2, 3]]], logY: true },
];
const MARGIN = { left: 46, right: 8, top: 8, bottom: 34 };
const FINE = 7; // numbers of an axis

// What results may lack, and the command that brings it: first what tells how far the numbers hold, then geometry,
// behaviour, cause, use.
const hasTable = (file) => [...COLUMNS.values()].some((column) => column.table === file);
// A table that a run wrote may be without numbers; the same command would bring none.
const ran = (has) => SAID.runs.some(has);
const lacks = (file) => () => !hasTable(file) && !ran((run) => run.tables.includes(file));
const COMMANDS = [
  // An ablation always has intervals, of its own.
  { of: "intervals", missing: () => !ran((run) => run.ci) && ![...COLUMNS.values()].some((column) => column.lo && column.table !== "ablation_heads.csv"),
    brings: "Intervals over texts, which tell how far the numbers hold", command: "qkscope analyze CAPTURE -o RESULTS --ci 95" },
  { of: "texts", missing: () => SAID.sums.few_texts > 0, brings: "More texts: of so few, others may give other numbers",
    command: "qkscope capture --model MODEL --text TEXTS -o LARGER" },
  { of: "qk.csv", missing: lacks("qk.csv"), brings: "Components, and which heads follow position", command: "qkscope pca CAPTURE -o RESULTS" },
  { of: "heads.csv", missing: () => !hasTable("heads.csv") && hasTable("qk.csv"), brings: "Which heads follow position", command: "qkscope pca CAPTURE -o RESULTS" },
  { of: "rotated.csv", missing: lacks("rotated.csv"), brings: "Drift and separation, and which keys they favour", command: "qkscope rotate CAPTURE -o RESULTS" },
  { of: "head_metrics.csv", missing: lacks("head_metrics.csv"), brings: "Plasticity: how far the query decides", command: "qkscope plasticity CAPTURE -o RESULTS" },
  { of: "attention.csv", missing: lacks("attention.csv"), brings: "What the heads attend to, measured", command: "qkscope attention CAPTURE -o RESULTS" },
  { of: "ablation_heads.csv", missing: lacks("ablation_heads.csv"), brings: "What the model loses without a head",
    command: "qkscope ablate --model MODEL --text TEXT -o RESULTS/ablation" },
  { of: "stages.csv", missing: lacks("stages.csv"), brings: "What RoPE changes", command: "qkscope compare-stages PRE POST -o RESULTS" },
  { of: "list", missing: () => true, brings: "Heads as a list for other programs", command: "qkscope heads RESULTS --format list" },
];
const commandOf = (of) => (SAID ? COMMANDS.find((row) => row.of === of) || {} : {}).command; // a comparison has none

const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function commandFor(text, head) {
  const { capture } = RAW.models[RAW.model[head]];
  return make("code", { textContent: text.replace("CAPTURE", capture ? shellWord(capture) : "CAPTURE")
    .replace("LAYER:HEAD", `${RAW.layer[head]}:${RAW.q_head[head]}`) });
}

const broughtBy = (why, text, head) => make("p", { className: "empty" }, `${why} `, commandFor(text, head), " brings it.");

// ---- axes ------------------------------------------------------------------------------------------

function roundTicks(low, high, most) {
  const span = high - low, power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].find((s) => s * power * most >= span) * power;
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) out.push(i * step);
  return out;
}

const logTicks = (low, high) => {
  const decades = Array.from({ length: 17 }, (_, i) => 10 ** (i - 8)).filter((v) => v >= low && v <= high);
  return decades.length > 1 ? decades : [low, high];
};

// A value of an axis as a place from 0 to 1; distances and ratios may be on a scale of factors.
function makeAxis(values, { log = false, range = null, edges = false } = {}) {
  const known = [...(range || []), ...values].filter(Number.isFinite).filter((v) => !log || v > 0);
  let low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!known.length) [low, high] = log ? [1, 10] : [0, 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  const scale = log ? Math.log : (v) => v;
  const room = edges || log ? 0 : 0.03 * (high - low);
  const [from, to] = [scale(low - room), scale(high + room)];
  return {
    low, high, log, ticks: log ? logTicks(low, high) : roundTicks(low - room, high + room, FINE),
    at: (v) => (scale(v) - from) / (to - from),
  };
}

// A drawing whose axes are its own: a canvas for them, and what lies between.
class Plot {
  constructor(axes, names, label) {
    Object.assign(this, { x: axes[0], y: axes[1], names });
    this.canvas = make("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.box = make("div", { className: "plot" }, this.canvas);
  }

  // [x, y] in pixels.
  place(x, y) {
    return [MARGIN.left + this.x.at(x) * (this.width - MARGIN.left - MARGIN.right),
      this.height - MARGIN.bottom - this.y.at(y) * (this.height - MARGIN.top - MARGIN.bottom)];
  }

  draw() {
    const context = this.canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
    this.width = Math.max(this.box.clientWidth, 140);
    this.height = Math.round(Math.min(this.width * 0.8, 300));
    Object.assign(this.canvas, { width: this.width * ratio, height: this.height * ratio });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${this.height}px` });
    context.scale(ratio, ratio);
    context.font = MAP_FONT;
    this.drawAxes(context);
    this.drawInside(context);
  }

  drawAxes(context) {
    const right = this.width - MARGIN.right, foot = this.height - MARGIN.bottom;
    context.strokeStyle = css("--line");
    context.fillStyle = css("--muted");
    context.strokeRect(MARGIN.left + 0.5, MARGIN.top + 0.5, right - MARGIN.left, foot - MARGIN.top);
    context.textAlign = "center";
    let end = -Infinity;
    for (const tick of this.x.ticks) {
      const [x] = this.place(tick, this.y.low), text = tickText(tick), half = context.measureText(text).width / 2;
      if (x - half < end || x + half > this.width) continue;
      end = x + half + 6;
      context.fillText(text, x, foot + 14);
    }
    context.textAlign = "right";
    for (const tick of this.y.ticks) {
      const [, y] = this.place(this.x.low, tick);
      if (y >= MARGIN.top && y <= foot) context.fillText(tickText(tick), MARGIN.left - 5, y + 4);
    }
    context.textAlign = "center";
    context.fillText(this.names[0], (MARGIN.left + right) / 2, this.height - 5);
    context.save();
    context.translate(10, (MARGIN.top + foot) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.names[1], 0, 0);
    context.restore();
  }
}

// ---- queries and keys ------------------------------------------------------------------------------

// From faint, early in the text, to strong: queries, keys.
const TINTS = [[[198, 219, 239], [8, 48, 107]], [[252, 205, 190], [122, 8, 16]]];

class PointPlot extends Plot {
  // tokens: the string of each point; none without.
  constructor(axes, names, label, [x0, x1, y0, y1, packed], tokens) {
    super(axes, names, label);
    this.edges = [x0, x1, y0, y1];
    this.points = bytesOf(packed);
    this.each = 2 * VIEWS.bytes + 1;
    this.cloud = make("canvas", { className: "light cloud" });
    this.box.append(this.cloud);
    if (tokens.length * this.each !== this.points.length) return;
    this.tip = make("bdi", { className: "tip", hidden: true });
    this.box.append(this.tip);
    this.cloud.addEventListener("pointermove", (event) => this.showToken(event, tokens));
    this.cloud.addEventListener("pointerleave", () => (this.tip.hidden = true));
  }

  // Shares of the width and the height.
  at(i) {
    const { points } = this, { bytes } = VIEWS, most = 256 ** bytes - 1;
    return [i, i + bytes].map((b) => (bytes === 2 ? 256 * points[b] + points[b + 1] : points[b]) / most);
  }

  // Of the nearest point; of points on top of one another the last, which is seen.
  showToken(event, tokens) {
    const frame = this.cloud.getBoundingClientRect();
    let best = -1, least = 8;
    for (let i = 0; i < tokens.length; i++) {
      const [x, y] = this.at(i * this.each);
      const distance = Math.hypot(event.clientX - frame.left - x * frame.width, event.clientY - frame.top - y * frame.height);
      if (distance <= least) [best, least] = [i, distance];
    }
    this.tip.hidden = best < 0 || tokens[best] === undefined;
    if (this.tip.hidden) return;
    const [x, y] = this.at(best * this.each), box = this.box.getBoundingClientRect();
    this.tip.textContent = `${this.points[best * this.each + this.each - 1] & 1 ? "key" : "query"} ${tokenText(tokens[best])}`;
    this.tip.style.left = `${Math.min(frame.left - box.left + x * frame.width + 8, box.width - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${frame.top - box.top + y * frame.height + 8}px`;
  }

  drawInside() {
    const [x0, x1, y0, y1] = this.edges, [left, foot] = this.place(x0, y0), [right, top] = this.place(x1, y1);
    const wide = right - left, tall = foot - top, ratio = window.devicePixelRatio || 1, context = this.cloud.getContext("2d");
    Object.assign(this.cloud, { width: wide * ratio, height: tall * ratio });
    Object.assign(this.cloud.style, { left: `${left}px`, top: `${top}px`, width: `${wide}px`, height: `${tall}px` });
    context.scale(ratio, ratio);
    const { points, each } = this;
    // Points shrink as they get many, so that a cloud keeps its shape.
    const radius = Math.min(0.0135 * wide, Math.max(0.6, 0.38 * Math.sqrt((wide * tall * each) / (points.length + each))));
    for (let i = 0; i < points.length; i += each) {
      const last = points[i + each - 1], [faint, strong] = TINTS[last & 1], share = (last >> 1) / 127;
      context.fillStyle = `rgb(${faint.map((c, k) => Math.round(c + share * (strong[k] - c)))})`;
      const [x, y] = this.at(i);
      context.beginPath();
      context.arc(x * wide, y * tall, radius, 0, 2 * Math.PI);
      context.fill();
    }
  }
}

const pointsOf = (plane, head) => {
  const of = VIEWS.points[RAW.model[head]];
  return of && of[plane] && of[plane][`${RAW.layer[head]}:${RAW.q_head[head]}`];
};

// The string of the token of each point of a head, in the order of the points, which is that of all planes of a stage.
function pointTokens({ before = "" }, head) {
  const tokens = (VIEWS.points[RAW.model[head]] || {})[`${before}tokens`];
  const bytes = tokens ? bytesOf(tokens.heads[`${RAW.layer[head]}:${RAW.q_head[head]}`] || "") : [], out = [];
  for (let i = 0, number = 0, shift = 0; i < bytes.length; i++) {
    number |= (bytes[i] & 127) << shift;
    shift += 7;
    if (bytes[i] & 128) continue;
    out.push(tokens.strings[number - 1]);
    number = shift = 0;
  }
  return out;
}

// A stage before RoPE is shown where results have compared it, and nothing is said of it where they have not.
const hasPlane = (plane, head) => {
  const of = VIEWS.points[RAW.model[head]] || {};
  return !plane.before || of.pre_why !== undefined || Object.keys(of[plane.name] || {}).length > 0;
};

// Why a head has none, and what brings them.
function noPoints({ name, before = "" }, head) {
  const of = VIEWS.points[RAW.model[head]] || {}, own = pointsOf(name, head);
  const why = of[`${before}why`];
  if (why) return broughtBy(`Not on this page: ${why}.`, of[`${before}command`], head);
  if (own) return make("p", { className: "empty", textContent: `It has none: ${own}.` });
  return broughtBy(own === "" ? "The page has no room for them." : "Not on this page: its heads were chosen without this one.",
    "qkscope report RESULTS --heads LAYER:HEAD", head);
}

function pointsPart(plane, heads, plots) {
  const have = heads.map((head) => pointsOf(plane.name, head));
  const drawn = have.filter(Array.isArray);
  const axes = [0, 2].map((i) => makeAxis(drawn.flatMap((p) => [p[i], p[i + 1]]), { edges: true }));
  const cells = heads.map((head, i) => {
    if (!Array.isArray(have[i])) return make("div", {}, noPoints(plane, head), ...(heads.length === 1 && plane === PLANES[0] ? panelsOf(head).map(cutPicture) : []));
    const plot = new PointPlot(axes, [plane.x, plane.y], `${headTitle(head)}: queries and keys on ${plane.x} and ${plane.y}`, have[i], pointTokens(plane, head));
    plots.push(plot);
    return plot.box;
  });
  const { positions } = VIEWS.points[RAW.model[heads[0]]] || {};
  const about = drawn.length
    ? `Queries are blue, keys red; faint is early, strong is late${positions ? ` (positions ${positions[0]} to ${Math.max(positions[1], positions[3])})` : ""}.`
      + (heads.length > 1 ? " Axes have the same ranges; each head has directions of its own." : "")
    : "";
  return { title: plane.title, about, cells };
}

// ---- curves ----------------------------------------------------------------------------------------

class LinePlot extends Plot {
  constructor(axes, names, label, chart, series) {
    super(axes, names, label);
    Object.assign(this, { chart, series });
  }

  drawInside(context) {
    const [x, ...lines] = this.series;
    if (this.chart.zero) this.drawLine(context, [this.x.low, this.x.high], [0, 0], ["", "--line", []], false);
    lines.forEach((y, i) => y && this.drawLine(context, x, y, this.chart.lines[i], x.length < 20));
  }

  drawLine(context, x, y, [, color, dashes], dots) {
    let down = false;
    context.strokeStyle = context.fillStyle = css(color);
    context.lineWidth = 1.6;
    context.setLineDash(dashes);
    context.beginPath();
    x.forEach((at, i) => {
      const good = y[i] !== null && !(this.y.log && y[i] <= 0) && !(this.x.log && at <= 0);
      if (good) context[down ? "lineTo" : "moveTo"](...this.place(at, y[i]));
      down = good;
    });
    context.stroke();
    context.setLineDash([]);
    if (dots && !dashes.length)
      x.forEach((at, i) => {
        if (y[i] === null) return;
        context.beginPath();
        context.arc(...this.place(at, y[i]), 2.2, 0, 2 * Math.PI);
        context.fill();
      });
  }
}

// [x, y, ...] of a chart; components have x from 0.
function seriesOf(chart, head) {
  const series = (VIEWS.curves[head] || {})[chart.name];
  if (!series) return null;
  return chart.name === "components" ? [series[0].map((_, i) => i), ...series] : series;
}

function chartTable(chart, heads, all) {
  const shown = heads.filter((_, i) => all[i]), series = all.filter(Boolean);
  const longest = series.reduce((a, b) => (b[0].length > a[0].length ? b : a));
  const names = shown.flatMap((head) => chart.lines.map(([name]) => (heads.length > 1 ? `${headName(head)} ${name}` : name)));
  const row = (i) => make("tr", {}, make("th", { scope: "row", textContent: show(longest[0][i]) }),
    ...series.flatMap((s) => chart.lines.map((_, l) => make("td", { textContent: show(s[l + 1] && s[l + 1][i] !== null ? s[l + 1][i] : NaN) }))));
  const table = make("table", { className: "card-numbers" },
    make("thead", {}, make("tr", {}, ...[chart.x, ...names].map((textContent) => make("th", { scope: "col", textContent })))),
    make("tbody", {}, ...longest[0].map((_, i) => row(i))));
  makeSortable(table);
  const box = make("div", { className: "scroll", tabIndex: 0 }, table);
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `${chart.title}, as a table`);
  return make("details", {}, make("summary", { textContent: "As a table" }), box);
}

function curvePart(chart, heads, plots) {
  const all = heads.map((head) => seriesOf(chart, head)), drawn = all.filter(Boolean);
  if (!drawn.length) {
    const some = NUM_HEADS > VIEWS.curves.length || VIEWS.curves.some((c) => c[chart.name]);
    return { title: chart.title, about: "", cells: [some
      ? broughtBy("A page of so many heads has it of some alone.", "qkscope report RESULTS --heads LAYER:HEAD", heads[0])
      : broughtBy("It was not computed.", commandOf(chart.table), heads[0])], whole: true };
  }
  const axes = [makeAxis(drawn.flatMap((s) => s[0]), { log: chart.log }),
    makeAxis(drawn.flatMap((s) => s.slice(1).flatMap((y) => y || [])), { log: chart.logY, range: chart.range || (chart.zero ? [0] : null) })];
  const cells = heads.map((head, i) => {
    if (!all[i]) return make("p", { className: "empty", textContent: "It has none." });
    const plot = new LinePlot(axes, [chart.x, ""], `${headTitle(head)}: ${chart.title.toLowerCase()}`, chart, all[i]);
    plots.push(plot);
    return plot.box;
  });
  const key = make("span", { className: "scale" }, ...chart.lines.filter((_, l) => drawn.some((s) => s[l + 1]))
    .map(([name, color, dashes]) => {
      const line = make("i", { className: dashes.length ? "line dashed" : "line" });
      line.style.color = `var(${color})`;
      return make("span", { className: "swatch" }, line, name);
    }));
  return { title: chart.title, about: chart.about, key, cells, table: chartTable(chart, heads, all) };
}

// ---- tokens ----------------------------------------------------------------------------------------

// Columns of each list in the order of the statement in section_views.c.
const TOKEN_COLUMNS = ["list", "token", "share", "lift", "keys", "texts", "distance", "position", "example", "queries", "first_key", "nearest", "share_lo", "share_hi"];
const TOKEN_LISTS = [
  { list: "attended", title: "Tokens it attends to", columns: { share: "share", lift: "lift", keys: "keys" },
    about: "Of what it leaves off the first key of a text, as the captured rows predict it; lift: over an even share. Measured attention may differ." },
  { list: "far", title: "Tokens whose keys lie far out", columns: { distance: "distance", position: "position", text: "example" },
    about: "The farthest key of each, from the mean key, in units of the root mean square distance." },
];

// What a reader can tell apart: spaces, control characters and what has no shape are written out.
function tokenText(text) {
  const shown = [...text].map((c) => {
    const code = c.codePointAt(0);
    if (code <= 0x20) return String.fromCodePoint(0x2400 + code);
    return /[\p{Z}\p{C}]/u.test(c) ? `<U+${code.toString(16).toUpperCase()}>` : c;
  }).join("");
  return shown ? shortText(shown, 40) : "(empty)";
}

function tokenTable(of, tokens) {
  const rows = tokens[0].flatMap((list, i) => (list === of.list ? [i] : []));
  const value = (name, i) => tokens[TOKEN_COLUMNS.indexOf(name)][i];
  const near = tokens[0].indexOf("near");
  if (of.list === "attended" && near >= 0) {
    return make("p", { className: "empty", textContent: "This head looks at tokens that lie nearer than captured keys: the nearest ones would take "
      + `${show(value("nearest", near), 2)} of its attention. Capture with --sampler all.` });
  }
  if (!rows.length) return make("p", { className: "empty", textContent: "It has none." });
  const cell = (name, i) => {
    const ends = name === "share" && value("share_hi", i) !== null ? `${show(value("share_lo", i), 3)} to ${show(value("share_hi", i), 3)}` : "";
    const out = make("td", { className: "value" }, show(value(name, i), 3), ...(ends ? [make("br"), make("small", { textContent: ends })] : []));
    out.dataset.value = value(name, i); // what the table is sorted by
    return out;
  };
  const table = make("table", { className: "card-numbers" },
    make("thead", {}, make("tr", {}, ...["token", ...Object.keys(of.columns)].map((textContent) => make("th", { scope: "col", textContent })))),
    make("tbody", {}, ...rows.map((i) => make("tr", {}, make("th", { scope: "row" }, make("bdi", { className: "token", textContent: tokenText(tokens[1][i] || "") })),
      ...Object.values(of.columns).map((name) => cell(name, i))))));
  makeSortable(table);
  const queries = value("queries", rows[0]), texts = value("texts", rows[0]);
  if (of.list !== "attended" || queries === null) return table; // tables of older versions do not say
  const first = value("first_key", rows[0]) === "unknown" ? "; too many texts lack their first key for its part to be left off" : "";
  return make("div", {}, table, make("p", { className: "note", textContent: `Of ${show(queries)} ${queries === 1 ? "query" : "queries"} and ${show(texts)} ${texts === 1 ? "text" : "texts"}${first}.` }));
}

// Of captures that have the strings of tokens; else nothing.
function tokenParts(heads) {
  const all = heads.map((head) => (VIEWS.curves[head] || {}).tokens);
  if (!all.some(Boolean)) return [];
  return TOKEN_LISTS.filter((of) => all.some((tokens) => tokens && (tokens[0].includes(of.list) || (of.list === "attended" && tokens[0].includes("near")))))
    .map((of) => ({ title: of.title, about: of.about,
      cells: all.map((tokens) => (tokens ? tokenTable(of, tokens) : make("p", { className: "empty", textContent: "It has none." }))) }));
}

// ---- numbers ---------------------------------------------------------------------------------------

// "higher than 83 % of 300 heads", of those of its model that have the number; NaN where all are equal.
function standing(column, head) {
  const value = column.values[head];
  const others = RAW.model.flatMap((m, h) => (m === RAW.model[head] && h !== head && !Number.isNaN(column.values[h]) ? [column.values[h]] : []));
  if (Number.isNaN(value) || !others.length || others.every((v) => v === value)) return NaN;
  return others.filter((v) => v < value).length / others.length;
}

// What a head's category comes from, as far as the manifests say.
function categoryLimits(name) {
  const [low, high] = RAW.thresholds;
  if ((name !== "r_q" && name !== "r_k") || low === null || high === null || !COLUMNS.has("category")) return [];
  return [make("br"), make("small", { textContent:
    `${name === "r_k" ? "Without its sign, b" : "B"}elow ${low} PC0 does not count as following position, above ${high} it does` })];
}

// An interval that is about a cross-fitted number has it before it.
function intervalText(column, head) {
  const lo = column.lo && column.lo[head], hi = column.hi && column.hi[head];
  if (!Number.isFinite(lo) || !Number.isFinite(hi)) return "";
  const about = column.cv && Number.isFinite(column.cv[head]) ? `cross-fitted ${show(column.cv[head])}: ` : "";
  return `${about}${show(lo)} to ${show(hi)}`;
}

function numberRow(column, heads) {
  const name = make("th", { scope: "row" }, column.label === column.name ? "" : `${column.label} `,
    make("code", { textContent: column.name }), ...categoryLimits(column.name));
  name.title = column.about;
  const row = make("tr", {}, name);
  for (const head of heads) {
    const cell = make("td", { className: "value", textContent: show(column.values[head]) });
    if (!Number.isNaN(column.values[head])) cell.dataset.value = column.values[head];
    const interval = intervalText(column, head);
    if (interval) cell.append(make("br"), make("small", { textContent: interval }));
    row.append(cell);
  }
  if (heads.length === 1) {
    const share = standing(column, heads[0]);
    const bar = make("td", { className: "share", textContent: Number.isNaN(share) ? "–" : `${Math.round(100 * share)} %` });
    bar.style.setProperty("--p", Number.isNaN(share) ? 0 : share);
    bar.dataset.value = Number.isNaN(share) ? "" : share;
    row.append(bar);
  }
  return row;
}

function groupRows(group, taken, heads) {
  const columns = [...COLUMNS.values()].filter((c) => !c.text && !c.id && !c.end && !taken.has(c.name)
    && (group.names ? group.names.includes(c.name) : c.table === group.table || (group.table === "heads.csv" && c.table === "qk.csv")));
  if (group.names) columns.sort((a, b) => group.names.indexOf(a.name) - group.names.indexOf(b.name));
  columns.forEach((c) => taken.add(c.name));
  const shown = columns.filter((c) => heads.some((head) => !Number.isNaN(c.values[head])));
  const width = heads.length + 1 + (heads.length === 1);
  const title = make("tr", {}, make("th", { scope: "colgroup", colSpan: width, className: "grouphead", textContent: group.title }));
  if (shown.length) return [title, ...shown.map((c) => numberRow(c, heads))];
  if (group.names || columns.length || group.table === "heads.csv" || !commandOf(group.table)) return [];
  return [title, make("tr", {}, make("td", { colSpan: width, className: "missing" }, broughtBy("Not computed.", commandOf(group.table), heads[0])))];
}

function numbersPart(heads) {
  const taken = new Set();
  const some = [...COLUMNS.values()].some((column) => column.lo);
  const about = !commandOf("intervals") ? [] : some ? ["Below a number is its interval over texts, where it has one."]
    : ["Without intervals: ", commandFor(commandOf("intervals"), heads[0]), " brings them."];
  const head = make("tr", {}, make("th", { scope: "col", textContent: "Number" }),
    ...heads.map((h) => make("th", { scope: "col", textContent: heads.length > 1 ? headTitle(h) : "Value" })),
    ...(heads.length === 1 ? [make("th", { scope: "col", textContent: "Heads of its model below it" })] : []));
  const table = make("table", { className: "card-numbers" }, make("thead", {}, head),
    make("tbody", { id: "head-numbers" }, ...NUMBER_GROUPS.flatMap((group) => groupRows(group, taken, heads))));
  makeSortable(table);
  const box = make("div", { className: "scroll", tabIndex: 0 }, table);
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Numbers");
  return { title: "Numbers", about, cells: [box], whole: true };
}

// ---- all of it -------------------------------------------------------------------------------------

const headTitle = (head) => (RAW.models.length > 1 ? `${modelLabel(head)} ${headName(head)}` : headName(head));

function partElement({ title, about, key, cells, table, whole }, heads) {
  const row = make("div", { className: whole ? "whole" : "beside-each-other" });
  cells.forEach((cell, i) => row.append(whole || heads.length === 1 ? cell
    : make("figure", {}, make("figcaption", {}, make("bdi", { textContent: headTitle(heads[i]) })), cell)));
  return make("div", { className: whole && cells[0].matches(".scroll") ? "view-part wide" : "view-part" },
    make("h3", { textContent: title }), ...(about.length ? [make("p", { className: "note" }, ...[about].flat())] : []),
    ...(key ? [key] : []), row, ...(table ? [table] : []));
}

// {elements, plots}: plots are drawn once the elements are in their place.
function viewOf(heads) {
  const plots = [];
  const own = VIEWS.points.length > 0; // a comparison has numbers alone
  const parts = [...(own ? PLANES.filter((plane) => heads.some((head) => hasPlane(plane, head))) : []).map((plane) => pointsPart(plane, heads, plots)),
    ...(own ? CHARTS : []).map((chart) => curvePart(chart, heads, plots)), ...(own ? tokenParts(heads) : []), numbersPart(heads)];
  return { elements: parts.map((part) => partElement(part, heads)), plots };
}

function drawPlots(plots) {
  plots.forEach((plot) => plot.draw());
  for (const row of document.querySelectorAll(".beside-each-other")) {
    if (row.scrollWidth > row.clientWidth + 1) row.tabIndex = 0;
    else row.removeAttribute("tabindex");
  }
}
