// Vectors one under the other as strips of cells. Below each stand the numbers of a few dimensions,
// in columns, so that a sum is read downwards; a click on a number shows how it is made.

import { stripCellAt, largestOf, paintStrip } from "./cells.js";
import { dataNear, element, modified, set } from "../shared/dom.js";
import { plainSymbol, symbolName } from "./formula.js";
import { stepAlong, watched } from "./strips.js";
import { figure } from "../shared/number_format.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./formula.js").Hands} Hands */
/** @typedef {import("./cells.js").CellColours} CellColours */
/** @typedef {{symbol: string, text: string, label: string, shape: string, array: string,
 *   sign: string, open: string, marked: [number, number] | null, scale: number,
 *   own: boolean}} VectorRow
 *   sign: what joins it to the row above; open: how its numbers begin in an address, "" where
 *   nothing is to be shown behind them; scale: the number with the fullest colour, 0: its own;
 *   own: what belongs to the head that is looked into, among others */
/** @typedef {{form: "vectors", name: string, rows: VectorRow[]}} VectorPanel */
/** @typedef {{row: HTMLElement, sign: HTMLElement, head: HTMLElement, canvas: HTMLCanvasElement,
 *   numbers: HTMLElement}} VectorLine */

const NUMBER_WIDTH = 5.2; // of a number with its sign, in letters' heights

export class Vectors {
  /**
   * @param {HTMLElement} place
   * @param {Hands} hands
   */
  constructor(place, hands) {
    this.hands = hands;
    /** @type {VectorPanel} */
    this.panel = { form: "vectors", name: "", rows: [] };
    /** @type {Float32Array[]} */
    this.values = [];
    /** @type {CellColours | null} */
    this.colours = null;
    /** @type {VectorLine[]} */
    this.lines = [];
    this.opened = "";
    this.cursor = 0;
    this.count = 1; // of numbers that stand below a strip
    this.heads = element("div", "tv-in-dims");
    this.below = element("div", "tv-in-vector", element("span"), element("span", "tv-in-head"),
      this.heads);
    set(this.below, "aria-hidden", "true");
    this.frame = element("div", "tv-in-vectors");
    this.frame.tabIndex = 0;
    set(this.frame, "role", "group");
    place.append(this.frame);
    this.end = watched(this.frame, () => this.paint(), {
      pointermove: (event) => this.move(event),
      click: (event) => this.click(event),
      keydown: (event) => this.key(event),
    });
  }

  /**
   * @param {VectorPanel} panel
   * @param {Record<string, import("../shared/blob.js").Block>} arrays
   * @param {CellColours} colours
   * @param {string} opened  the address of the number whose sum is shown
   */
  show(panel, arrays, colours, opened) {
    this.panel = panel;
    this.colours = colours;
    this.opened = opened;
    this.values = panel.rows.map(({ array }) => arrays[array].data);
    this.cursor = Math.min(this.cursor, this.width - 1);
    if (!this.lines.length) this.cursor = panel.rows[0]?.marked?.[0] ?? 0;
    const at = panel.rows.findIndex(({ open }) => open && opened.startsWith(open + "/"));
    if (at >= 0) this.cursor = Math.min(Number(opened.split("/").pop()), this.width - 1);
    if (this.lines.length !== panel.rows.length) this.build();
    this.lines.forEach((line, n) => this.dress(line, panel.rows[n]));
    set(this.frame, "aria-label", tell(
      "{name}: {count} numbers each; arrow keys read them, Enter shows how one is made",
      { name: panel.name, count: this.width }));
    this.paint();
  }

  /** How many numbers each vector has. */
  get width() {
    return this.values[0]?.length ?? 1;
  }

  build() {
    this.lines = this.panel.rows.map(() => {
      const parts = {
        sign: element("span", "tv-in-sign"), head: element("div", "tv-in-head"),
        canvas: element("canvas"), numbers: element("div", "tv-in-numbers"),
      };
      const row = element("div", "tv-in-vector", parts.sign, parts.head, parts.canvas, parts.numbers);
      return { row, ...parts };
    });
    this.frame.replaceChildren(...this.lines.map(({ row }) => row), this.below);
  }

