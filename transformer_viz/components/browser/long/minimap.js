// The whole of a long map in the corner above its rows, with a frame around the part in view:
// click or drag it, or move it with the arrow keys.

import { brushOf, element, listener, modified, pen, set } from "../shared/dom.js";
import { imageOf } from "../head_map/sheet.js";
import { isWhole, moved } from "../head_map/zoom.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("../head_map/sheet.js").Region} Region */
/** @typedef {{row: number, column: number}} Place */

export const MINIMAP = 88; // pixels of a side, for which room is kept in the corner
const LEAST = 6; // pixels of the frame's side, so that a hand finds it
const PAGE = 0.5; // of the part in view, that an arrow key goes

export class Minimap {
  /**
   * @param {{view: Region, size: {rows: number, columns: number}, look: (view: Region) => void,
   *   picture: {live: HTMLElement}}} map
   * @param {(view: Region) => string} said  what part is shown, in words
   * @param {AbortSignal} signal
   */
  constructor(map, said, signal) {
    this.map = map;
    this.said = said;
    this.cells = element("canvas");
    this.frame = element("div", "frame");
    this.place = element("div", "minimap", this.cells, this.frame);
    this.place.tabIndex = 0;
    set(this.place, "role", "application");
    set(this.place, "aria-roledescription", tell("overview of the map"));
    this.place.hidden = true;
    this.title = "";
    /** @type {unknown[]} */
    this.drawn = []; // what the picture was drawn of
    /** @type {Place | null} */
    this.held = null; // from the corner of the part to the hand that drags it, in cells
    const on = listener(signal);
    on(this.place, "pointerdown", (event) => this.press(event));
    on(this.place, "pointermove", (event) => this.drag(event));
    for (const what of ["pointerup", "pointercancel"]) {
      on(this.place, what, () => { this.held = null; });
    }
    on(this.place, "keydown", (event) => this.key(event));
  }

  /**
   * The picture, and the frame around a part; nothing where all is shown.
   * @param {import("../head_map/sheet.js").MapSheet} sheet  the coarsest cells that are here
   * @param {Uint32Array} table
   * @param {{change: boolean, threshold: number, limit: number}} how
   * @param {string} title
   */
  draw(sheet, table, how, title) {
    const { view, size } = this.map;
    this.place.hidden = isWhole(view, size);
    if (this.place.hidden) return;
    const { width, height } = this.box(), made = [sheet, table, how.limit, how.threshold, devicePixelRatio];
    if (made.some((part, n) => part !== this.drawn[n])) {
      this.paint(sheet, imageOf(sheet, table, how), width, height);
      this.drawn = made;
    }
    const { rows, columns } = view, { style } = this.frame;
    const tall = Math.max(LEAST, (rows[1] - rows[0]) / size.rows * height);
    const wide = Math.max(LEAST, (columns[1] - columns[0]) / size.columns * width);
    const middle = { row: (rows[0] + rows[1]) / 2, column: (columns[0] + columns[1]) / 2 };
    const at = (/** @type {number} */ part, /** @type {number} */ all,
      /** @type {number} */ long) => Math.max(0, Math.min(all - long, part * all - long / 2));
    style.top = at(middle.row / size.rows, height, tall) + "px";
    style.left = at(middle.column / size.columns, width, wide) + "px";
    style.height = tall + "px";
    style.width = wide + "px";
    set(this.place, "aria-label", `${tell("Overview, {title}", { title })}. ${this.said(view)} `
      + tell("Arrow keys move the part, Home and End go to its corners."));
  }

  /**
   * @param {import("../head_map/sheet.js").MapSheet} sheet
   * @param {ImageData} image
   * @param {number} width
   * @param {number} height
   */
  paint(sheet, image, width, height) {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: image.width, height: image.height });
    brushOf(canvas).putImageData(image, 0, 0);
    const brush = pen(this.cells, width, height), { rows, columns } = this.map.size;
    brush.imageSmoothingEnabled = true;
    brush.drawImage(canvas, 0, 0, columns / sheet.across, rows / sheet.down, 0, 0, width, height);
  }

  /** The picture's size: as high and as wide as the map is. */
  box() {
    const { rows, columns } = this.map.size, longest = Math.max(rows, columns, 1);
    return { width: MINIMAP * columns / longest, height: MINIMAP * rows / longest };
  }

  /**
   * The row and the column under the hand.
   * @param {PointerEvent} event
   */
  under({ clientX, clientY }) {
    const { left, top, width, height } = this.cells.getBoundingClientRect();
    const { rows, columns } = this.map.size;
    return { row: (clientY - top) / height * rows, column: (clientX - left) / width * columns };
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (event.button !== 0) return;
    const { row, column } = this.under(event), { rows, columns } = this.map.view;
    const inside = event.composedPath().includes(this.frame);
    this.held = inside ? { row: row - rows[0], column: column - columns[0] }
      : { row: (rows[1] - rows[0]) / 2, column: (columns[1] - columns[0]) / 2 };
    this.place.setPointerCapture(event.pointerId);
    this.drag(event);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (!this.held) return;
    const { row, column } = this.under(event), { view, size } = this.map;
    this.map.look(moved(view, size, Math.round(row - this.held.row - view.rows[0]),
      Math.round(column - this.held.column - view.columns[0])));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { view, size } = this.map;
    const down = Math.max(1, Math.round((view.rows[1] - view.rows[0]) * PAGE));
    const right = Math.max(1, Math.round((view.columns[1] - view.columns[0]) * PAGE));
    /** @type {Record<string, [number, number]>} */
    const ways = {
      ArrowUp: [-down, 0], ArrowDown: [down, 0], ArrowLeft: [0, -right], ArrowRight: [0, right],
      Home: [-size.rows, -size.columns], End: [size.rows, size.columns],
    };
    const way = ways[event.key];
    if (!way || modified(event)) return;
    event.preventDefault();
    this.map.look(moved(view, size, ...way));
    this.map.picture.live.textContent = this.said(this.map.view);
  }
}
