// SPDX-License-Identifier: Apache-2.0
// One head, or some side by side: where they stand among the others, and all that there is of them
// (views.js). And the most extreme heads of some columns.

const EXTREME_FIELDS = ["r_q", "r_k", "bias_strength", "separation_strength", "plane_var_fraction", "ap_overall", "ap_drop"];
const EXTREMES = 3; // on each side
const FILES = readBlock("qk-files") || { figures: {}, collages: [] };
const MOST_TOGETHER = 6;
const card = { heads: [], opener: null, plots: [] };

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const modelLabel = (head) => shortText(RAW.models[RAW.model[head]].label);

// "2:1,14:3": what an address calls heads; where there are several models, "MODEL/2:1".
function headLink(head) {
  const name = encodeURIComponent(RAW.models[RAW.model[head]].name);
  return `${RAW.models.length > 1 ? `${name}/` : ""}${RAW.layer[head]}:${RAW.q_head[head]}`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// "2:1" is of the first model that has it. Addresses of earlier versions have "MODEL/L5H13".
function findHead(link) {
  const parts = /^(?:(.*)\/)?(?:(\d+):(\d+)|L(\d+)H(\d+))$/s.exec(link.trim());
  if (!parts) return -1;
  const [layer, row] = [Number(parts[2] ?? parts[4]), Number(parts[3] ?? parts[5])];
  for (let head = 0; head < NUM_HEADS; head++) {
    const { name, label } = RAW.models[RAW.model[head]];
    if (RAW.layer[head] === layer && RAW.q_head[head] === row
      && (parts[1] === undefined || [name, label].includes(parts[1]) || name === decoded(parts[1]))) return head;
  }
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

// Where a head is on a drawing: a panel is an empty box, and behind it its title. Shares of the width and the height, with a margin
// for the title and axes.
function placeOf(image, head) {
  const svg = new DOMParser().parseFromString(decodeURIComponent(image.src.slice(image.src.indexOf(",") + 1)), "image/svg+xml").documentElement;
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  let box = null;
  for (const part of svg.querySelectorAll("rect.panel, text")) {
    if (part.tagName === "rect") box = part;
    const title = box && part !== box && part.textContent.match(/Layer (\d+), Head (\d+)|L(\d+) H(\d+)/);
    if (!title) continue;
    const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
    box = null;
    if (Number(title[1] ?? title[3]) !== RAW.layer[head] || Number(title[2] ?? title[4]) !== RAW.q_head[head]) continue;
    const [x0, x1] = [Math.max(x / width - 0.06, 0), Math.min((x + w) / width + 0.01, 1)];
    const [y0, y1] = [Math.max(y / height - 0.09, 0), Math.min((y + h) / height + 0.045, 1)];
    return [x0, y0, x1 - x0, y1 - y0];
  }
  return null;
}

// Pictures of the head alone, cut from the collages on which it is.
function panelsOf(head) {
  return FILES.collages.filter((collage) => collage.model === RAW.model[head]).flatMap(({ name }) => {
    const figure = document.getElementById(`fig-${encodeURIComponent(name)}`);
    const image = figure && figure.querySelector("img");
    const cut = image && placeOf(image, head);
    return cut ? [{ image, name, cut }] : [];
  });
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

// ---- the view --------------------------------------------------------------------------------------

const numberIn = (name, head) => (COLUMNS.has(name) ? COLUMNS.get(name).values[head] : NaN);
const twoPlaces = (value) => value.toFixed(2).replace("-", "−");

// The sentence of C, with the numbers of the head. name: "" where its title stands before the sentence.
function sentenceOf(head, name) {
  const form = RAW.sentences && RAW.sentences[RAW.sentence[head]];
  if (!form) return name ? "" : " ";
  const value = (column) => numberIn(column, head);
  return form.replace(/\{(\w+)\}/g, (_, gap) => (gap === "head" ? name : gap === "mean_distance" ? tickText(value(gap)) : twoPlaces(value(gap)))) + " ";
}

function whatIs(head, name) {
  return `${sentenceOf(head, name)}Layer ${RAW.layer[head]} of 0 to ${RAW.models[RAW.model[head]].last_layer}, key head ${RAW.k_head[head]}.`;
}

function standingPicture(heads) {
  const same = RAW.model.flatMap((m, h) => (heads.some((head) => RAW.model[head] === m) ? [h] : []));
  const pair = DEFAULT_AXES.find((names) => names.every((name) => COLUMNS.has(name)
    && heads.some((head) => !Number.isNaN(COLUMNS.get(name).values[head]))));
  if (!pair) return [];
  const words = heads.length > 1 ? "These heads among those of their models" : "This head among those of its model";
  const chart = new SmallScatter(...pair, same, heads, words);
  requestAnimationFrame(() => chart.draw(Math.min(340, $("head-view").clientWidth), 240));
  return [make("div", { className: "view-part" }, make("h3", { textContent: "Among the others" }),
    make("p", { className: "note", textContent: `${words}.` }), chart.canvas)];
}

function whoIs(head) {
  const item = make("li", {}, make("b", {}, make("bdi", { textContent: headTitle(head) })), `${whatIs(head, "")} `);
  if (card.heads.length < 2) return make("p", { textContent: whatIs(head, headName(head)) });
  const remove = make("button", { type: "button", textContent: "Remove" });
  remove.setAttribute("aria-label", `Remove ${headTitle(head)}`);
  remove.addEventListener("click", () => {
    showHeads(card.heads.filter((h) => h !== head));
    $("head-title").focus();
  });
  item.append(remove);
  return item;
}

function fillCard() {
  const { heads } = card, [head] = heads;
  if (heads.length === 1)
    $("head-title").replaceChildren(make("bdi", { textContent: modelLabel(head) }), `, layer ${RAW.layer[head]}, head ${RAW.q_head[head]}`);
  else $("head-title").textContent = `${heads.length} heads side by side`;
  $("head-what").replaceChildren(...(heads.length > 1 ? [make("ul", {}, ...heads.map(whoIs))] : [whoIs(head)]));
  const { elements, plots } = viewOf(heads);
  card.plots = plots;
  $("head-view").className = heads.length > 1 ? "several" : "one";
  $("head-view").replaceChildren(...elements.slice(0, -1), ...standingPicture(heads), ...elements.slice(-1));
  requestAnimationFrame(() => drawPlots(plots));
  $("head-before").disabled = heads.length > 1 || head === 0;
  $("head-next").disabled = heads.length > 1 || head === NUM_HEADS - 1;
  $("head-add").hidden = heads.length >= MOST_TOGETHER;
  $("head-said").textContent = "";
  $("head-mark").textContent = heads.length > 1 ? "Mark them in the explorer" : "Mark it in the explorer";
  $("head-link").textContent = heads.length > 1 ? "Link to these heads" : "Link to this head";
  $("head-link").href = linkText({ heads: heads.map(headLink).join() }) || "#";
}

// Of more than there is room for the first ones.
function showHeads(heads, opener = null) {
  const dialog = $("head-card");
  card.heads = heads.slice(0, MOST_TOGETHER);
  if (!dialog.open) {
    card.opener = opener || document.activeElement;
    dialog.showModal();
  }
  fillCard();
  dialog.scrollTop = 0;
  linkChanged();
}

const openHead = (head, opener = null) => showHeads([head], opener);

// Those that are marked, in the order of the page.
function openMarked(opener) {
  showHeads([...state.selected].sort((a, b) => a - b), opener);
}

function addHead() {
  const input = $("head-other"), head = findHead(input.value);
  if (head < 0 || card.heads.includes(head)) {
    $("head-said").textContent = head < 0 ? `There is no head ${shortText(input.value, 40)}: write layer and head as 2:1.` : "It is here already.";
    return;
  }
  input.value = "";
  showHeads([...card.heads, head]);
  $("head-title").focus();
}

// A dialog by its parts, so that the page without scripts has none that never opens.
function makeCard() {
  const button = (id, text, action) => {
    const out = make("button", { type: "button", id, textContent: text });
    out.addEventListener("click", action);
    return out;
  };
  const other = make("input", { id: "head-other", placeholder: RAW.models.length > 1 ? "MODEL/2:1" : "2:1", size: 10 });
  const add = make("form", { id: "head-add" }, make("label", {}, "Beside head ", other), " ",
    make("button", { type: "submit", textContent: "Show" }));
  add.addEventListener("submit", (event) => {
    event.preventDefault();
    addHead();
  });
  const said = make("span", { id: "head-said" });
  said.setAttribute("role", "status");
  const dialog = make("dialog", { id: "head-card" },
    make("div", { className: "dialog-bar" },
      make("h2", { id: "head-title", tabIndex: -1, autofocus: true }),
      make("span", { className: "dialog-buttons" },
        button("head-before", "Previous head", () => openHead(card.heads[0] - 1)),
        button("head-next", "Next head", () => openHead(card.heads[0] + 1)),
        button("head-close", "Close", () => dialog.close()))),
    make("div", { id: "head-what" }),
    make("div", { className: "head-actions" }, add, said,
      button("head-mark", "Mark it in the explorer", () => {
        const { heads } = card;
        card.opener = null;
        dialog.close();
        goTo("explorer"); // first: a folded table shows no row
        select(heads, false);
      }),
      make("a", { id: "head-link", textContent: "Link to this head" })),
    make("div", { id: "head-view" }));
  dialog.setAttribute("aria-labelledby", "head-title");
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    card.heads = card.plots = [];
    if (card.opener && card.opener.isConnected) card.opener.focus({ preventScroll: true });
    linkChanged();
  });
  new ResizeObserver(() => dialog.open && requestAnimationFrame(() => drawPlots(card.plots))).observe(dialog);
  on("color", () => drawPlots(card.plots));
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

const extremes = { cards: [], filled: false };

function drawExtremes() {
  for (const { box, scatter } of extremes.cards) scatter.draw(Math.max(box.clientWidth - 2, 120), 190);
}

function fillExtremes() {
  extremes.filled = true;
  const model = $("extremes-model").value;
  const heads = RAW.model.flatMap((m, h) => (model === "" || Number(model) === m ? [h] : []));
  extremes.cards = EXTREME_FIELDS.filter((name) => COLUMNS.has(name))
    .map((name) => extremeCard(COLUMNS.get(name), heads)).filter(Boolean);
  $("extremes-list").replaceChildren(...extremes.cards.map(({ box }) => box));
  if (!extremes.cards.length)
    $("extremes-list").append(make("p", { className: "empty", textContent: "There are too few heads with numbers to rank them." }));
  drawExtremes();
}

function showExtremes() {
  if (!extremes.filled && $("extremes")) fillExtremes();
}

function startExtremes() {
  const model = $("extremes-model");
  model.replaceChildren(new Option("all models", ""), ...RAW.models.map((m, i) => new Option(shortText(m.label, 120), i)));
  model.closest("label").hidden = RAW.models.length < 2;
  model.addEventListener("change", fillExtremes);
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    showExtremes();
    new ResizeObserver(() => requestAnimationFrame(drawExtremes)).observe($("extremes-list"));
  }, { rootMargin: "400px" }).observe($("extremes-list").parentElement);
  on("color", drawExtremes);
}

function startHeads() {
  makeCard();
  if ($("extremes")) startExtremes(); // a comparison has none
  const openLink = (value) => {
    const names = value.split(",").filter(Boolean), heads = [...new Set(names.map(findHead))];
    const none = names.find((name) => findHead(name) < 0);
    if (none !== undefined) $("map-status").textContent = `There is no head ${shortText(none, 80)} in this report.`;
    if (heads.some((head) => head >= 0)) showHeads(heads.filter((head) => head >= 0));
    else if ($("head-card").open) $("head-card").close();
  };
  linkPart("heads", () => card.heads.map(headLink).join(), openLink);
  linkPart("head", () => "", openLink); // what earlier versions called one head
}
