// The picture of a map: two canvases, one with the cells, one with all that changes while one
// points, and a tip with the weight of the cell that is pointed at.

import { element, pen, set } from "../shared/dom.js";
import { lit, placesOn } from "../shared/hover_link.js";
import { boxesOf, drawNames, frameOf, namesOf } from "./frame.js";
import { MINIMAP } from "../long/minimap.js";
import { boxOf, paintCells, paintFound, paintMarks } from "./paint.js";
import { cellAt, imageOf, limitOf, mapColours, sheetFor, sheetsOf } from "./sheet.js";
import { Tiles } from "../long/tiles.js";
import { describeCell, describeMap } from "./words.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./sheet.js").MapData} MapData */
/** @typedef {import("./sheet.js").MapSheet} MapSheet */
/** @typedef {import("./sheet.js").Region} Region */
/** @typedef {{row: number | null, column: number | null}} Pinned */
/** @typedef {{left: number, top: number, width: number, height: number}} Box */

const UNSHOWN = /** @type {any} */ (null); // known once data is shown
const TIP_GAP = 8; // pixels between a cell and its tip

export class MapPicture {
  /** @param {() => void} arrived  called when cells came that are to be drawn */
  constructor(arrived) {
    this.cells = element("canvas");
    this.marks = element("canvas");
    this.tip = element("div", "tip");
    this.tip.hidden = true;
    set(this.tip, "aria-hidden", "true"); // the live text says it
    this.quiet = false; // whether the tip was put away, until another cell is pointed at
    this.place = element("div", "picture", this.cells, this.marks, this.tip);
    this.place.tabIndex = 0;
    set(this.place, "role", "application");
    set(this.place, "aria-roledescription", tell("attention map"));
    this.live = element("div", "live");
    set(this.live, "aria-live", "polite");
    /** @type {MapData} */
    this.data = UNSHOWN;
    /** @type {import("../shared/colour.js").Palette} */
    this.palette = UNSHOWN;
    /** @type {MapSheet[]} */
    this.sheets = [];
    /** @type {MapSheet} */
    this.sheet = UNSHOWN; // the one that is drawn
    /** @type {Map<MapSheet, HTMLCanvasElement>} */
    this.images = new Map(); // the cells of a sheet, a pixel each
    /** @type {Uint32Array} */
    this.table = UNSHOWN; // the colours
    this.limit = 1;     // what the last of them stands for
    /** @type {import("./frame.js").MapFrame | null} */
    this.frame = null;
    this.labels = { rows: /** @type {string[]} */ ([]), columns: /** @type {string[]} */ ([]) };
    this.width = this.height = 0;
    this.letters = 14; // the height of a name, in pixels
    this.font = "";
    /** @type {ReturnType<typeof boxesOf>} */
    this.names = []; // what the names that are drawn cover
    this.tiles = new Tiles(arrived); // of a map that is too large to be sent
  }

  /**
   * @param {MapData} data
   * @param {import("../shared/colour.js").Palette} palette
   */
  show(data, palette) {
    Object.assign(this, { data, palette, sheets: sheetsOf(data), images: new Map(), frame: null });
    this.limit = limitOf(data, this.sheets);
    const { rows, columns, tiles } = data;
    const size = { rows: rows.labels.length, columns: columns.labels.length };
    if (tiles) {
      this.tiles.show(tiles, size, this.sheets[0], data.quick);
      this.limit = Math.max(this.limit, this.tiles.high); // else all of it has the last colour
    }
    this.table = mapColours(data, palette);
    this.labels = { rows: data.rows.labels, columns: data.columns.labels };
    // A long map is about as wide as high: on a narrow page it is lower.
    const height = tiles ? `min(${data.height}px, 120cqi)` : `${data.height}px`;
    this.place.style.height = `var(--tv-tall, min(${height}, var(--tv-most, ${height})))`;
    set(this.place, "aria-label", describeMap(data));
  }

  /** Whether anything is masked. */
  get hatched() {
    return [...this.sheets, this.sheet].some((sheet) => sheet?.masked.includes(1));
  }

