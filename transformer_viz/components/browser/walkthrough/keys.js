// One row for each word that is looked at: its vectors as strips, its numbers, and what hides it.

import { stripCellAt, largestOf, paintStrip } from "./cells.js";
import { activeAround, dataNear, element, elementsIn, modified, set } from "../shared/dom.js";
import { plainSymbol, symbolName } from "./formula.js";
import { stepAlong, watched } from "./strips.js";
import { figure } from "../shared/number_format.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./formula.js").Hands} Hands */
/** @typedef {import("./cells.js").CellColours} CellColours */
/** @typedef {{symbol: string, text: string, label: string, array: string, open: string, made: string,
 *   how: "strip" | "number" | "share" | "word", total: string}} KeyColumn
 *   how: a vector for each key; a number; a number with a bar; `said` of the panel.
 *   made: the array that is finite where a number can be opened; total: what stands below */
/** @typedef {{symbol: string, text: string, label: string, array: string, open: string,
 *   below: boolean, word: string}} KeyExtra  a vector over, or under, the strips of the keys */
/** @typedef {{form: "keys", name: string, words: string[], seen: string, said: string[],
 *   strongest: string, columns: KeyColumn[], extra: KeyExtra | null}} KeyPanel
 *   seen: the array that says which keys are visible; strongest: the one by which some are listed
 *   where there are too many */

const MOST_KEYS = 100; // rows; of a longer sentence the strongest ones
const SHARES = { word: "minmax(7em, 24em)", strip: "minmax(8em, 6fr)", number: "7em", share: "8em" };

export class KeyTable {
  /**
   * @param {HTMLElement} place
   * @param {Hands} hands
   */
  constructor(place, hands) {
    this.hands = hands;
    /** @type {KeyPanel} */
    this.panel = { form: "keys", name: "", words: [], seen: "", said: [], strongest: "",
      columns: [], extra: null };
    /** @type {Record<string, import("../shared/blob.js").Block>} */
    this.arrays = {};
    /** @type {CellColours | null} */
    this.colours = null;
    /** @type {number[]} */
    this.listed = [];
    /** @type {number | null} */
    this.cursor = null; // the dimension that is pointed at
    this.frame = element("div", "tv-in-keys");
    set(this.frame, "role", "table");
    this.note = element("p", "tv-in-quiet");
    place.append(this.frame, this.note);
    this.end = watched(this.frame, () => this.paint(), {
      pointermove: (event) => this.move(event),
      pointerleave: () => this.leave(),
      focusin: (event) => this.hands.light(this.keyOf(event.target)),
      focusout: () => this.hands.light(null),
      click: (event) => this.click(event),
      keydown: (event) => this.key(event),
    });
  }

  /**
   * @param {KeyPanel} panel
   * @param {Record<string, import("../shared/blob.js").Block>} arrays
   * @param {CellColours} colours
   * @param {string} opened
   */
  show(panel, arrays, colours, opened) {
    const focused = this.focused();
    Object.assign(this, { panel, arrays, colours });
    this.listed = listedKeys(panel, arrays);
    const left = panel.words.length - this.listed.length;
    this.note.textContent = left <= 0 ? "" : tell(
      "{left} weaker words are not listed here; all {all} are in the sums.",
      { left, all: panel.words.length });
    this.note.hidden = left <= 0;
    const strips = panel.columns.some(({ how }) => how === "strip");
    this.frame.style.gridTemplateColumns = [strips ? "minmax(5.5em, 1.4fr)" : "minmax(5.5em, 11em)",
      ...panel.columns.map(({ how }) => !strips && how === "share" ? "minmax(8em, 16em)"
        : SHARES[how])].join(" ");
    set(this.frame, "aria-label", panel.name);
    this.frame.replaceChildren(this.head(), ...this.extra(false),
      ...this.listed.map((key) => this.row(key, opened)), ...this.extra(true), ...this.totals());
    if (focused) elementsIn(this.frame, focused)[0]?.focus();
    this.paint();
  }

  /** How to find the number or strip that has the keyboard. */
  focused() {
    const active = activeAround(this.frame);
    if (!active || !this.frame.contains(active)) return "";
    const { address, array, key } = active.dataset;
    return address ? `[data-address="${address}"]` : `[data-array="${array}"][data-key="${key}"]`;
  }

  head() {
    const { columns } = this.panel;
    const cells = columns.map(({ symbol, text, label, how }) => {
      const cell = tableCellOf("columnheader", symbolName(text), " ",
        element("span", "tv-in-label", label));
      cell.dataset.symbol = symbol;
      cell.classList.toggle("tv-in-amount", how === "number" || how === "share");
      return cell;
    });
    return lineOf("tv-in-key tv-in-key-head", tableCellOf("columnheader"), ...cells);
  }

