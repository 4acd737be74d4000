// The elements of an atlas, and the small box that says what stands under the pointer.

import { element, set } from "../shared/dom.js";

const CELL = "tv-atlas-cell";

/**
 * Fill a place with the parts of an atlas: few, however many heads there are.
 *
 * The frame of the tiles is a grid with one cell, the one that the keyboard is on, so that screen
 * readers meet what they know; what changes while one walks is said by the live line.
 * @param {HTMLElement} place
 * @returns {Record<"frame" | "cell" | "live" | "table" | "tools" | "legend" | "tip", HTMLElement>}
 */
export function atlasParts(place) {
  const cell = element("div"), row = element("div", "tv-hidden", cell);
  const parts = {
    frame: element("div", "tv-frame", row), cell, table: element("div", "tv-table"),
    legend: element("div", "tv-legend"), tools: element("div", "tv-tools"),
    live: element("div", "tv-hidden"), tip: element("div", "tv-tip"),
  };
  const { frame, table, legend, tools, live, tip } = parts;
  cell.id = CELL;
  for (const [part, name, value] of /** @type {[Element, string, string][]} */ ([
    [frame, "role", "grid"], [frame, "tabindex", "0"], [frame, "aria-activedescendant", CELL],
    [row, "role", "row"], [cell, "role", "gridcell"], [live, "aria-live", "polite"],
    [tip, "aria-hidden", "true"],
  ])) set(part, name, value);
  tip.hidden = table.hidden = true;
  place.classList.add("tv-atlas");
  place.replaceChildren(frame, table, legend, tools, live, tip);
  return parts;
}

/**
 * Lines in a box below a rectangle, or above it where there is no room below.
 * @param {HTMLElement} tip
 * @param {string[]} lines
 * @param {{left: number, top: number, width: number, height: number}} around
 * @param {HTMLElement} place  which the box does not leave
 */
export function tellBeside(tip, lines, around, place) {
  tip.hidden = false;
  tip.replaceChildren(...lines.map((line) => element("div", "", line)));
  const { offsetWidth, offsetHeight } = tip;
  const x = around.left + around.width / 2 - offsetWidth / 2;
  const below = around.top + around.height + 8, above = around.top - offsetHeight - 8;
  const room = place.clientHeight - offsetHeight;
  tip.style.left = Math.max(0, Math.min(x, place.clientWidth - offsetWidth)) + "px";
  tip.style.top = (below > room && above >= 0 ? above : Math.min(below, room)) + "px";
}
