// SPDX-License-Identifier: Apache-2.0
// The page as a whole: light and dark, printing, controls of the explorer; then all is started.

// ---- light and dark ------------------------------------------------------------------------------

const THEMES = ["system", "light", "dark"];

function storedTheme() {
  try {
    return localStorage.getItem("qkscope-theme") || "system";
  } catch {
    return "system"; // a browser may refuse storage to files
  }
}

function setTheme(theme) {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem("qkscope-theme", theme);
  } catch {
    // then it is not remembered
  }
  repaint();
}

function repaint() {
  if (!RAW || !groups.of) return;
  drawLegend();
  tell("color");
}

function startTheme() {
  let theme = THEMES.includes(storedTheme()) ? storedTheme() : "system";
  const button = $("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    setTheme(theme);
  });
  if (theme !== "system") setTheme(theme);
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", repaint);
}

// ---- printing: what is folded away belongs on paper, too -------------------------------------------

function startPrinting() {
  let opened = [];
  addEventListener("beforeprint", () => {
    if (RAW) showExtremes(); // which are drawn when they come into view
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    opened = [...document.querySelectorAll("main details:not([open])")].filter((d) => !d.closest("#explorer"));
    opened.forEach((details) => (details.open = true));
    if (RAW) drawExtremes();
  });
  addEventListener("afterprint", () => opened.forEach((details) => (details.open = false)));
}

// ---- controls of the explorer ----------------------------------------------------------------------

function option(text, value) {
  return new Option(shortText(text, 120), value);
}

function fillControls() {
  const texts = [...COLUMNS.values()].filter((column) => column.text);
  for (const name of ["model", "family", "phase", "category"]) {
    const select = $(`only-${name}`);
    const column = COLUMNS.get(name);
    if (!column || column.texts.length < 2) {
      select.closest("label").hidden = true;
      continue;
    }
    select.replaceChildren(option("all", ""), ...column.texts.map((text, i) => option(text, i)));
  }
  $("color-by").replaceChildren(...texts.map((column) => option(column.label, column.name)), option("layer", "layer"));
  const several = texts.find((column) => column.name === "family" && column.texts.length > 1)
    || texts.find((column) => column.name !== "category" && column.texts.length > 1)
    || COLUMNS.get("category") || texts[0];
  $("color-by").value = several.name;
  $("range-field").replaceChildren(...[...COLUMNS.values()].filter((column) => !column.text)
    .map((column) => option(column.name, column.name)));
  if (COLUMNS.has("r_q")) $("range-field").value = "r_q";
}

function numberOf(input, otherwise) {
  return input.value === "" || Number.isNaN(input.valueAsNumber) ? otherwise : input.valueAsNumber;
}

function readControls() {
  state.text = $("search").value;
  state.only.clear();
  for (const name of ["model", "family", "phase", "category"])
    if ($(`only-${name}`).value !== "") state.only.set(name, Number($(`only-${name}`).value));
  const [low, high] = [numberOf($("range-low"), -Infinity), numberOf($("range-high"), Infinity)];
  state.typed = low > -Infinity || high < Infinity ? { name: $("range-field").value, low, high } : null;
  state.layers = [numberOf($("layer-low"), -Infinity), numberOf($("layer-high"), Infinity)];
}

// Each control of the explorer as a part of the address.
function linkControls() {
  const apply = () => {
    readControls();
    applyFilter();
  };
  const input = (key, id) => linkPart(key, () => $(id).value, (value) => {
    $(id).value = value;
    apply();
  }, "explorer");
  input("search", "search");
  for (const name of ["model", "family", "phase", "category"]) {
    const column = COLUMNS.get(name);
    const text = (i) => (name === "model" ? RAW.models[i].name : column.texts[i]);
    if (!column) continue;
    linkPart(`only-${name}`, () => ($(`only-${name}`).value === "" ? "" : text(Number($(`only-${name}`).value))), (value) => {
      const index = column.texts.findIndex((_, i) => text(i) === value);
      $(`only-${name}`).value = index < 0 ? "" : String(index);
      apply();
    }, "explorer");
  }
  input("from", "layer-low");
  input("to", "layer-high");
  linkPart("range", () => [...state.ranges, ...(state.typed ? [state.typed] : [])].map((r) => `${r.name}:${r.low}:${r.high}`).join(";"), (value) => {
    state.ranges = value.split(";").map((one) => one.split(":")).filter(([name]) => COLUMNS.has(name) && !COLUMNS.get(name).text)
      .map(([name, low, high]) => ({ name, low: Number(low), high: Number(high) }));
    showRanges();
    applyFilter();
  }, "explorer");
  const first = $("color-by").value;
  linkPart("color", () => ($("color-by").value === first ? "" : $("color-by").value), (value) => {
    $("color-by").value = value === "layer" || (COLUMNS.has(value) && COLUMNS.get(value).text) ? value : first;
    chooseColors();
    applyFilter();
  }, "explorer");
  linkPart("hide", () => [...state.hidden].join(), (value) => {
    state.hidden = new Set(value.split(",").filter((g) => /^\d+$/.test(g)).map(Number));
    drawLegend();
    applyFilter();
  }, "explorer");
  on("filter", linkChanged);
  for (const link of document.querySelectorAll("a[data-filter]"))
    link.setAttribute("href", `#at=explorer&${link.dataset.filter}`);
}

