// A row of buttons of which one is chosen.

import { element, modified, set } from "./dom.js";

/** @typedef {(where: EventTarget, what: string, does: (event: any) => void) => void} Listen */

/**
 * A row of buttons of which one is chosen: arrow keys move, as in a set of tabs.
 * @param {string} name
 * @param {string[]} labels
 * @param {Listen} on
 * @param {(n: number) => void} chosen
 */
export function tabs(name, labels, on, chosen) {
  const buttons = labels.map((label) => {
    const button = element("button", "", label);
    button.type = "button";
    set(button, "role", "radio");
    return button;
  });
  const place = element("div", "tabs", ...buttons);
  set(place, "role", "radiogroup");
  set(place, "aria-label", name);
  const choose = (/** @type {number} */ chosenOne) => buttons.forEach((button, n) => {
    set(button, "aria-checked", String(n === chosenOne));
    button.tabIndex = n === chosenOne ? 0 : -1;
  });
  const take = (/** @type {number} */ n) => {
    choose(n);
    buttons[n].focus();
    chosen(n);
  };
  on(place, "click", (event) => {
    const n = buttons.indexOf(event.target);
    if (n >= 0) take(n);
  });
  on(place, "keydown", (event) => {
    /** @type {Record<string, number>} */
    const ways = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const way = ways[event.key], here = buttons.indexOf(event.target);
    if (!way || here < 0 || modified(event)) return;
    event.preventDefault();
    take((here + way + buttons.length) % buttons.length);
  });
  choose(0);
  return { place, choose };
}
