// SPDX-License-Identifier: Apache-2.0
// One head: all its numbers, where it stands among the others, its panel of a collage. And the most
// extreme heads of some columns.

const EXTREME_FIELDS = ["r_q", "r_k", "bias_strength", "separation_strength", "plane_var_fraction", "ap_overall", "ap_drop"];
const EXTREMES = 3; // on each side
const FILES = readBlock("qk-files") || { figures: {}, collages: [] };
const card = { head: -1, opener: null };

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const modelLabel = (head) => shortText(RAW.models[RAW.model[head]].label);

// "Model/L5H13": what an address calls a head.
function headLink(head) {
  return `${RAW.models[RAW.model[head]].name}/${headName(head)}`;
}

function findHead(link) {
  const parts = /^(.*)\/L(\d+)H(\d+)$/s.exec(link);
  if (!parts) return -1;
  for (let head = 0; head < NUM_HEADS; head++)
    if (RAW.layer[head] === Number(parts[2]) && RAW.q_head[head] === Number(parts[3])
      && RAW.models[RAW.model[head]].name === parts[1]) return head;
  return -1;
}

// ---- a small scatter of all heads with some of them marked -----------------------------------------

class SmallScatter {
  constructor(x, y, heads, marks, label) {
    Object.assign(this, { x: COLUMNS.get(x), y: COLUMNS.get(y), marks });
    this.heads = heads.filter((h) => !Number.isNaN(this.x.values[h]) && !Number.isNaN(this.y.values[h]));
    this.canvas = make("canvas", { className: "small" });
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.canvas.addEventListener("click", (event) => this.click(event));
  }

  place(wide, tall) {
    const range = (column) => {
      const values = this.heads.map((h) => column.values[h]);
      const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
      return high > low ? [low, high] : [low - 0.5, high + 0.5];
    };
    const [x0, x1] = range(this.x), [y0, y1] = range(this.y);
    this.limits = [x0, x1, y0, y1];
    return (h) => [58 + ((this.x.values[h] - x0) / (x1 - x0)) * (wide - 68),
      tall - 32 - ((this.y.values[h] - y0) / (y1 - y0)) * (tall - 42)];
  }

  draw(wide, tall) {
    const context = this.canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: wide * ratio, height: tall * ratio });
    Object.assign(this.canvas.style, { width: `${wide}px`, height: `${tall}px` });
    context.scale(ratio, ratio);
    if (!this.heads.length) return;
    const at = this.place(wide, tall);
    this.at = at;
    const dot = (head, size) => {
      context.beginPath();
      context.arc(...at(head), size, 0, 2 * Math.PI);
      context.fill();
    };
    context.fillStyle = `${css("--faint")}88`;
    for (const head of this.heads) dot(head, 1.8);
    for (const head of this.marks) {
      if (!this.heads.includes(head)) continue;
      context.fillStyle = css("--mark");
      dot(head, 4.5);
    }
    this.drawAxes(context, wide, tall);
  }

  drawAxes(context, wide, tall) {
    const [x0, x1, y0, y1] = this.limits;
    context.strokeStyle = css("--faint");
    context.strokeRect(52.5, 5.5, wide - 58, tall - 33);
    context.fillStyle = css("--muted");
    context.font = MAP_FONT;
    context.textAlign = "right";
    context.fillText(show(y1, 2), 49, 14);
    context.fillText(show(y0, 2), 49, tall - 30);
    context.fillText(show(x1, 2), wide - 5, tall - 14);
    context.textAlign = "left";
    context.fillText(show(x0, 2), 52, tall - 14);
    context.textAlign = "center";
    context.fillText(this.x.name, wide / 2, tall - 4);
    context.save();
    context.translate(11, tall / 2 - 12);
    context.rotate(-Math.PI / 2);
    context.fillText(this.y.name, 0, 0);
    context.restore();
  }

  click(event) {
    const frame = this.canvas.getBoundingClientRect();
    let best = -1, least = 12;
    for (const head of this.heads) {
      const [x, y] = this.at(head);
      const distance = Math.hypot(event.clientX - frame.left - x, event.clientY - frame.top - y);
      if (distance < least) [best, least] = [head, distance];
    }
    if (best >= 0) openHead(best, this.canvas);
  }
}

// ---- its panel of a collage ------------------------------------------------------------------------

// Pictures of the head alone, cut from the collages on which it is; margins hold titles and axes.
function panelsOf(head) {
  const out = [];
  for (const collage of FILES.collages) {
    if (collage.model !== RAW.model[head]) continue;
    const panel = collage.panels.find(([layer, row]) => layer === RAW.layer[head] && row === RAW.q_head[head]);
    const figure = document.getElementById(`fig-${encodeURIComponent(collage.name)}`);
    const image = figure && figure.querySelector("img");
    if (!panel || !image) continue;
    const [, , left, right, top, bottom] = panel;
    const [x0, x1] = [Math.max(left - 0.06, 0), Math.min(right + 0.01, 1)];
    const [y0, y1] = [Math.max(1 - top - 0.09, 0), Math.min(1 - bottom + 0.045, 1)];
    out.push({ image, name: collage.name, cut: [x0, y0, x1 - x0, y1 - y0] });
  }
  return out;
}

