// SPDX-License-Identifier: Apache-2.0
// Finding one's way: the contents at the side, which follow the page, and sections that fold.

function startContents() {
  const nav = $("contents"), button = $("contents-open");
  const links = new Map([...nav.querySelectorAll("a")].map((a) => [document.getElementById(a.hash.slice(1)), a]));
  links.delete(null);
  const open = (yes) => {
    nav.classList.toggle("open", yes);
    button.setAttribute("aria-expanded", String(yes));
  };
  document.documentElement.classList.add("scripted");
  button.hidden = false;
  button.addEventListener("click", () => open(!nav.classList.contains("open")));
  nav.addEventListener("click", (event) => event.target.closest("a") && open(false));
  nav.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !nav.classList.contains("open")) return;
    open(false);
    button.focus();
  });
  // A click on where one is already changes no address, but goes there all the same.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash && !link.hash.includes("=")) goTo(decodeURIComponent(link.hash.slice(1)));
  });
  followScrolling(links);
}

// Sections after the first screen are folded. One button for all of them, for whoever reads or searches the whole page.
function startFolds() {
  const button = $("unfold"), folds = [...document.querySelectorAll("main section > details.fold")];
  const someClosed = () => folds.some((fold) => !fold.open);
  const say = () => (button.textContent = someClosed() ? "Open all sections" : "Close all sections");
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = someClosed();
    folds.forEach((fold) => (fold.open = open));
  });
  folds.forEach((fold) => fold.addEventListener("toggle", say));
  say();
}

// The last section that begins above the upper third of the screen is the one that is read.
function followScrolling(links) {
  let due = false;
  const follow = () => {
    due = false;
    let now = null;
    for (const target of links.keys()) {
      const { top, height } = target.getBoundingClientRect();
      if (height > 0 && top < innerHeight / 3) now = target;
    }
    for (const [target, link] of links) {
      if (target === now) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const soon = () => {
    if (!due) requestAnimationFrame(follow);
    due = true;
  };
  addEventListener("scroll", soon, { passive: true });
  new ResizeObserver(soon).observe(document.querySelector("main"));
}

// What scrolls sideways, where the screen is narrow, is reached by Tab, so that the arrow keys scroll it.
function startScrolling() {
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth + 1) target.setAttribute("tabindex", "0");
      else target.removeAttribute("tabindex");
    }
  });
  for (const box of document.querySelectorAll(".plate, math[display=block]")) observer.observe(box);
}