  /**
   * The vector that belongs to no key, over or under the strips.
   * @param {boolean} below
   */
  extra(below) {
    const { extra, columns } = this.panel;
    if (!extra || extra.below !== below) return [];
    const place = columns.map(({ how }) => how).lastIndexOf("strip");
    const cells = columns.map((_, n) => {
      if (n !== place) return tableCellOf("cell");
      return tableCellOf("cell", stripOf(extra, extra.word));
    });
    const word = tableCellOf("rowheader", symbolName(extra.text), " ", extra.word);
    const line = lineOf("tv-in-key tv-in-key-extra" + (below ? " tv-in-below" : ""), word, ...cells);
    line.dataset.symbol = extra.symbol;
    return [line];
  }

  /**
   * @param {number} key
   * @param {string} opened
   */
  row(key, opened) {
    const { words, columns, seen } = this.panel;
    const hidden = Boolean(seen) && !this.arrays[seen].data[key];
    const cells = columns.map((column) => this.cell(column, key, opened));
    const line = lineOf("tv-in-key" + (hidden ? " tv-in-hidden" : ""),
      tableCellOf("rowheader", words[key]), ...cells);
    line.dataset.key = String(key);
    return line;
  }

  /**
   * @param {KeyColumn} column
   * @param {number} key
   * @param {string} opened
   */
  cell({ symbol, text, array, open, made, how }, key, opened) {
    const { said, words } = this.panel;
    if (how === "word") return tableCellOf("cell", said[key]);
    const cell = tableCellOf("cell");
    cell.dataset.symbol = symbol;
    if (how === "strip") {
      const canvas = stripOf({ text, array, open }, words[key], key);
      canvas.tabIndex = key === this.listed[0] ? 0 : -1;
      cell.append(canvas);
      return cell;
    }
    const value = this.arrays[array].data[key], number = figure(value);
    const opens = open && Number.isFinite(this.arrays[made].data[key]); // an endless score is no sum
    const button = element("button", "tv-in-number", number);
    button.type = "button";
    button.disabled = !opens;
    button.dataset.address = opens ? `${open}/${key}` : "";
    set(button, "aria-pressed", String(Boolean(opens) && opened === `${open}/${key}`));
    set(button, "aria-label", `${plainSymbol(text)}, ${words[key]}: ${number}`);
    cell.append(button, this.bar(array, value, how === "share"));
    return cell;
  }

  /**
   * A bar behind a number: from the left for a share, from the middle for what has a sign.
   * @param {string} array
   * @param {number} value
   * @param {boolean} share
   */
  bar(array, value, share) {
    const most = largestOf(this.arrays[array].data), bar = element("span", "tv-in-bar");
    const part = most && Math.abs(value) < 1e30 ? Math.abs(value) / most : 0;
    bar.style.width = (share ? 100 : 50) * part + "%";
    if (!share) bar.style[value < 0 ? "right" : "left"] = "50%";
    bar.classList.toggle("tv-in-less", value < 0);
    return bar;
  }

  totals() {
    const { columns } = this.panel;
    if (!columns.some(({ total }) => total)) return [];
    return [lineOf("tv-in-key tv-in-key-total", tableCellOf("rowheader", tell("sum")),
      ...columns.map(({ total }) => tableCellOf("cell", total)))];
  }

  paint() {
    if (!this.colours) return;
    for (const canvas of this.frame.querySelectorAll("canvas")) {
      const values = this.valuesOf(canvas);
      const { array = "" } = canvas.dataset, here = this.cursor;
      paintStrip(canvas, values, this.colours, {
        most: largestOf(this.arrays[array].data),
        cursor: here !== null && here < values.length ? here : null,
      });
    }
  }

  /**
   * The numbers of a strip: a row of a matrix, or a vector.
   * @param {HTMLCanvasElement} canvas
   */
  valuesOf(canvas) {
    const { array = "", key } = canvas.dataset, { shape, data } = this.arrays[array];
    const width = shape[shape.length - 1];
    return key === undefined ? data : data.subarray(Number(key) * width, (Number(key) + 1) * width);
  }

  /** @param {Event} event */
  keyOf(event) {
    const key = dataNear(event, "[data-key]", "key");
    return key === undefined ? null : Number(key);
  }

  leave() {
    this.hands.light(null);
    this.hands.point(null);
    if (this.cursor === null) return;
    this.cursor = null;
    this.paint();
  }