  /**
   * @param {VectorLine} line
   * @param {VectorRow} row
   */
  dress(line, row) {
    line.row.dataset.symbol = row.symbol;
    line.row.classList.toggle("tv-in-result", row.sign === "=");
    line.row.classList.toggle("tv-in-own", row.own);
    line.sign.textContent = row.sign;
    line.head.replaceChildren(symbolName(row.text), " ", element("span", "tv-in-shape", row.shape),
      element("span", "tv-in-label", row.label));
  }

  /** The first dimension whose number is shown, and the one behind the last. */
  get span() {
    const first = Math.floor(this.cursor / this.count) * this.count;
    return /** @type {[number, number]} */ ([first, Math.min(first + this.count, this.width)]);
  }

  paint() {
    const colours = this.colours, width = this.lines[0]?.canvas.clientWidth;
    if (!colours || !width) return;
    const letter = parseFloat(getComputedStyle(this.frame).fontSize);
    this.count = Math.max(1, Math.min(this.width, Math.floor(width / (NUMBER_WIDTH * letter))));
    const window = this.count < this.width ? this.span : null;
    this.lines.forEach(({ canvas, numbers }, n) => {
      const { scale, marked } = this.panel.rows[n];
      const most = scale || largestOf(this.values[n]);
      paintStrip(canvas, this.values[n], colours, { most, cursor: this.cursor, window, marked });
      this.write(numbers, n);
    });
    const [first, last] = this.span;
    this.heads.style.setProperty("--count", String(this.count));
    this.heads.replaceChildren(...Array.from({ length: last - first }, (_, n) =>
      element("span", first + n === this.cursor ? "tv-in-here" : "", String(first + n + 1))));
  }

  /**
   * The numbers below a strip.
   * @param {HTMLElement} place
   * @param {number} n
   */
  write(place, n) {
    const [first, last] = this.span, { open, text } = this.panel.rows[n];
    place.style.setProperty("--count", String(this.count));
    while (place.children.length > last - first) place.lastElementChild?.remove();
    while (place.children.length < last - first) {
      const made = element("button", "tv-in-number");
      made.type = "button";
      place.append(made);
    }
    [...place.children].forEach((child, k) => {
      const button = /** @type {HTMLButtonElement} */ (child), at = first + k;
      const number = figure(this.values[n][at]);
      if (button.textContent !== number) button.textContent = number;
      button.disabled = !open;
      button.dataset.address = open ? `${open}/${at}` : "";
      button.tabIndex = at === this.cursor && open ? 0 : -1;
      button.classList.toggle("tv-in-here", at === this.cursor);
      set(button, "aria-pressed", String(Boolean(open) && this.opened === `${open}/${at}`));
      set(button, "aria-label", `${plainSymbol(text)} ${at + 1}: ${number}`);
    });
  }

  /**
   * @param {number} cursor
   * @param {number} [line]  of the vector that is read out
   */
  put(cursor, line = this.lines.length - 1) {
    if (cursor !== this.cursor) {
      this.cursor = cursor;
      this.paint();
    }
    const { text, label } = this.panel.rows[line];
    this.hands.read(tell("{symbol}, dimension {at} of {count}: {value} ({label})", {
      symbol: plainSymbol(text), at: cursor + 1, count: this.width,
      value: figure(this.values[line][cursor]), label,
    }));
  }

  /**
   * The vector and the dimension under the pointer.
   * @param {MouseEvent} event
   */
  under(event) {
    const line = this.lines.findIndex(({ canvas }) => canvas === event.target);
    return line < 0 ? null : { line, at: stripCellAt(this.lines[line].canvas, this.width, event) };
  }

  /** @param {PointerEvent} event */
  move(event) {
    const found = this.under(event);
    if (found && found.at >= 0) this.put(found.at, found.line);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const found = this.under(event), address = dataNear(event, "button", "address");
    if (address) this.hands.open(address);
    else if (found && found.at >= 0) this.openAt(found.line, found.at);
  }

  /**
   * @param {number} line
   * @param {number} at
   */
  openAt(line, at) {
    const { open } = this.panel.rows[line];
    if (open) this.hands.open(`${open}/${at}`);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (modified(event)) return;
    const to = stepAlong(event, this.cursor, this.width - 1);
    if (to !== undefined) this.put(to);
    else if (event.key === "Enter" && event.target === this.frame) {
      const line = this.panel.rows.map(({ open }) => Boolean(open)).lastIndexOf(true);
      if (line >= 0) this.openAt(line, this.cursor);
    }
  }
}