  /**
   * The cells of a part of the map; false while the picture has no width.
   * @param {Region} view
   */
  draw(view) {
    this.width = this.place.clientWidth;
    this.height = this.place.clientHeight;
    if (!this.width) return false;
    const room = { width: this.width, height: this.height };
    const style = getComputedStyle(this.place), brush = pen(this.cells, room.width, room.height);
    this.letters = parseFloat(style.fontSize);
    brush.font = this.font = `${style.fontSize} ${style.fontFamily}`;
    const measure = (/** @type {string} */ text) => brush.measureText(text).width;
    const corner = this.data.tiles ? MINIMAP : 0;
    this.frame = frameOf(this.labels, view, room, this.letters, measure, corner);
    this.sheet = this.data.tiles ? this.tiles.sheetFor(view) : sheetFor(this.sheets, view);
    if (this.data.tiles && !this.images.has(this.sheet)) this.images.clear();
    paintCells(brush, this.frame, this.sheet, this.image(), this.palette);
    return true;
  }

  /** The cells of the sheet that is shown, made once for each data. */
  image() {
    const { sheet, data: { change, threshold }, limit } = this;
    const known = this.images.get(sheet);
    if (known) return known;
    const image = imageOf(sheet, this.table, { change, threshold, limit });
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: image.width, height: image.height });
    canvas.getContext("2d")?.putImageData(image, 0, 0);
    this.images.set(sheet, canvas);
    return canvas;
  }

  /**
   * What is chosen, lit and pointed at, and the names.
   * @param {Pinned} pinned
   * @param {{row: number, column: number} | null} at
   * @param {boolean} keyed  whether the keyboard points at it
   * @param {import("./paint.js").Found} found
   */
  mark(pinned, at, keyed, found) {
    const { data, frame, palette } = this;
    if (!frame) return;
    const brush = pen(this.marks, this.width, this.height), { row, column } = lit();
    const light = { rows: placesOn(data.rows, row), columns: placesOn(data.columns, column) };
    const bright = {
      rows: [...light.rows, ...found.now?.rows ?? []],
      columns: [...light.columns, ...found.now?.columns ?? []],
    };
    const cell = at && cellAt(this.sheet, at.row, at.column);
    paintFound(brush, frame, found, palette);
    paintMarks(brush, frame, { lit: light, pinned, at: cell, keyed }, palette);
    brush.font = this.font;
    const wanted = {
      rows: knownPlaces(at?.row, bright.rows, pinned.row),
      columns: knownPlaces(at?.column, bright.columns, pinned.column),
    };
    const names = namesOf(this.labels, frame, wanted, this.letters,
      (text) => brush.measureText(text).width);
    drawNames(brush, names, (side, place) =>
      (bright[side].includes(place) ? palette.warm
        : place === (side === "rows" ? pinned.row : pinned.column) ? palette.accent : palette.ink));
    this.names = boxesOf(names, this.letters);
    this.tell(cell, frame, keyed);
  }

  /**
   * Where on the page the cells are.
   * @returns {Box | null}
   */
  cellsOnPage() {
    if (!this.frame) return null;
    const { left, top, width, height } = this.frame, place = this.place.getBoundingClientRect();
    return { left: place.left + left, top: place.top + top, width, height };
  }

  /**
   * Put the tip away; false where there is none.
   */
  putAway() {
    if (this.tip.hidden) return false;
    return (this.quiet = this.tip.hidden = true);
  }

  /**
   * The tip above a cell, or below it; what the keyboard points at is said aloud too.
   * @param {import("./sheet.js").Cell | null} cell
   * @param {import("./frame.js").MapFrame} frame
   * @param {boolean} aloud
   */
  tell(cell, frame, aloud) {
    const box = cell && boxOf(frame, cell), { tip, live } = this;
    tip.hidden = !box || this.quiet;
    if (!box || this.quiet) return;
    const words = describeCell(this.data, cell);
    if (tip.textContent !== words) tip.textContent = words;
    if (aloud && live.textContent !== words) live.textContent = words;
    const { offsetWidth, offsetHeight } = tip;
    const left = box.x + box.width / 2 - offsetWidth / 2, top = box.y - offsetHeight - TIP_GAP;
    tip.style.left = Math.max(0, Math.min(this.width - offsetWidth, left)) + "px";
    tip.style.top = (top < 0 ? box.y + box.height + TIP_GAP : top) + "px";
  }
}

/**
 * Places in the order of their importance, without those that are none.
 * @param {...(number | number[] | null | undefined)} wanted
 * @returns {number[]}
 */
function knownPlaces(...wanted) {
  return /** @type {number[]} */ (wanted.flat().filter((place) => typeof place === "number"));
}
