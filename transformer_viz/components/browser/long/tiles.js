// The cells of a map that is too large to be sent whole: tiles are fetched where they are looked
// at and kept; until one comes, coarser cells stand in its place. Of a map that is shown ahead of
// its run there are none yet: the part that is shown is fetched as quickly as it can be had, and
// its tiles once the hand rests.

import { read } from "../shared/blob.js";
import { tell } from "../shared/i18n.js";
import { TOO_MANY, toldToWait } from "../shared/told_to_wait.js";
import { cellAt } from "../head_map/sheet.js";
import { alignedTo, coarser, covers, levelFor, regionOf, squaresIn } from "./tile_grid.js";

/** @typedef {import("../head_map/sheet.js").MapSheet} MapSheet */
/** @typedef {import("../head_map/sheet.js").Region} Region */
/** @typedef {import("./tile_grid.js").Square} Square */
/** @typedef {{address: string, of: string, size: number, levels: number, ahead?: boolean,
 *   moving?: boolean, make?: (square: Square) => Promise<any>, words?: string, far?: string,
 *   named?: string}} TileLine  the address that gives tiles, what names the map there, cells of a
 *   tile's side, levels; ahead: the run of this map has not come; moving: nor does the hand rest;
 *   make: what makes tiles in a page of its own; words, far: addresses too; named: what names the
 *   words */

const MOST_CELLS = 400; // in a row or a column of what is shown
const MOST_KEPT = 240;  // tiles, of some 330 kB
const AT_ONCE = 4;      // requests on their way
const ROBUST = 0.98;    // of cells that are not beyond the end of the colours, as in long_map.py
const SAMPLED = 5000;   // cells of which that end is told
const TIMES = 400;      // of tiles that came, to be told to whoever measures

/** @type {Map<string, MapSheet>} */
const KEPT = new Map(); // the tiles that came, those used last at the end; views come and go

export class Tiles {
  /** @param {() => void} arrived  called once for all tiles that came before a picture */
  constructor(arrived) {
    this.arrived = arrived;
    /** @type {TileLine} */
    this.line = { address: "", of: "", size: 1, levels: 1 };
    this.size = { rows: 0, columns: 0 };
    /** @type {MapSheet | null} */
    this.thumbnail = null;
    /** @type {MapSheet | null} */
    this.quick = null; // the part that is shown of a map ahead of its run
    this.quickOf = "";
    this.hastening = false;
    /** @type {Square[]} */
    this.wanted = [];
    /** @type {Set<string>} */
    this.coming = new Set();
    this.trouble = ""; // why no tiles come, in a sentence
    this.painting = 0;
    /** @type {number[]} */
    this.took = []; // milliseconds from request to picture
    /** @type {number[]} */
    this.begun = []; // when those were asked for that came and are not painted yet
    this.ended = false;
    /** @type {MapSheet | null} */
    this.last = null;
    this.lastKey = "";
    this.count = 0;
  }

  end() {
    this.ended = true;
    cancelAnimationFrame(this.painting);
  }

  /**
   * @param {TileLine} line
   * @param {{rows: number, columns: number}} size
   * @param {MapSheet} thumbnail
   * @param {MapSheet | null} [quick]
   */
  show(line, size, thumbnail, quick) {
    Object.assign(this, { line, size, thumbnail, wanted: [], last: null, lastKey: "" });
    if (line.ahead) this.thumbnail = unknown(size); // that one is of another run
    if (quick) Object.assign(this, { quick, quickOf: line.of });
    if (this.quickOf !== line.of) this.quick = null;
    this.trouble = line.address || line.make ? ""
      : tell("The cells of long maps come from a server: start the app with transformer-viz app.");
  }

  /** @param {Square} square */
  name({ level, row, column }) {
    return `${this.line.of} ${level} ${row} ${column}`;
  }

  /** @param {Square} square */
  known(square) {
    const name = this.name(square), found = KEPT.get(name);
    if (found) {
      KEPT.delete(name);
      KEPT.set(name, found);
    }
    return found;
  }

