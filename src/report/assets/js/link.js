// SPDX-License-Identifier: Apache-2.0
// The state of the page in its address: "#map=r_k&heads=2:1,14:3", or "#figures" where nothing but a
// place is asked for. A part has a key, what it is now ("" by default), and how it is set.

const linkParts = new Map();
let linkPlace = ""; // the section that was gone to
let linkDue = 0;
let linkKnown = ""; // the address as it was read or written last
let linkReading = false;

// section: the id of the one that shows it, which an address with this part unfolds.
function linkPart(key, get, set, section = "") {
  linkParts.set(key, { get, set, section });
}

function linkText(changes = {}) {
  const fields = new URLSearchParams();
  for (const [key, part] of linkParts) {
    const value = key in changes ? changes[key] : part.get();
    if (value) fields.set(key, value);
  }
  const text = fields.toString().replace(/%(3A|2C|2F)/g, decodeURIComponent); // which a place may have as they are
  if (!text) return linkPlace ? `#${linkPlace}` : "";
  return `#${linkPlace ? `at=${encodeURIComponent(linkPlace)}&` : ""}${text}`;
}

// The address follows what is on the screen, without an entry of the history for each letter typed.
function linkChanged() {
  if (linkReading) return;
  clearTimeout(linkDue);
  linkDue = setTimeout(() => {
    const text = linkText();
    // Another one that was gone to meanwhile is read first: its hashchange is on the way.
    if (text === location.hash || location.hash !== linkKnown) return;
    try {
      history.replaceState(history.state, "", text || location.pathname + location.search);
    } catch {
      // a browser may refuse it to files
    }
    linkKnown = location.hash;
  }, 150);
}

// What a place lies in, and what it folds itself.
function unfold(target) {
  for (let box = target; box; box = box.parentElement)
    if (box.tagName === "DETAILS") box.open = true;
  const own = target.querySelector(":scope > details.fold");
  if (own) own.open = true;
}

function goTo(id) {
  const target = id && document.getElementById(id);
  if (!target) return;
  unfold(target);
  target.scrollIntoView();
  if (target.tabIndex >= -1 && target.hasAttribute("tabindex")) target.focus({ preventScroll: true });
}

function readLink(first) {
  linkKnown = location.hash;
  const text = linkKnown.slice(1);
  const fields = new URLSearchParams(text.includes("=") ? text : "");
  const place = text.includes("=") ? fields.get("at") || "" : text;
  linkReading = true;
  linkPlace = place;
  for (const [key, part] of linkParts)
    if (fields.has(key) || (!first && text.includes("=") && part.get())) {
      part.set(fields.get(key) || "");
      if (fields.has(key) && part.section) unfold($(part.section));
    }
  linkReading = false;
  if (place) goTo(place);
  linkChanged();
}

function startLink() {
  readLink(true);
  addEventListener("hashchange", () => readLink(false));
}