function showRanges() {
  $("ranges").replaceChildren(...state.ranges.map((range, i) => {
    const item = document.createElement("li");
    const remove = document.createElement("button");
    const low = range.low === -Infinity ? "" : `${show(range.low)} ≤ `;
    const high = range.high === Infinity ? "" : ` ≤ ${show(range.high)}`;
    remove.type = "button";
    remove.textContent = `${low}${range.name}${high} ×`;
    remove.setAttribute("aria-label", `Remove the filter ${low}${range.name}${high}`);
    remove.addEventListener("click", () => {
      state.ranges.splice(i, 1);
      showRanges();
      applyFilter();
    });
    item.append(remove);
    return item;
  }));
}

function addRange() {
  const low = numberOf($("range-low"), -Infinity), high = numberOf($("range-high"), Infinity);
  if (low === -Infinity && high === Infinity) {
    $("range-low").focus();
    return;
  }
  state.ranges.push({ name: $("range-field").value, low, high });
  $("range-low").value = $("range-high").value = "";
  state.typed = null;
  showRanges();
  applyFilter();
}

function resetFilters() {
  $("filters").reset();
  state.ranges = [];
  state.hidden.clear();
  showRanges();
  fillControls();
  chooseColors();
  readControls();
  applyFilter();
}

function chooseColors() {
  colorBy($("color-by").value);
  drawLegend();
}

function showCounts() {
  const all = NUM_HEADS.toLocaleString("en"), shown = state.shown.length.toLocaleString("en");
  const selected = state.selected.size;
  $("count").textContent = state.shown.length === NUM_HEADS
    ? `All ${all} heads are shown.` : `${shown} of ${all} heads are shown.`;
  $("selection").textContent = selected ? `${selected.toLocaleString("en")} selected` : "none selected";
  $("save-heads").textContent = selected ? "Export the selection as CSV" : "Export the shown heads as CSV";
  $("clear").disabled = selected === 0;
  const words = selected > 1 ? `Open the ${selected} marked heads side by side` : "Open the marked head";
  $("open-head").disabled = selected < 1 || selected > MOST_TOGETHER;
  $("open-head").textContent = $("map-open").textContent = words;
  $("map-open").hidden = $("open-head").disabled;
  $("no-heads").hidden = state.shown.length > 0;
  $("select-all").disabled = state.shown.length === 0;
  const away = [...state.selected].filter((head) => !passing[head]).length;
  if (away) $("selection").textContent += `, ${away.toLocaleString("en")} of them filtered out`;
}

function startControls() {
  let typing = 0;
  const apply = () => {
    readControls();
    applyFilter();
  };
  fillControls();
  colorBy($("color-by").value);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("input", (event) => {
    if (event.target.matches("#color-by")) return;
    clearTimeout(typing);
    typing = setTimeout(apply, 120);
  });
  $("color-by").addEventListener("change", () => {
    chooseColors();
    applyFilter();
  });
  $("range-add").addEventListener("click", addRange);
  for (const id of ["range-low", "range-high"])
    $(id).addEventListener("keydown", (event) => {
      if (event.key === "Enter") addRange();
    });
  $("reset-all").addEventListener("click", resetFilters);
  $("reset-empty").addEventListener("click", () => {
    resetFilters();
    $("search").focus();
  });
  $("open-head").addEventListener("click", () => openMarked($("open-head")));
  $("save-heads").addEventListener("click", saveHeads);
  $("select-all").addEventListener("click", () => select(state.shown, true));
  $("clear").addEventListener("click", () => select([], false));
  on("filter", showCounts);
  on("selection", () => {
    showCounts();
    showSelected();
  });
}

startTheme();
startPrinting();
startFiles();
startZoom();
startTables();
if (HEADLINES && $("save-headlines")) {
  $("save-headlines").hidden = false;
  $("save-headlines").addEventListener("click", saveHeadlines);
}
if (RAW) {
  startControls();
  startTable();
  startCharts();
  applyFilter();
  drawLegend();
  startMap();
  startHeads();
  linkControls();
  linkTable();
}
startContents();
startFolds();
startScrolling();
startLink();