  /**
   * The cells of a part, each the finest that is here; what is missing is asked for.
   * @param {Region} view
   * @returns {MapSheet}
   */
  sheetFor(view) {
    const { line, size } = this, level = levelFor(view, line, MOST_CELLS), step = 2 ** level;
    const region = alignedTo(view, level, size), squares = squaresIn(region, level, line);
    const missing = squares.filter((square) => !this.known(square));
    const quick = this.quick && covers(this.quick, region, step) ? this.quick : null;
    if (line.ahead && missing.length && !quick) this.hasten(region, level);
    else if (!line.moving) this.want(missing);
    if (quick && missing.length) return quick;
    const key = [line.of, level, this.count, ...region.rows, ...region.columns].join();
    if (this.last && key === this.lastKey) return this.last;
    const width = Math.ceil((region.columns[1] - region.columns[0]) / step);
    const height = Math.ceil((region.rows[1] - region.rows[0]) / step);
    /** @type {MapSheet} */
    const sheet = {
      ...region, down: step, across: step, width, values: new Float32Array(width * height),
      masked: new Uint8Array(width * height), cell: (row, column) => this.cell(level, row, column),
    };
    for (const square of squares) this.fill(sheet, square);
    this.last = sheet;
    this.lastKey = key;
    return sheet;
  }

  /**
   * Copy a tile into a sheet, or what stands in its place.
   * @param {MapSheet} sheet
   * @param {Square} square
   */
  fill(sheet, square) {
    const own = regionOf(square, this.line, this.size), from = this.finest(square);
    const first = Math.max(own.rows[0], sheet.rows[0]), last = Math.min(own.rows[1], sheet.rows[1]);
    const left = Math.max(own.columns[0], sheet.columns[0]);
    const right = Math.min(own.columns[1], sheet.columns[1]);
    for (let row = first; row < last; row += sheet.down) {
      const above = Math.floor((row - from.rows[0]) / from.down) * from.width;
      let to = ((row - sheet.rows[0]) / sheet.down) * sheet.width
        + (left - sheet.columns[0]) / sheet.across;
      for (let column = left; column < right; column += sheet.across, to++) {
        const place = above + Math.floor((column - from.columns[0]) / from.across);
        sheet.values[to] = from.values[place];
        sheet.masked[to] = from.masked[place];
      }
    }
  }

  /**
   * A tile, or the finest cells around it that are here.
   * @param {Square} square
   * @returns {MapSheet}
   */
  finest(square) {
    for (let level = square.level; level < this.line.levels; level++) {
      const found = this.known(coarser(square, level));
      if (found) return found;
    }
    return /** @type {MapSheet} */ (this.thumbnail);
  }

  /** The whole map in the coarsest cells that are here. */
  coarsest() {
    return this.finest({ level: this.line.levels - 1, row: 0, column: 0 });
  }

  /**
   * The cell of a level at a weight, or the coarser one that stands in its place.
   * @param {number} level
   * @param {number} row
   * @param {number} column
   */
  cell(level, row, column) {
    const side = this.line.size * 2 ** level;
    const square = { level, row: Math.floor(row / side), column: Math.floor(column / side) };
    return cellAt(this.finest(square), row, column);
  }

  /** Where the colours of the part end that is known of a map ahead of its run; 0: nowhere yet. */
  get high() {
    const { values } = this.quick ?? { values: [] }, step = Math.ceil(values.length / SAMPLED) || 1;
    const seen = [...values].filter((value, n) => n % step === 0 && value > 0).sort((a, b) => a - b);
    return seen[Math.floor(ROBUST * seen.length)] ?? 0;
  }

  // ---- asking

  /**
   * Tell the server which part is shown, where it is asked for it under a step of a slider.
   * @param {Record<string, string>} words
   * @param {Region} view
   */
  tellPart(words, view) {
    const level = levelFor(view, this.line, MOST_CELLS);
    Object.assign(words, partWords(alignedTo(view, level, this.size), level));
  }

  /**
   * Fetch a part of a map ahead of its run.
   * @param {Region} region
   * @param {number} level
   */
  async hasten(region, level) {
    if (this.hastening || this.trouble) return;
    this.hastening = true;
    const { line } = this;
    const found = await this.answered(line, () => fetched(line, partWords(region, level)));
    this.hastening = false;
    if (found && line.of === this.line.of) {
      Object.assign(this, { quick: quickSheet(found), quickOf: line.of });
    }
    this.paint();
  }

  /** @param {Square[]} squares  the only ones that are still of use */
  want(squares) {
    this.wanted = squares.filter((square) => !this.coming.has(this.name(square)));
    this.ask();
  }

