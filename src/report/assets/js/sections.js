// SPDX-License-Identifier: Apache-2.0
// What the page says: the first screen, findings, numbers in a sentence, definitions, the manifest. The block qk-said has
// it; a comparison has none.

const SAID = readBlock("qk-said");
const FEW_NAMES = 6; // of models, hosts, datasets in a line
const STANDING = 5; // findings that stand out
const CHECKPOINTS = RAW && RAW.checkpoints && RAW.models.length > 1;

// ---- markup ----------------------------------------------------------------------------------------

// A piece of markup; values in it are text, unless they are pieces, or lists of them.
function html(parts, ...values) {
  const put = (value) => (Array.isArray(value) ? value.map(put).join("") : value instanceof Piece ? value.markup
    : String(value ?? "").replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`));
  return new Piece(String.raw({ raw: parts }, ...values.map(put)));
}

function Piece(markup) {
  this.markup = markup;
}

const when = (yes, piece) => (yes ? piece : "");
const plural = (count, one, many = `${one}s`) => (count === 1 ? one : many);
const whole = (count) => Number(count).toLocaleString("en");
const name = (text) => html`<bdi>${shortText(text, 48)}</bdi>`;
const listed = (items, between = ", ") => items.map((item, i) => [i ? between : "", item]);

// "A, B and 3 more"
const someOf = (items, most) => [listed(items.slice(0, most)), when(items.length > most, ` and ${whole(items.length - most)} more`)];

// "12.3 %", of less than 10 % with two digits after the point.
function shareText(share) {
  const value = 100 * share, digits = value === 0 || value === 100 ? 0 : Math.abs(value) < 9.995 ? 2 : 1;
  return `${value.toFixed(digits).replace("-", "−")}\u00a0%`;
}

// As show(), with zeros at the end, and powers of ten.
function rounded(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value), exponent = size ? Number(size.toExponential(digits - 1).split("e")[1]) : 0;
  const plain = exponent >= -4 && exponent < 5;
  const text = plain ? size.toFixed(Math.max(0, digits - 1 - exponent)) : (size / 10 ** exponent).toFixed(digits - 1);
  const power = [...String(Math.abs(exponent))].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("");
  return `${value < 0 ? "−" : ""}${text}${plain ? "" : `×10${exponent < 0 ? "⁻" : ""}${power}`}`;
}

// ---- what was analysed -----------------------------------------------------------------------------

const fact = (title, value) => html`<dt>${title}</dt><dd>${value}</dd>`;
const unknown = (items) => (items.length ? items : "not recorded");
const distinct = (member) => [...new Set(SAID.runs.map((run) => run[member]).filter(Boolean))].sort();

function span(least, most, of) {
  if (least === null) return "not recorded";
  return html`<strong>${whole(least)}</strong>${when(most > least, html` to <strong>${whole(most)}</strong>`)} ${of}`;
}

function source({ source: text, commit }) {
  if (!commit) return html`<bdi title="${text}">${text.split("/").slice(-2).join("/")}</bdi>`;
  return html`<bdi>${text}</bdi> at <code title="${commit}">${commit.slice(0, 12)}</code>`;
}

// Runs of one folder may have read the same capture.
function sources() {
  const all = SAID.runs.filter((run, i) => run.source && (!i || run.source !== SAID.runs[i - 1].source)).map(source);
  const more = all.length - FEW_NAMES;
  return unknown([listed(all.slice(0, FEW_NAMES), html`<br>`), when(more > 0, html`<br>and ${whole(more)} more, see <a href="#manifest">Manifest</a>`)]
    .filter((part) => part.length !== 0));
}

function days() {
  const dates = distinct("date").map((date) => date.slice(0, 10));
  if (!dates.length) return "not recorded";
  const [first, last] = [dates[0], dates[dates.length - 1]];
  return html`<strong>${first}</strong>${when(last !== first, html` to <strong>${last}</strong>`)}`;
}

function factsOfHeads() {
  const models = RAW.models, layers = models.map((m) => m.last_layer + 1), { sums } = SAID;
  const [least, most] = [Math.min(...layers), Math.max(...layers)];
  return [
    fact(RAW.checkpoints ? "Checkpoints" : plural(models.length, "Model"),
      [when(models.length > 1, html`<strong>${whole(models.length)}</strong>: `), someOf(models.map((m) => name(m.label)), FEW_NAMES)]),
    fact("Heads", html`<strong>${whole(NUM_HEADS)}</strong> query heads in ${when(least < most, `${least} to `)}${most} ${plural(most, "layer")}`),
    fact("Rows a head", span(sums.rows_least, sums.rows_most, "queries or keys")),
    fact("Texts", span(sums.texts_least, sums.texts_most, `a head; ${SAID.lengths}`)),
    when(SAID.ablation, fact("Ablation", SAID.ablation))];
}

function analysed() {
  const names = (member) => unknown(someOf(distinct(member).map(name), FEW_NAMES).filter((part) => part.length));
  return html`<div class="card" id="analysed"><h3>What was analysed</h3><dl class="facts">${when(RAW, RAW && factsOfHeads())}${
    when(SAID.runs.length, [fact("Captures", sources()), fact("Made", days()), fact("Host", names("host")), fact("qkscope", names("version"))])
  }</dl></div>`;
}

// ---- how far it can be trusted ---------------------------------------------------------------------

const warning = (token, title, text) => html`<p class="warning" data-warning="${token}"><strong>${title}</strong> ${text}</p>`;

function doubts() {
  const s = SAID.sums, of = (count, all) => `${whole(count)} of ${whole(all)} heads`;
  if (!s) return [];
  return [
    when(s.few_rows, warning("few-rows", "Too few rows.",
      `${of(s.few_rows, s.heads)} have fewer than 100 rows of queries or keys: their numbers are mostly chance, and no finding counts them.`)),
    when(s.few_texts, warning("texts", "Too few texts.",
      `${of(s.few_texts, s.with_texts)} have fewer than 8 texts: other texts may give other numbers, no category is certain, and one text gives no intervals.`)),
    when(s.led, warning("long-texts", "A few long texts.", `For ${of(s.led, s.heads)} they decide what r is: no category is certain there.`)),
    when(s.wide, warning("rows", "Wide intervals.",
      html`For ${of(s.wide, s.with_width)} the 95 % interval of r<sub>q</sub> on PC0 is wider than 0.2.`))];
}

function withoutNumbers() {
  const heads = SAID.failures.map((f) => html`${when(RAW && RAW.models.length > 1, html`${name(f.model)} `)}<code>${f.head}</code>`);
  const all = Math.max(SAID.failed, SAID.files);
  return warning("failed", "Heads without numbers.",
    html`${whole(SAID.failed)} of ${whole(all)} heads could not be analysed${when(heads.length, ": ")}${someOf(heads, 5)}.`);
}

// What the runs warned of; the many are folded behind the first few.
function runWarnings() {
  const few = 3, all = Object.entries(SAID.warnings).map(([text, models]) => html`<li>${text}${
    when(models.length > 1, html` <small>(${whole(models.length)} models)</small>`)}${
    when(models.length === 1 && models[0], html` <small>(${name(models[0])})</small>`)}</li>`);
  if (!all.length) return "";
  return [html`<p class="warning" data-warning="runs"><strong>${all.length === 1 ? "The run warned:" : `The runs warned of ${whole(all.length)} things:`}</strong></p>`,
    html`<ul class="warned">${all.slice(0, few)}</ul>`,
    when(all.length > few, html`<details><summary>${whole(all.length - few)} more</summary><ul class="warned">${all.slice(few)}</ul></details>`)];
}

function certainty() {
  const s = SAID.sums;
  if (!s) return "";
  if (!s.judged) return html`<p class="known">How sure the category of a head is was not looked at, or no table says so.</p>`;
  const open = s.heads - s.judged;
  return [html`<p class="${s.uncertain || open ? "known" : "fine"}" data-warning="uncertain"><strong>${whole(s.uncertain)} of ${whole(s.judged)} heads</strong> (${
    shareText(s.uncertain / s.judged)}) have a category that is not certain: other texts may well give another.${
    when(open, ` How sure the category of the other ${whole(open)} is, their texts do not tell.`)}</p>`];
}

function trusted() {
  const warned = Object.keys(SAID.warnings).length || SAID.failed;
  return html`<div class="card" id="trusted"><h3>How far it can be trusted</h3>${
    SAID.changed.map((text) => warning("changed", "Not the tables that the analysis wrote.", `${text}.`))}${
    doubts()}${when(SAID.failed, withoutNumbers())}${runWarnings()}${certainty()}${
    when(SAID.sums && SAID.sums.elsewhere, SAID.sums && html`<p class="known">Content-focused speaks of PC0 alone: other components carry position in ${
      whole(SAID.sums.elsewhere)} such ${plural(SAID.sums.elsewhere, "head")}.</p>`)}${
    !SAID.runs.length ? html`<p class="known">The tables have no manifest: where they come from, and what their run warned of, is not known.</p>`
      : when(!warned, html`<p class="fine">The runs warned of nothing, and every head has numbers.</p>`)}</div>`;
}

// ---- what stands out, and what is next -------------------------------------------------------------

const badge = (finding) => html`<span class="badge ${finding.verdict}">${finding.says}</span> `;

// How many heads follow position, and how: of the last checkpoint, as findings are.
function kindsOfHeads() {
  const last = CHECKPOINTS ? RAW.models.length - 1 : -1;
  const counts = RAW.categories.map((_, c) => RAW.category.filter((own, h) => own === c && (last < 0 || RAW.model[h] === last)).length);
  const filter = last < 0 ? "" : `only-model=${encodeURIComponent(RAW.models[last].name)}&`;
  if (!counts.some(Boolean)) return "";
  return html`<p id="kinds">Categories${when(last >= 0, last >= 0 && html` at ${name(RAW.models[last].label)}`)}: ${
    listed(counts.flatMap((count, c) => (count ? [html`<a href="#explorer" data-filter="${filter}only-category=${RAW.categories[c]}">${whole(count)} ${RAW.categories[c]}</a>`] : [])))}.</p>`;
}

function standsOut() {
  const answers = SAID.findings.filter((f) => ["supported", "opposite", "divided"].includes(f.verdict));
  const shown = answers.sort((a, b) => (b.effect ?? 0) - (a.effect ?? 0)).slice(0, STANDING);
  return html`<div class="card" id="standing"><h3>What stands out</h3>${when(RAW, RAW && kindsOfHeads())}<ul>${
    shown.map((f) => html`<li>${badge(f)}<a href="#finding-${f.id}">${f.claim}</a>${
      when(f.effect !== null, html`<small data-effect="${f.effect}"> effect ${rounded(f.effect, 2)}</small>`)}</li>`)}</ul>${
    shown.length ? html`<p class="note">The largest effect first. 1: all heads lie on that side, or two numbers go together in full; 0: as many lie on the other, or they have nothing to do with each other.</p>`
      : html`<p class="empty">No finding is certain here: there are too few models, layers or heads, or no difference is more than chance.</p>`}${
    when(SAID.findings.length > shown.length, html`<p class="note"><a href="#findings">All ${whole(SAID.findings.length)} findings</a> with their evidence.</p>`)}</div>`;
}

function nextCommands() {
  const { capture } = RAW.models.length === 1 ? RAW.models[0] : {};
  const rows = COMMANDS.filter(({ missing }) => missing()).slice(0, 3);
  return html`<div class="card" id="next"><h3>What to do next</h3><ul>${rows.map(({ brings, command }) =>
    html`<li>${brings}: <code>${command.replace("CAPTURE", capture ? shellWord(capture).replaceAll("$", "$$$$") : "CAPTURE")}</code></li>`)}</ul>${
    when(RAW.models.length > 1, html`<p class="note">Of each model by itself; the file of a study has it for all of them, such as <code>ci: 95</code> of its analyses.</p>`)}</div>`;
}

function pointsNote() {
  if (SAID.shown === NUM_HEADS) return "A head by itself shows its queries and keys as well.";
  if (SAID.shown)
    return html`Of <strong>${whole(SAID.shown)}</strong> of ${whole(NUM_HEADS)} heads the page shows queries and keys as well; <code>qkscope report RESULTS --heads LAYER:HEAD</code> chooses others.`;
  return `It does not show queries and keys of heads: ${SAID.why}.`;
}

function fillOverview() {
  $("cards").innerHTML = html`${analysed()}${trusted()}${standsOut()}`.markup;
  if ($("map")) $("cards").append($("map"));
  const note = make("p", { className: RAW ? "note" : "empty", id: "points-note" });
  note.innerHTML = (RAW ? html`${pointsNote()}` : html`There is no table of heads, so there is no picture of them.`).markup;
  $("overview").append(note);
  if (RAW) note.insertAdjacentHTML("afterend", nextCommands().markup);
}

// ---- findings and numbers --------------------------------------------------------------------------

function finding(f) {
  return html`<li class="finding" data-finding="${f.id}" data-verdict="${f.verdict}"><p class="claim" id="finding-${f.id}" tabindex="-1">${badge(f)}${f.claim}</p><ul class="evidence">${
    f.evidence.map((line) => html`<li>${line}</li>`)}${
    when(SAID.unlike, html`<li>Texts of the models have different lengths, which may be part of the cause.</li>`)}${
    when(f.effect !== null, html`<li class="effect">Size of the effect, from 0 to 1: ${rounded(f.effect, 2)}.</li>`)}</ul>${
    when(f.figures.length, html`<p class="shown">Figures: ${listed(f.figures.map(([id, title]) => html`<a href="#fig-${id}">${title}</a>`))}</p>`)}</li>`;
}

function fillFindings() {
  const topics = [...new Set(SAID.findings.map((f) => f.topic))];
  $("findings-list").innerHTML = (topics.length ? html`${topics.map((topic) => html`<h3>${topic}</h3><ul class="findings">${
    SAID.findings.filter((f) => f.topic === topic).map(finding)}</ul>`)}` : html`<p class="empty">These tables allow no finding.</p>`).markup;
}

// Under each figure what it shows; of several of one kind under their caption.
function fillClaims() {
  const claims = new Map();
  for (const f of SAID.findings)
    for (const [id] of f.figures) claims.set(id, [...(claims.get(id) || []), html`<li><a href="#finding-${f.id}">${f.claim}</a></li>`]);
  for (const [id, items] of claims) {
    const list = make("ul", { className: "says" }), figure = $(`fig-${id}`), group = figure.closest(".group");
    list.setAttribute("aria-label", "Findings");
    list.innerHTML = html`${items}`.markup;
    if (group) group.querySelector(".groupcaption").after(list);
    else figure.querySelector(".files").before(list);
  }
}

const headline = (title) => {
  const row = HEADLINES.rows[HEADLINES.rows.length - 1], value = row && row[HEADLINES.columns.indexOf(title)];
  return value === undefined || value === null ? NaN : value;
};

function heldKeys() {
  const { keys_least: least, keys_most: most } = SAID.sums;
  return `at most ${least < most ? `${least} to ` : ""}${most} ${plural(most, "key")} of each bucket and text`;
}

const strong = (text) => html`<strong>${text}</strong>`;

function leadStart() {
  const { models, families, phases } = RAW, last = models[models.length - 1];
  const heads = html`${strong(whole(NUM_HEADS))} query ${plural(NUM_HEADS, "head")} of `;
  if (models.length === 1) return html`${heads}${strong(name(models[0].label))}.`;
  if (RAW.checkpoints)
    return html`${heads}${strong(whole(models.length))} checkpoints in ${phases.length} ${plural(phases.length, "phase")}; numbers here are those of the last, ${name(last.label)}.`;
  return html`${heads}${strong(whole(models.length))} models in ${families.length} ${plural(families.length, "family", "families")}.`;
}

function leadComponents() {
  const [ev0, rq, rk, dominated, content, uncertain] = ["ev0", "mean_r_q", "mean_abs_r_k", "position_dominated", "content_focused", "uncertain"].map(headline);
  return [when(!Number.isNaN(rq), html` On the first component of queries and keys together${when(!Number.isNaN(ev0), ` (${shareText(ev0)} of the variance)`)
    }, the mean correlation with position is ${strong(rounded(rq, 2))} for queries and, without its sign, ${strong(rounded(rk, 2))} for keys.`),
  when(!Number.isNaN(dominated), html` ${strong(shareText(dominated))} of heads are position-dominated, ${strong(shareText(content))} content-focused${
    when(!Number.isNaN(uncertain), html`; the category of ${strong(shareText(uncertain))} is uncertain`)}.`)];
}

function leadRotation() {
  const [bias, certain, plane, ap, drop, error] = ["bias_positive", "bias_certain", "plane_variance", "ap_overall", "ap_drop", "ap_overall_se"].map(headline);
  return [when(!Number.isNaN(bias), html` ${strong(shareText(bias))} favour recent keys along axis a${
    when(!Number.isNaN(certain), html`, ${strong(shareText(certain))} for certain`)}; the plane of drift and separation holds ${strong(shareText(plane))} of the variance.`),
    when(!Number.isNaN(ap), html` Attention plasticity is ${strong(rounded(ap))} (1: the query decides which of two keys wins; 0: the same one wins, whatever the query)${
      when(!Number.isNaN(drop), html` and ${drop > 0 ? "falls" : "rises"} by ${strong(rounded(Math.abs(drop), 2))} from the first to the last fifth of the context`)}.`),
    when(!Number.isNaN(error), html` Plasticity is from ${heldKeys()}, which alone gives it a standard error of up to ${strong(rounded(error, 2))}.`)];
}

function leadStages() {
  const [before, after, predicted] = ["mean_r_q_before", "mean_r_q_after", "r_squared_predicted"].map(headline);
  return [when(!Number.isNaN(before + after), html` Rotary position embedding (RoPE) changes the mean correlation of queries with position from ${
    strong(rounded(before, 2))} to ${strong(rounded(after, 2))}, each on the first component of its side.`),
  when(!Number.isNaN(predicted), html` How the mean score depends on distance is predicted from mean vectors and rotary frequencies with a median R² of ${
    strong(rounded(predicted, 2))} (1: all of it, 0: no better than a constant).`)];
}

function fillLead() {
  $("lead").innerHTML = (RAW ? html`${leadStart()}${leadComponents()}${leadRotation()}${leadStages()}`
    : html`No head was measured here; the scores alone are shown.`).markup;
}

// ---- the end of the page ---------------------------------------------------------------------------

function fillDefinitions() {
  $("definitions").innerHTML = html`${[...COLUMNS.values()].filter((column) => column.table).map((column) =>
    html`<dt><code>${column.name}</code> <small>${column.table}</small></dt><dd>${column.about}</dd>`)}`.markup;
}

// What the capture kept in place of all rows, and what is empty for it.
function kept({ reservoir, empty }) {
  const why = (empty || []).map((one) => `${one.columns ?? "?"} (${one.reason ?? "?"})`).join("; ");
  return `${reservoir > 0 ? `moments of all rows, and up to ${reservoir} rows of each bucket and text` : "moments of all rows, and no rows"}${why ? `. Empty: ${why}` : ""}`;
}

function runMembers(run) {
  const members = ["program", "version", "command", "command_line", "started", "capture", "plan", "study", "seed", "threads", "model", "heads", "rows"]
    .filter((key) => ["string", "number"].includes(typeof run[key])).map((key) => html`<dt>${key}</dt><dd>${run[key]}</dd>`);
  return html`<dl class="columns">${members}${when(run.kept, run.kept && html`<dt>kept</dt><dd>${kept(run.kept)}</dd>`)}</dl>`;
}

// Each run with its tables: those of one folder may be of different heads.
function fillRuns() {
  // Numbers of more digits than a double has stay texts.
  const root = SAID.manifest && JSON.parse(SAID.manifest.replace(/: (-?\d{16,})(,?)$/gm, ': "$1"$2')), runs = root && Array.isArray(root.runs) ? root.runs.filter((run) => typeof run === "object") : null;
  const said = !root ? html`<p>The results folder has no readable manifest.json.</p>`
    : html`${runs ? runs.map((run) => html`<h3>${(run.tables || []).join(", ")}</h3>${runMembers(run)}`) : runMembers(root)
      }<details><summary>manifest.json</summary><pre tabindex="0">${SAID.manifest}</pre></details>`;
  $("runs").innerHTML = html`${said}<p class="note">Page made by qkscope ${SAID.version}; charts by Chart.js (MIT licence).</p>`.markup;
}

function fillUndrawn() {
  if (!SAID.undrawn.length) return;
  const box = make("div", { className: "failed" });
  box.setAttribute("role", "note");
  box.innerHTML = html`<h3>Figures that could not be drawn</h3><ul>${SAID.undrawn.map(([id, why]) => html`<li><code>${id}</code>: ${why}</li>`)}</ul>`.markup;
  document.querySelector("#figures > details").append(box);
}

// A section and, below the figures, each of its parts.
function fillContents() {
  const entry = (box, inner = "") => html`<li><a href="#${box.id}">${box.querySelector("h2, h3").textContent}</a>${inner}</li>`;
  const parts = (section) => [...section.querySelectorAll(".part")].map((part) => entry(part));
  $("contents-list").innerHTML = html`${[...document.querySelectorAll("main section")].map((section) =>
    entry(section, when(parts(section).length, html`<ul>${parts(section)}</ul>`)))}`.markup;
}

if (SAID) {
  fillOverview();
  fillFindings();
  fillClaims();
  fillLead();
  fillDefinitions();
  fillRuns();
  fillUndrawn();
  fillContents();
}
