// SPDX-License-Identifier: Apache-2.0
// What can be saved of a figure, all from the page itself: its picture and its numbers.

function pictureOf(files) {
  const figure = files.closest("figure");
  if (zoom.home && zoom.picture && figure.contains(zoom.home)) return zoom.picture;
  return figure.querySelector(".sheet svg, .sheet img");
}

// The drawing as a file of its own: with the colours that it has on the page now.
function svgText(svg) {
  const copy = svg.cloneNode(true);
  const box = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.removeAttribute("style");
  return new XMLSerializer().serializeToString(copy)
    .replace(/var\((--fig-[a-z]+)\)/g, (_, name) => css(name) || "black");
}

function saveSvg(name, picture) {
  const file = picture.tagName === "IMG" ? decodeURIComponent(picture.src.slice(picture.src.indexOf(",") + 1)) : svgText(picture);
  save(`${name}.svg`, file, "image/svg+xml");
}

async function savePng(name, picture) {
  const image = new Image();
  image.src = picture.tagName === "IMG" ? picture.src : `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: 2 * image.naturalWidth, height: 2 * image.naturalHeight });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(`${name}.png`, blob, "image/png"));
}

async function savePacked(name, base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
  save(name, await new Response(stream).blob(), "text/plain;charset=utf-8");
}

function startFiles() {
  for (const files of document.querySelectorAll(".files")) {
    const { name } = files.dataset;
    const packed = FILES.figures[name] || {};
    const buttons = [];
    const add = (text, ending, action) => {
      const button = make("button", { type: "button", className: "file", textContent: text });
      button.setAttribute("aria-label", `Save ${name}.${ending}`);
      button.addEventListener("click", action);
      buttons.push(button);
    };
    const picture = pictureOf(files);
    if (picture) add("SVG", "svg", () => saveSvg(name, pictureOf(files)));
    if (picture) add("PNG", "png", () => savePng(name, pictureOf(files)));
    if (window.DecompressionStream && packed.csv) add("CSV", "csv", () => savePacked(`${name}.csv`, packed.csv));
    if (buttons.length) files.prepend("Save: ", ...buttons);
  }
}