  ask() {
    while (!this.trouble && this.coming.size < AT_ONCE && this.wanted.length) {
      this.fetch(/** @type {Square} */ (this.wanted.shift()));
    }
  }

  /** @param {Square} square */
  async fetch(square) {
    const { line, size } = this, name = this.name(square), began = performance.now();
    this.coming.add(name);
    const words = { level: `${square.level}`, row: `${square.row}`, column: `${square.column}` };
    const found = await this.answered(line,
      async () => (line.make ? { arrays: await line.make(square) } : fetched(line, words)));
    if (found) {
      const { weights, masked } = found.arrays, step = 2 ** square.level;
      keep(name, {
        ...regionOf(square, line, size), down: step, across: step, width: weights.shape[1],
        values: weights.data, masked: masked.data, was: found.arrays.was?.data,
      });
      this.begun.push(began);
    }
    this.coming.delete(name);
    this.paint();
    if (!this.ended) this.ask();
  }

  /**
   * What an answer holds; null where the work was given up, or where there is trouble.
   * @param {TileLine} line
   * @param {() => Promise<any>} ask
   */
  async answered(line, ask) {
    try {
      const found = await ask();
      if (!(found instanceof Response)) return found;
      if (found.status === TOO_MANY) await this.told(line, found);
      return null;
    } catch (error) {
      if (line.of === this.line.of) {
        this.trouble = error instanceof TypeError
          ? tell("The server does not answer: cells of this map are missing.")
          : tell("Cells of this map are missing: {why}", { why: /** @type {Error} */ (error).message });
      }
      return null;
    }
  }

  /**
   * Something was asked for too soon: say so until it is allowed; what is still missing then is
   * asked for again.
   * @param {TileLine} line
   * @param {Response} answer
   */
  async told(line, answer) {
    this.trouble = tell("Cells of this map are missing: {why}", { why: await answer.text() });
    this.arrived();
    await toldToWait(answer);
    if (line.of === this.line.of) this.trouble = "";
  }

  /** Draw what has come, once for all that comes before a picture. */
  paint() {
    this.count++;
    if (this.ended || this.painting) return;
    this.painting = requestAnimationFrame(() => {
      this.painting = 0;
      this.arrived();
      const now = performance.now();
      this.took = [...this.took, ...this.begun.map((then) => now - then)].slice(-TIMES);
      this.begun = [];
    });
  }
}

/**
 * What the server answers: what its bytes hold, or itself where it gave the work up, or has to be
 * asked again.
 * @param {TileLine} line
 * @param {Record<string, string>} words
 */
async function fetched({ address, of }, words) {
  const asked = new URLSearchParams({ of, ...words });
  const answer = await fetch(`${address}?${asked}`, { cache: "no-store" });
  if (answer.status === 204 || answer.status === TOO_MANY) return answer;
  if (answer.status !== 200) throw new Error(await answer.text());
  return read(new Uint8Array(await answer.arrayBuffer()));
}

/**
 * A part as the server is told it.
 * @param {Region} region
 * @param {number} level
 * @returns {Record<string, string>}
 */
function partWords({ rows, columns }, level) {
  return {
    level: `${level}`, top: `${rows[0]}`, bottom: `${rows[1]}`,
    left: `${columns[0]}`, right: `${columns[1]}`,
  };
}

/**
 * The part of a map ahead of its run that an answer holds.
 * @param {any} data
 * @returns {MapSheet}
 */
export function quickSheet({ region: [rows, columns], level, deep, arrays }) {
  const step = 2 ** level;
  return {
    rows, columns, down: step, across: step, deep, width: arrays.weights.shape[1],
    values: arrays.weights.data, masked: arrays.masked.data,
  };
}

/**
 * A map of which nothing is known.
 * @param {{rows: number, columns: number}} size
 * @returns {MapSheet}
 */
function unknown({ rows, columns }) {
  return {
    rows: [0, rows], columns: [0, columns], down: rows, across: columns, width: 1,
    values: new Float32Array([NaN]), masked: new Uint8Array(1),
  };
}

/**
 * @param {string} name
 * @param {MapSheet} sheet
 */
function keep(name, sheet) {
  KEPT.set(name, sheet);
  if (KEPT.size > MOST_KEPT) KEPT.delete(/** @type {string} */ (KEPT.keys().next().value));
}