function cutPicture({ image, name, cut }) {
  const canvas = make("canvas", { className: `cut ${image.className}` });
  const link = make("a", { href: `#fig-${encodeURIComponent(name)}`, textContent: "The collage it is from" });
  const copy = () => {
    const [x, y, w, h] = [cut[0] * image.naturalWidth, cut[1] * image.naturalHeight,
      cut[2] * image.naturalWidth, cut[3] * image.naturalHeight];
    Object.assign(canvas, { width: w, height: h });
    canvas.getContext("2d").drawImage(image, x, y, w, h, 0, 0, w, h);
  };
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Queries and keys of this head, by position");
  link.addEventListener("click", () => $("head-card").close());
  image.decode().then(copy, () => canvas.remove());
  return make("figure", {}, canvas, make("figcaption", {}, "Its queries (blue) and keys (red); faint is early, strong is late. ", link));
}

// ---- the card --------------------------------------------------------------------------------------

// "higher than 83 % of 300 heads", of those of its model that have the number.
function standing(column, head, heads) {
  const value = column.values[head];
  const others = heads.filter((h) => h !== head && !Number.isNaN(column.values[h]));
  if (Number.isNaN(value) || !others.length) return NaN;
  return others.filter((h) => column.values[h] < value).length / others.length;
}

// What a head's category comes from, as far as the manifests say.
function categoryLimits(name) {
  const [low, high] = RAW.thresholds;
  if (low === null || high === null || !COLUMNS.has("category")) return [];
  return [make("br"), make("small", { textContent:
    `${name === "r_k" ? "Without its sign, b" : "B"}elow ${low} PC0 does not count as following position, above ${high} it does` })];
}

const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function numberRow(column, head, heads) {
  const share = standing(column, head, heads);
  const bar = make("td", { className: "share", textContent: Number.isNaN(share) ? "–" : `${Math.round(100 * share)} %` });
  bar.style.setProperty("--p", Number.isNaN(share) ? 0 : share);
  const name = make("th", { scope: "row" }, make("code", { textContent: column.name }));
  if (column.label !== column.name) name.append(` ${column.label}`);
  if (column.name === "r_q" || column.name === "r_k") name.append(...categoryLimits(column.name));
  name.title = column.about;
  return make("tr", {}, name, make("td", { className: "value", textContent: show(column.values[head]) }), bar);
}

function fillCard(head) {
  const heads = RAW.model.flatMap((m, h) => (m === RAW.model[head] ? [h] : []));
  const numeric = [...COLUMNS.values()].filter((column) => !column.text && !column.id);
  const category = COLUMNS.get("category");
  $("head-title").replaceChildren(make("bdi", { textContent: modelLabel(head) }),
    `, layer ${RAW.layer[head]}, head ${RAW.q_head[head]}`);
  $("head-what").textContent = `${category && textOf(category, head) ? `${textOf(category, head)}; ` : ""}`
    + `layer ${RAW.layer[head]} of 0 to ${RAW.models[RAW.model[head]].last_layer}, attends with key head ${RAW.k_head[head]}.`;
  const pair = DEFAULT_AXES.find((names) => names.every((name) => COLUMNS.has(name) && !Number.isNaN(COLUMNS.get(name).values[head])));
  const pictures = [];
  if (pair) {
    const chart = new SmallScatter(...pair, heads, [head], `This head among the ${heads.length} of its model`);
    pictures.push(make("figure", {}, chart.canvas, make("figcaption", { textContent: "This head among those of its model." })));
    requestAnimationFrame(() => chart.draw(Math.min(340, $("head-pictures").clientWidth), 240));
  }
  const panels = panelsOf(head);
  pictures.push(...panels.map(cutPicture));
  if (!panels.length)
    pictures.push(make("p", { className: "empty" }, "No collage of this report shows its queries and keys. They are drawn by ",
      make("code", { textContent: `qkscope scatter ${shellWord(RAW.models[RAW.model[head]].capture || "CAPTURE")} --heads ${RAW.layer[head]}:${RAW.q_head[head]} -o figures` }), "."));
  $("head-pictures").replaceChildren(...pictures);
  $("head-numbers").replaceChildren(...numeric.filter((column) => !Number.isNaN(column.values[head]))
    .map((column) => numberRow(column, head, heads)));
  $("head-before").disabled = head === 0;
  $("head-next").disabled = head === NUM_HEADS - 1;
  $("head-link").href = linkText({ head: headLink(head) }) || "#";
}

