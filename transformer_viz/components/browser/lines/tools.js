// What stands around the lines: how many to draw, whose they are, and a table of them.

import { element, listener, offer, set } from "../shared/dom.js";
import { DASHES } from "./draw.js";
import { signed } from "../shared/number_format.js";
import { byStrength } from "./links.js";
import { headName } from "./words.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./links.js").LinesData} LinesData */
/** @typedef {{top: number, threshold: number}} Wanted */

const TOPS = [0, 1, 2, 3, 5, 10];
const THRESHOLDS = [0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
const TABLE_ROWS = 200; // more would not be read

/** How many lines of each word to draw, and from which weight on. */
export class LinesTools {
  /**
   * @param {AbortSignal} signal
   * @param {(wanted: Wanted) => void} choose
   * @param {() => void} tabulate
   */
  constructor(signal, choose, tabulate) {
    /** @type {Wanted} */
    this.wanted = { top: 0, threshold: 0 };
    this.top = element("select");
    this.least = element("input");
    this.reading = element("output");
    this.table = element("button", "", tell("as a table"));
    Object.assign(this.least, { type: "range", min: 0, max: THRESHOLDS.length - 1, step: 1 });
    Object.assign(this.table, { type: "button" });
    set(this.table, "aria-expanded", "false");
    this.place = element("div", "tools",
      element("label", "", tell("lines of each word") + " ", this.top),
      element("label", "", tell("at least") + " ", this.least, this.reading), this.table);
    const on = listener(signal);
    const take = (/** @type {Partial<Wanted>} */ part) => {
      this.show({ ...this.wanted, ...part });
      choose(this.wanted);
    };
    on(this.top, "change", () => take({ top: Number(this.top.value) }));
    on(this.least, "input", () => take({ threshold: THRESHOLDS[Number(this.least.value)] }));
    on(this.table, "click", () => {
      set(this.table, "aria-expanded", String(!this.isOpen()));
      tabulate();
    });
  }

  /** Whether the table is asked for. */
  isOpen() {
    return this.table.getAttribute("aria-expanded") === "true";
  }

  /** @param {Wanted} wanted */
  show(wanted) {
    this.wanted = { top: wanted.top, threshold: wanted.threshold };
    const tops = TOPS.includes(wanted.top) ? TOPS : [...TOPS, wanted.top];
    offer(this.top, tops.map((count) =>
      [String(count), count ? tell("strongest {count}", { count }) : tell("all")]), String(wanted.top));
    const step = THRESHOLDS.findIndex((threshold) => threshold >= wanted.threshold);
    this.least.value = String(step < 0 ? THRESHOLDS.length - 1 : step);
    this.reading.textContent = String(wanted.threshold);
    set(this.least, "aria-valuetext", this.reading.textContent);
  }
}

/**
 * Which line is whose: a stroke as it is drawn beside each head's name, and what colours mean where
 * a change is drawn.
 * @param {HTMLElement} list
 * @param {LinesData} data
 * @param {import("./draw.js").Brush} brush
 * @param {import("../shared/colour.js").Palette} palette
 */
export function showLegend(list, data, brush, palette) {
  const heads = data.heads.map((head, n) =>
    element("li", "", swatch(data.change ? palette.ink : brush.colours[n], n), headName(head)));
  const [less, more] = brush.colours;
  const changes = !data.change ? [] : [
    element("li", "", swatch(more, 0), tell("more than before")),
    element("li", "", swatch(less, 0), tell("less")),
    element("li", "quiet", tell("full colour: ±{most}", { most: brush.most.toFixed(2) })),
  ];
  list.replaceChildren(...heads, ...changes);
}

/**
 * @param {string} colour
 * @param {number} dashes
 */
function swatch(colour, dashes) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  const line = document.createElementNS(space, "path");
  const looks = {
    d: "M1 6H45", stroke: colour, "stroke-width": "3", "stroke-dasharray": DASHES[dashes].join(" "),
  };
  for (const [name, value] of Object.entries(looks)) line.setAttribute(name, value);
  picture.setAttribute("width", "46");
  picture.setAttribute("height", "12");
  picture.setAttribute("aria-hidden", "true");
  picture.append(line);
  return picture;
}

/**
 * The drawn lines as a table, strongest first.
 * @param {LinesData} data
 * @param {import("./links.js").Link[]} links
 * @returns {HTMLElement}
 */
export function tableOf(data, links) {
  const rows = byStrength(links).slice(0, TABLE_ROWS).map((link) => element("tr", "",
    rowHead(data.rows.labels[link.query]),
    element("td", "", data.columns.labels[link.key]),
    element("td", "", headName(data.heads[link.head])),
    element("td", "", signed(link.weight, 4, data.change))));
  const last = data.change ? tell("change") : tell("weight");
  const names = [tell("from"), tell("to"), tell("head"), last];
  const head = element("tr", "", ...names.map((name) => element("th", "", name)));
  for (const cell of head.children) set(cell, "scope", "col");
  return element("table", "", element("caption", "", captionOf(rows.length, links.length)),
    element("thead", "", head), element("tbody", "", ...rows));
}

/**
 * @param {number} listed
 * @param {number} drawn
 */
function captionOf(listed, drawn) {
  if (listed < drawn) {
    return tell("the {listed} strongest of {drawn} lines that are drawn", { listed, drawn });
  }
  return tell("the lines that are drawn, strongest first");
}

/** @param {string} name */
function rowHead(name) {
  const head = element("th", "", name);
  head.scope = "row";
  return head;
}
