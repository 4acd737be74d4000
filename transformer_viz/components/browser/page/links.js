// Pages of the menu in a new tab: their links carry the words of the address, as a click does.
// A page that is chosen while the connection is lost is opened when it is there again.

import { keepUntilHeard } from "../shared/connection.js";

const LINKS = "a[data-testid='stTopNavLink'], a[data-testid='stTopNavDropdownLink'], "
  + "a[data-testid='stSidebarNavLink']";
const CARRIED = Symbol.for("tv-carried-links");

/** Write the words of the address into a link of the menu before it is used. */
export function carryChoices() {
  if (CARRIED in window) return;
  Object.defineProperty(window, CARRIED, { value: true });
  for (const what of ["pointerdown", "mousedown", "contextmenu", "focusin", "auxclick"]) {
    document.addEventListener(what, carry, { capture: true });
  }
  document.addEventListener("click", keep, { capture: true });
}

const MENU = {
  /** @param {string} _name @param {string} path */
  say(_name, path) {
    if (location.pathname === path) return;
    history.pushState(null, "", path + location.search);
    window.dispatchEvent(new PopStateEvent("popstate"));
  },
};

/** @param {MouseEvent} event */
function keep(event) {
  const { target, ctrlKey, metaKey, shiftKey } = event;
  const link = target instanceof Element ? target.closest(LINKS) : null;
  if (!(link instanceof HTMLAnchorElement)) return;
  if (ctrlKey || metaKey || shiftKey) event.stopPropagation(); // Streamlit would open it here
  else keepUntilHeard(MENU, "page", link.pathname);
}

/** @param {Event} event */
function carry({ target }) {
  const link = target instanceof Element ? target.closest(LINKS) : null;
  if (!(link instanceof HTMLAnchorElement)) return;
  const goal = new URL(link.href);
  if (goal.origin !== location.origin || goal.search === location.search) return;
  goal.search = location.search;
  link.href = goal.href;
}