function openHead(head, opener = null) {
  const dialog = $("head-card");
  card.head = head;
  if (!dialog.open) {
    card.opener = opener || document.activeElement;
    dialog.showModal();
  }
  fillCard(head);
  dialog.scrollTop = 0;
  linkChanged();
}

// A dialog by its parts, so that the page without scripts has none that never opens.
function makeCard() {
  const button = (id, text, action) => {
    const out = make("button", { type: "button", id, textContent: text });
    out.addEventListener("click", action);
    return out;
  };
  const dialog = make("dialog", { id: "head-card" },
    make("div", { className: "dialog-bar" },
      make("h2", { id: "head-title", tabIndex: -1, autofocus: true }),
      make("span", { className: "dialog-buttons" },
        button("head-before", "Previous head", () => openHead(card.head - 1)),
        button("head-next", "Next head", () => openHead(card.head + 1)),
        button("head-close", "Close", () => dialog.close()))),
    make("p", { id: "head-what" }),
    make("div", { id: "head-pictures", className: "head-pictures" }),
    make("p", { className: "head-actions" },
      button("head-mark", "Mark it in the explorer", () => {
        const { head } = card;
        card.opener = null;
        dialog.close();
        select([head], false);
        goTo("explorer");
      }),
      make("a", { id: "head-link", textContent: "Link to this head" })),
    make("table", { className: "card-numbers" },
      make("thead", {}, make("tr", {}, make("th", { scope: "col", textContent: "Number" }),
        make("th", { scope: "col", textContent: "Value" }),
        make("th", { scope: "col", textContent: "Heads of its model below it" }))),
      make("tbody", { id: "head-numbers" })));
  dialog.setAttribute("aria-labelledby", "head-title");
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    card.head = -1;
    if (card.opener && card.opener.isConnected) card.opener.focus({ preventScroll: true });
    linkChanged();
  });
  document.body.append(dialog);
}

// ---- the most extreme heads ------------------------------------------------------------------------

function headButton(head, column) {
  const button = make("button", { type: "button", className: "head" },
    make("bdi", { textContent: RAW.models.length > 1 ? `${modelLabel(head)} ${headName(head)}` : headName(head) }),
    make("span", { textContent: show(column.values[head], 3) }));
  button.addEventListener("click", () => openHead(head, button));
  return button;
}

function extremeCard(column, heads) {
  const known = heads.filter((h) => !Number.isNaN(column.values[h])).sort((a, b) => column.values[a] - column.values[b] || a - b);
  if (known.length < 2) return null;
  const count = Math.min(EXTREMES, Math.floor(known.length / 2));
  const low = known.slice(0, count), high = known.slice(-count).reverse();
  const scatter = new SmallScatter("layer", column.name, known, [...low, ...high], `${column.name} over layers, the extremes marked`);
  const list = (title, some) => make("div", {}, make("h4", { textContent: title }), ...some.map((h) => headButton(h, column)));
  const heading = make("h3", {}, make("code", { textContent: column.name }));
  if (column.label !== column.name) heading.append(` ${column.label}`);
  const box = make("div", { className: "extreme" }, heading, scatter.canvas,
    make("div", { className: "sides" }, list("Highest", high), list("Lowest", low)));
  return { box, scatter };
}

const extremes = { cards: [] };

function drawExtremes() {
  for (const { box, scatter } of extremes.cards) scatter.draw(Math.max(box.clientWidth - 2, 120), 190);
}

function fillExtremes() {
  const model = $("extremes-model").value;
  const heads = RAW.model.flatMap((m, h) => (model === "" || Number(model) === m ? [h] : []));
  extremes.cards = EXTREME_FIELDS.filter((name) => COLUMNS.has(name))
    .map((name) => extremeCard(COLUMNS.get(name), heads)).filter(Boolean);
  $("extremes-list").replaceChildren(...extremes.cards.map(({ box }) => box));
  if (!extremes.cards.length)
    $("extremes-list").append(make("p", { className: "empty", textContent: "There are too few heads with numbers to rank them." }));
  drawExtremes();
}

function startHeads() {
  makeCard();
  const model = $("extremes-model");
  model.replaceChildren(new Option("all models", ""), ...RAW.models.map((m, i) => new Option(shortText(m.label), i)));
  model.closest("label").hidden = RAW.models.length < 2;
  model.addEventListener("change", fillExtremes);
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    fillExtremes();
    new ResizeObserver(() => requestAnimationFrame(drawExtremes)).observe($("extremes-list"));
  }, { rootMargin: "400px" }).observe($("extremes-list").parentElement);
  on("color", drawExtremes);
  linkPart("head", () => (card.head < 0 ? "" : headLink(card.head)), (value) => {
    const head = findHead(value);
    if (head >= 0) openHead(head);
    else if ($("head-card").open) $("head-card").close();
    if (value && head < 0) $("map-status").textContent = `There is no head ${shortText(value, 80)} in this report.`;
  });
}