  /** @param {PointerEvent} event */
  move(event) {
    const { target } = event;
    this.hands.light(this.keyOf(event));
    this.hands.point(dataNear(event, "[data-symbol]", "symbol") ?? null);
    if (!(target instanceof HTMLCanvasElement)) return;
    const at = stripCellAt(target, this.valuesOf(target).length, event);
    if (at >= 0) this.put(target, at);
  }

  /**
   * Put the cursor on a dimension of all strips, and read it out for one.
   * @param {HTMLCanvasElement} canvas
   * @param {number} at
   */
  put(canvas, at) {
    if (this.cursor !== at) {
      this.cursor = at;
      this.paint();
    }
    this.hands.read(this.saying(canvas, this.valuesOf(canvas), at));
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {ArrayLike<number>} values
   * @param {number} at
   */
  saying(canvas, values, at) {
    const { columns, extra, words } = this.panel;
    const { array, key } = canvas.dataset;
    const whose = columns.find((column) => column.array === array) ?? extra;
    return tell("{symbol}, dimension {at} of {count}: {value} ({label})", {
      symbol: plainSymbol(whose?.text ?? ""), at: at + 1, count: values.length,
      value: figure(values[at]), label: key === undefined ? extra?.word : words[Number(key)],
    });
  }

  /** @param {MouseEvent} event */
  click(event) {
    const { target } = event, address = dataNear(event, "button", "address");
    if (address) this.hands.open(address);
    if (!(target instanceof HTMLCanvasElement)) return;
    const at = stripCellAt(target, this.valuesOf(target).length, event);
    if (at >= 0) this.openAt(target, at);
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {number} at
   */
  openAt(canvas, at) {
    const { open, key } = canvas.dataset;
    if (open) this.hands.open([open, key, at].filter((part) => part !== undefined).join("/"));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (modified(event)) return;
    const { target } = event;
    if (["ArrowUp", "ArrowDown"].includes(event.key)) this.toRow(event);
    else if (target instanceof HTMLCanvasElement) this.along(event, target);
  }

  /**
   * The same column of the next row, or of the one before, that can be reached.
   * @param {KeyboardEvent} event
   */
  toRow(event) {
    const cell = event.target instanceof Element ? event.target.closest("[role=cell]") : null;
    const line = cell?.parentElement;
    if (!cell || !line) return;
    const way = event.key === "ArrowDown" ? "nextElementSibling" : "previousElementSibling";
    const place = [...line.children].indexOf(cell);
    let other = /** @type {HTMLElement | null} */ (null);
    for (let next = line[way]; next && !other; next = next[way]) {
      other = next.children[place]?.querySelector("button:enabled, canvas") ?? null;
    }
    if (!other) return;
    event.preventDefault();
    other.focus();
    if (other instanceof HTMLCanvasElement) this.put(other, this.cursor ?? 0);
  }

  /**
   * Along a strip, dimension by dimension; Enter shows how its number is made.
   * @param {KeyboardEvent} event
   * @param {HTMLCanvasElement} canvas
   */
  along(event, canvas) {
    const last = this.valuesOf(canvas).length - 1, here = this.cursor ?? 0;
    const to = stepAlong(event, here, last);
    if (to !== undefined) this.put(canvas, to);
    else if (event.key === "Enter") this.openAt(canvas, here);
  }
}

/**
 * The keys that are listed, in the order of the sentence.
 * @param {KeyPanel} panel
 * @param {Record<string, import("../shared/blob.js").Block>} arrays
 */
function listedKeys({ words, strongest }, arrays) {
  const all = words.map((_, key) => key);
  if (all.length <= MOST_KEYS) return all;
  const size = (/** @type {number} */ key) => Math.abs(arrays[strongest].data[key]);
  return all.sort((a, b) => size(b) - size(a)).slice(0, MOST_KEYS).sort((a, b) => a - b);
}

/**
 * @param {string} role
 * @param {...(Node | string)} content
 */
function tableCellOf(role, ...content) {
  const made = element("span", "tv-in-cell", ...content);
  set(made, "role", role);
  return made;
}

/**
 * @param {string} className
 * @param {...Node} cells
 */
function lineOf(className, ...cells) {
  const made = element("div", className, ...cells);
  set(made, "role", "row");
  return made;
}

/**
 * A canvas for a vector, of a key or of none.
 * @param {{text: string, array: string, open: string}} whose
 * @param {string} word
 * @param {number} [key]
 */
function stripOf({ text, array, open }, word, key) {
  const canvas = element("canvas");
  Object.assign(canvas.dataset, { array, open });
  if (key !== undefined) canvas.dataset.key = String(key);
  canvas.tabIndex = -1;
  set(canvas, "role", "img");
  set(canvas, "aria-label", `${plainSymbol(text)}, ${word}`);
  return canvas;
}
