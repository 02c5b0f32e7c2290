// SPDX-License-Identifier: Apache-2.0
// Figures by themselves, as large as one likes: buttons, keys (+, -, 0), wheel with Ctrl, and two fingers.

const ZOOM_STEP = 1.3, ZOOM_LEAST = 0.2, ZOOM_MOST = 12;
const zoom = { picture: null, home: null, opener: null, scale: 1, fit: 1, width: 1, height: 1, all: [] };

function zoomTo(scale, around = null) {
  const area = $("zoom-area");
  const next = Math.min(Math.max(scale, ZOOM_LEAST * zoom.fit), ZOOM_MOST);
  const frame = area.getBoundingClientRect();
  const [x, y] = around ? [around[0] - frame.left, around[1] - frame.top] : [frame.width / 2, frame.height / 2];
  const change = next / zoom.scale;
  const [left, top] = [(area.scrollLeft + x) * change - x, (area.scrollTop + y) * change - y];
  zoom.scale = next;
  Object.assign(zoom.picture.style, { width: `${zoom.width * next}px`, height: `${zoom.height * next}px` });
  area.scrollLeft = left;
  area.scrollTop = top;
  $("zoom-size").textContent = `${Math.round(100 * next)} %`;
}

function zoomFit() {
  const area = $("zoom-area");
  zoom.fit = Math.min(area.clientWidth / zoom.width, area.clientHeight / zoom.height);
  zoom.scale = zoom.fit;
  zoomTo(zoom.fit);
}

// The picture itself moves into the dialog and back, so that nothing is on the page twice.
function takePicture(sheet) {
  const picture = sheet.querySelector("svg, img");
  const box = picture.viewBox && picture.viewBox.baseVal;
  zoom.picture = picture;
  zoom.home = sheet;
  zoom.width = box ? box.width : picture.naturalWidth || 1;
  zoom.height = box ? box.height : picture.naturalHeight || 1;
  const figure = sheet.closest("figure");
  const group = figure.closest(".group");
  const title = (group || figure).querySelector(".groupcaption b, figcaption b");
  const model = group ? figure.querySelector("figcaption bdi") : null;
  $("zoom-title").textContent = [title && title.textContent.replace(/\.$/, ""), model && model.textContent]
    .filter(Boolean).join(": ");
  $("zoom-area").replaceChildren(picture);
}

function returnPicture() {
  if (!zoom.picture) return;
  zoom.picture.style.width = zoom.picture.style.height = "";
  zoom.home.prepend(zoom.picture);
  zoom.picture = null;
}

function openZoom(sheet, opener) {
  const dialog = $("zoom");
  zoom.opener = opener;
  returnPicture();
  if (!dialog.open) dialog.showModal();
  takePicture(sheet);
  zoomFit();
  $("zoom-area").focus();
  const at = zoom.all.indexOf(sheet);
  $("zoom-before").disabled = at <= 0;
  $("zoom-next").disabled = at < 0 || at === zoom.all.length - 1;
}

function zoomStep(step) {
  const sheet = zoom.all[zoom.all.indexOf(zoom.home) + step];
  if (sheet) openZoom(sheet, sheet.closest("figure").querySelector(".enlarge"));
}

function zoomKey(event) {
  const actions = {
    "+": () => zoomTo(zoom.scale * ZOOM_STEP), "=": () => zoomTo(zoom.scale * ZOOM_STEP),
    "-": () => zoomTo(zoom.scale / ZOOM_STEP), 0: zoomFit,
    PageUp: () => zoomStep(-1), PageDown: () => zoomStep(1),
  };
  if (event.ctrlKey || event.metaKey || !(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

// Two fingers: the picture grows as they part, around the point between them.
function followFingers(area) {
  let start = null;
  const between = ([a, b]) => ({
    distance: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY),
    middle: [(a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2],
  });
  area.addEventListener("touchstart", (event) => {
    if (event.touches.length !== 2) return;
    start = { ...between(event.touches), scale: zoom.scale };
    event.preventDefault();
  }, { passive: false });
  area.addEventListener("touchmove", (event) => {
    if (!start || event.touches.length !== 2) return;
    const now = between(event.touches);
    event.preventDefault();
    zoomTo((start.scale * now.distance) / Math.max(start.distance, 1), now.middle);
  }, { passive: false });
  area.addEventListener("touchend", () => (start = null));
  area.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomTo(zoom.scale * Math.exp(-event.deltaY / 200), [event.clientX, event.clientY]);
  }, { passive: false });
}

function makeZoom() {
  const button = (id, text, label, action) => {
    const out = make("button", { type: "button", id, textContent: text });
    if (label) out.setAttribute("aria-label", label);
    out.addEventListener("click", action);
    return out;
  };
  const area = make("div", { id: "zoom-area", tabIndex: 0 });
  area.setAttribute("role", "region");
  area.setAttribute("aria-label", "The figure; plus and minus change its size, the arrow keys move it");
  const dialog = make("dialog", { id: "zoom" },
    make("div", { className: "dialog-bar" },
      make("h2", { id: "zoom-title", tabIndex: -1 }),
      make("span", { className: "dialog-buttons" },
        button("zoom-out", "−", "Smaller", () => zoomTo(zoom.scale / ZOOM_STEP)),
        make("output", { id: "zoom-size" }),
        button("zoom-in", "+", "Larger", () => zoomTo(zoom.scale * ZOOM_STEP)),
        button("zoom-fit", "Fit", "", zoomFit),
        button("zoom-before", "‹", "Previous figure", () => zoomStep(-1)),
        button("zoom-next", "›", "Next figure", () => zoomStep(1)),
        button("zoom-close", "Close", "", () => dialog.close()))),
    area);
  dialog.setAttribute("aria-labelledby", "zoom-title");
  dialog.addEventListener("keydown", zoomKey);
  dialog.addEventListener("close", () => {
    returnPicture();
    if (zoom.opener) zoom.opener.focus({ preventScroll: true });
  });
  followFingers(area);
  new ResizeObserver(() => dialog.open && zoom.picture && zoomFit()).observe(area);
  document.body.append(dialog);
}

function startZoom() {
  zoom.all = [...document.querySelectorAll(".sheet")];
  if (!zoom.all.length) return;
  makeZoom();
  for (const sheet of zoom.all) {
    const plate = sheet.closest(".plate");
    plate.setAttribute("role", "group");
    plate.setAttribute("aria-label", `Figure ${sheet.closest("figure").id.replace(/^fig-/, "")}`);
    const figure = sheet.closest("figure");
    const button = make("button", { type: "button", className: "enlarge", textContent: "Enlarge" });
    button.setAttribute("aria-label", `Enlarge the figure ${figure.id.replace(/^fig-/, "")}`);
    button.addEventListener("click", () => openZoom(sheet, button));
    sheet.addEventListener("click", () => openZoom(sheet, button));
    const files = figure.querySelector(".files");
    if (files) files.prepend(button);
    else sheet.closest(".plate").after(button);
  }
}
