// SPDX-License-Identifier: Apache-2.0
// The scatter charts: any two columns, coloured by group, linked with each other and the table.

const DEFAULT_AXES = [["r_q", "r_k"], ["separation_strength", "bias_strength"], ["layer", "r_q"],
  ["plane_var_fraction", "ap_overall"], ["depth", "ap_drop"]];
const NUM_CHARTS = 3;
const MOVED = 6; // pixels that make a click a box
const charts = [];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const inkOr = (color) => (color === "ink" ? css("--ink") : color);

// Dashed lines at the thresholds of the taxonomy, on axes that hold correlations; 0.3 and 0.7 where no
// manifest names others.
const LIMITS = RAW && RAW.thresholds[0] !== null ? RAW.thresholds : [0.3, 0.7];
const thresholds = {
  id: "thresholds",
  beforeDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales } = chart;
    ctx.save();
    ctx.strokeStyle = css("--faint");
    ctx.lineWidth = 1;
    ctx.setLineDash([4, 4]);
    for (const axis of ["x", "y"]) {
      if (!/^r_[qk](_a)?$/.test(chart.options.scales[axis].qkField)) continue;
      for (const at of LIMITS.flatMap((limit) => [-limit, limit])) {
        const pixel = Math.round(scales[axis].getPixelForValue(at)) + 0.5;
        const [low, high] = axis === "x" ? [area.left, area.right] : [area.top, area.bottom];
        if (pixel < low || pixel > high) continue;
        ctx.beginPath();
        ctx.moveTo(axis === "x" ? pixel : area.left, axis === "x" ? area.top : pixel);
        ctx.lineTo(axis === "x" ? pixel : area.right, axis === "x" ? area.bottom : pixel);
        ctx.stroke();
      }
    }
    ctx.restore();
  },
};

// Marks lie on a canvas of their own, under the points and what is written over these, so that pointing at a head
// draws one ring, not all points again.
const overlay = {
  id: "overlay",
  afterRender: (chart) => chart.qkOwner.drawMarks(chart),
};

// Axes are those of all heads, so that a filter moves none.
function rangeOf(column) {
  const known = column.values.filter((v) => Number.isFinite(v));
  if (!known.length) return {};
  const low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
  const room = 0.03 * (high - low) || 0.5;
  return { min: low - room, max: high + room };
}

function axisOptions(name) {
  const column = COLUMNS.get(name);
  return {
    type: "linear", qkField: name,
    title: { display: true, text: name, color: css("--ink") },
    ...rangeOf(column),
    ticks: { color: css("--muted"), maxTicksLimit: 7, includeBounds: false, callback: tickText, ...(column.id && name !== "depth" ? { precision: 0 } : {}) },
    grid: { color: css("--line"), borderColor: css("--faint") },
  };
}

function tooltipOptions() {
  return {
    filter: (item, index) => index === 0, // of points on top of one another the first
    displayColors: false, animation: false,
    backgroundColor: css("--ink"), titleColor: css("--paper"), bodyColor: css("--paper"),
    callbacks: {
      title: (items) => items.map((item) => shortText(COLUMNS.get("model").texts[RAW.model[item.raw.head]]))[0],
      label: (item) => {
        const head = item.raw.head;
        const category = COLUMNS.get("category");
        const axes = [item.chart.options.scales.x.qkField, item.chart.options.scales.y.qkField];
        return [
          `layer ${RAW.layer[head]}, query head ${RAW.q_head[head]}, key head ${RAW.k_head[head]}`,
          ...(category && textOf(category, head) ? [textOf(category, head)] : []),
          ...axes.map((name) => `${name}: ${show(COLUMNS.get(name).values[head])}`),
        ];
      },
    },
  };
}

class HeadChart {
  constructor(index, box) {
    this.index = index;
    this.canvas = box.querySelector("canvas");
    this.rubber = box.querySelector(".rubber");
    this.over = document.createElement("canvas");
    this.over.className = "over";
    this.over.setAttribute("aria-hidden", "true");
    this.empty = document.createElement("p");
    Object.assign(this.empty, { className: "empty over", textContent: "No head to show has both numbers.", hidden: true });
    this.canvas.before(this.over);
    this.rubber.before(this.empty);
    this.selects = { x: box.querySelector("[data-axis=x]"), y: box.querySelector("[data-axis=y]") };
    this.chart = null;
    this.visible = false;
    this.stale = "all";
    this.canvas.setAttribute("aria-label", "Chart, drawn when it comes into view");
    this.fillSelects();
    for (const select of Object.values(this.selects))
      select.addEventListener("change", () => {
        this.restart();
        linkChanged();
      });
    this.followPointer();
  }

  fillSelects() {
    const has = (pair) => pair.every((name) => COLUMNS.has(name));
    const fits = DEFAULT_AXES.filter(has);
    const numeric = [...COLUMNS.values()].filter((column) => !column.text && !column.end);
    const changed = numeric.filter((column) => column.first)[this.index];
    const told = numeric.filter((column) => !column.id && column.values.some(Number.isFinite));
    const fallback = ["layer", (changed || told[this.index] || numeric[numeric.length - 1]).name];
    const pair = fits[this.index] || fits[0] || fallback;
    for (const [i, axis] of ["x", "y"].entries())
      this.selects[axis].replaceChildren(...numeric.map(({ name, label }) =>
        new Option(name === label ? name : `${name}: ${label}`, name, false, name === pair[i])));
    const axes = () => `${this.field("x")}~${this.field("y")}`, first = axes();
    linkPart(`chart${this.index + 1}`, () => (axes() === first ? "" : axes()), (value) => {
      const names = (value || first).split("~");
      if (!names.every((name) => numeric.some((column) => column.name === name))) return;
      [this.selects.x.value, this.selects.y.value] = names;
      this.restart();
    }, "explorer");
  }

  field(axis) {
    return this.selects[axis].value;
  }

  points(heads) {
    const x = COLUMNS.get(this.field("x")).values, y = COLUMNS.get(this.field("y")).values;
    const out = [];
    for (const head of heads)
      if (!Number.isNaN(x[head]) && !Number.isNaN(y[head])) out.push({ x: x[head], y: y[head], head });
    return out.sort((a, b) => a.x - b.x || a.head - b.head); // what is not parsed must be in order
  }

  // Those that a filter leaves out stay as grey points, which nothing happens to.
  others() {
    const away = RAW.model.map((_, head) => head).filter((head) => !passing[head]);
    return {
      label: "filtered out", data: this.points(away), pointStyle: "circle", order: 1 + groups.list.length, away: true,
      backgroundColor: css("--line"), borderColor: css("--line"), borderWidth: 0, radius: 2, hoverRadius: 2, hitRadius: -2,
    };
  }

  // One dataset a group, and behind them all that is filtered out.
  datasets() {
    return [...this.groupSets(), this.others()];
  }

  groupSets() {
    const size = state.shown.length > 4000 ? 2 : state.shown.length > 800 ? 2.5 : 3.5;
    const members = groups.list.map(() => []);
    for (const head of state.shown) members[groups.index[head]].push(head);
    const bySize = members.map((_, g) => g).sort((a, b) => members[a].length - members[b].length);
    return groups.list.map((group, g) => {
      const color = inkOr(group.color);
      return {
        label: group.label, data: this.points(members[g]), pointStyle: group.shape,
        order: 1 + bySize.indexOf(g), // the smallest group in front
        backgroundColor: color + "99", borderColor: color + "cc",
        borderWidth: /star|cross/i.test(group.shape) ? 1.2 : 0.5,
        radius: /star|cross/i.test(group.shape) ? size + 1 : size, hoverRadius: size + 2,
      };
    });
  }

  marked() {
    const shown = (head) => passing[head] === 1; // what is filtered out has no point to be marked
    return { selection: [...state.selected].filter(shown), pointed: [state.pointed].filter(shown) };
  }

  drawMarks(chart) {
    const { width, height, chartArea: area, scales } = chart;
    const ratio = window.devicePixelRatio || 1;
    const context = this.over.getContext("2d");
    Object.assign(this.over, { width: width * ratio, height: height * ratio });
    Object.assign(this.over.style, { width: `${width}px`, height: `${height}px` });
    context.scale(ratio, ratio);
    context.lineWidth = 2;
    const { selection, pointed } = this.marked();
    const ring = (color, radius) => (p) => {
      const at = [scales.x.getPixelForValue(p.x), scales.y.getPixelForValue(p.y)];
      if (at[0] < area.left - 1 || at[0] > area.right + 1 || at[1] < area.top - 1 || at[1] > area.bottom + 1) return;
      context.strokeStyle = color;
      context.beginPath();
      context.arc(at[0], at[1], radius, 0, 2 * Math.PI);
      context.stroke();
    };
    this.points(selection).forEach(ring(css("--mark"), 6));
    this.points(pointed).forEach(ring(css("--ink"), 9));
  }

  start() {
    this.chart = new Chart(this.canvas, {
      type: "scatter",
      data: { datasets: this.datasets() },
      plugins: [thresholds, { id: "owner", beforeInit: (chart) => (chart.qkOwner = this) }, overlay],
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: false,
        interaction: { mode: "nearest", intersect: true, axis: "xy" },
        elements: { point: { hitRadius: 3 } },
        layout: { padding: 4 },
        plugins: { legend: { display: false }, tooltip: tooltipOptions() },
        scales: { x: axisOptions(this.field("x")), y: axisOptions(this.field("y")) },
        onHover: (event, items) => point(items.length ? this.headAt(items[0]) : -1),
        onClick: (event, items) => this.click(event.native, items),
      },
    });
    this.describe();
  }

  headAt(item) {
    return this.chart.data.datasets[item.datasetIndex].data[item.index].head;
  }

  describe() {
    const points = this.chart.data.datasets.reduce((sum, set) => sum + (set.away ? 0 : set.data.length), 0);
    this.empty.hidden = points > 0;
    this.canvas.setAttribute("aria-label",
      `Chart of ${this.field("y")} over ${this.field("x")}, ${state.shown.length} heads; ` +
      "the table below lists them");
  }

  // Brings the picture up to date if it is on the screen, else when it comes there.
  refresh(what) {
    if (what && this.stale !== "all") this.stale = what; // "all" or "marks"
    if (!this.visible || !this.stale) return;
    if (!this.chart) {
      this.start();
    } else if (this.stale === "marks") {
      this.drawMarks(this.chart);
    } else {
      this.chart.data.datasets = this.datasets();
      this.chart.update("none");
      this.describe();
    }
    this.stale = false;
  }

  restart() {
    if (this.chart) this.chart.destroy();
    this.chart = null;
    this.refresh("all");
  }

  click(event, items) {
    if (this.dragged) return;
    if (items.length === 0) {
      if (!event.shiftKey) select([], false);
    } else if (event.shiftKey) {
      toggle(this.headAt(items[0]));
    } else {
      select([this.headAt(items[0])], false);
    }
  }

  // A box drawn with mouse or pen selects; a finger scrolls the page.
  followPointer() {
    let from = null;
    const at = (event) => {
      const frame = this.canvas.getBoundingClientRect();
      return [Math.min(Math.max(event.clientX - frame.left, 0), frame.width),
        Math.min(Math.max(event.clientY - frame.top, 0), frame.height)];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.dragged = false;
      if (event.pointerType === "touch" || event.button !== 0) return;
      from = at(event);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const to = at(event);
      if (!this.dragged && Math.hypot(to[0] - from[0], to[1] - from[1]) < MOVED) return;
      this.dragged = true;
      this.rubber.hidden = false;
      const [left, top] = [Math.min(from[0], to[0]), Math.min(from[1], to[1])];
      Object.assign(this.rubber.style, {
        left: `${left}px`, top: `${top}px`,
        width: `${Math.abs(to[0] - from[0])}px`, height: `${Math.abs(to[1] - from[1])}px`,
      });
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (from && this.dragged) this.selectBox(from, at(event), event.shiftKey);
      from = null;
      this.rubber.hidden = true;
    });
    this.canvas.addEventListener("pointercancel", () => {
      from = null;
      this.rubber.hidden = true;
    });
    this.canvas.addEventListener("mouseleave", () => point(-1));
  }

  selectBox(a, b, add) {
    const { x, y } = this.chart.scales;
    const range = (scale, p, q) => [scale.getValueForPixel(p), scale.getValueForPixel(q)].sort((m, n) => m - n);
    const [left, right] = range(x, a[0], b[0]);
    const [low, high] = range(y, a[1], b[1]);
    select(this.points(state.shown)
      .filter((p) => p.x >= left && p.x <= right && p.y >= low && p.y <= high)
      .map((p) => p.head), add);
  }
}

function startCharts() {
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.find((c) => c.canvas.parentElement === entry.target);
      chart.visible = entry.isIntersecting;
      chart.refresh(false);
    }
  }, { rootMargin: "200px" });
  document.querySelectorAll("#explorer .chart").forEach((box, index) => {
    const chart = new HeadChart(index, box);
    charts.push(chart);
    observer.observe(chart.canvas.parentElement);
  });
  on("filter", () => charts.forEach((chart) => chart.refresh("all")));
  on("color", () => charts.forEach((chart) => chart.restart()));
  on("selection", () => charts.forEach((chart) => chart.refresh("marks")));
  on("pointed", () => charts.forEach((chart) => chart.refresh("marks")));
}

// ---- legend --------------------------------------------------------------------------------------

function drawSymbol(canvas, group) {
  const ratio = window.devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  canvas.width = canvas.height = 14 * ratio;
  context.scale(ratio, ratio);
  context.fillStyle = context.strokeStyle = inkOr(group.color);
  context.lineWidth = 1.5;
  Chart.helpers.drawPoint(context, { pointStyle: group.shape, radius: 5, borderWidth: 1.5 }, 7, 7);
}

function drawLegend() {
  $("legend").replaceChildren(...groups.list.map((group, g) => {
    const button = document.createElement("button");
    const symbol = document.createElement("canvas");
    const name = document.createElement("bdi");
    button.type = "button";
    button.setAttribute("aria-pressed", String(!state.hidden.has(g)));
    button.title = "show or hide";
    name.textContent = shortText(group.label);
    drawSymbol(symbol, group);
    button.append(symbol, name);
    button.addEventListener("click", () => {
      if (!state.hidden.delete(g)) state.hidden.add(g);
      linkChanged();
      button.setAttribute("aria-pressed", String(!state.hidden.has(g)));
      applyFilter();
    });
    return button;
  }));
}
