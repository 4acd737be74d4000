// The cells of a block as colours: all of its tiles on one sheet, from which each is drawn.

import { lookup } from "../shared/colour.js";
import { brushOf } from "../shared/dom.js";

const ROBUST = 0.98;
const ALIKE = 1.25;

/** @typedef {{cells: Uint8Array, height: number, width: number}} Cells  of each tile in a row */
/** @typedef {{canvas: HTMLCanvasElement, columns: number, height: number, width: number}} Sheet */

/**
 * Fewer cells, where the screen has no pixel for each: of those that share one the strongest
 * stays. A change is as strong as its distance from 128, and 0 (not there) is nothing.
 * @param {import("../shared/blob.js").Block} tiles  uint8 [layer, head, row, column]
 * @param {number[]} each  cells that share one, down and across
 * @param {boolean} change
 * @returns {Cells}
 */
export function fewerCells({ data, shape }, each, change) {
  const [layers, heads, rows, columns] = shape;
  if (each[0] === 1 && each[1] === 1) return { cells: data, height: rows, width: columns };
  const height = Math.ceil(rows / each[0]), width = Math.ceil(columns / each[1]);
  const cells = new Uint8Array(layers * heads * height * width);
  const strength = strengths(change);
  const across = Uint16Array.from({ length: columns }, (_, column) => Math.floor(column / each[1]));
  for (let row = 0, from = 0; row < layers * heads * rows; row++) {
    const tile = Math.floor(row / rows);
    const start = (tile * height + Math.floor((row % rows) / each[0])) * width;
    for (let column = 0; column < columns; column++) {
      const code = data[from++], at = start + across[column];
      if (strength[code] > strength[cells[at]]) cells[at] = code;
    }
  }
  return { cells, height, width };
}

/** @param {boolean} change */
function strengths(change) {
  const all = Uint8Array.from({ length: 256 }, (_, code) => code);
  return change ? all.map((code) => (code ? Math.abs(code - 128) + 1 : 0)) : all;
}

/**
 * The largest cell of each tile.
 * @param {import("../shared/blob.js").Block} tiles
 * @returns {Uint8Array}
 */
export function largestCells({ data, shape }) {
  const size = shape[2] * shape[3];
  const found = new Uint8Array(shape[0] * shape[1]);
  for (let tile = 0, from = 0; tile < found.length; tile++) {
    let most = 0;
    for (const end = from + size; from < end; from++) if (data[from] > most) most = data[from];
    found[tile] = most;
  }
  return found;
}

/**
 * Where the colours of each tile of a long run end, as in long_map.py: at the 98th percentile of
 * the cells that see anything, or at the largest where that is near.
 * @param {import("../shared/blob.js").Block} tiles
 * @returns {Uint8Array}
 */
export function robustCells(tiles) {
  const { data, shape } = tiles, size = shape[2] * shape[3];
  return largestCells(tiles).map((largest, tile) => {
    const cells = /** @type {Uint8Array} */ (data.slice(tile * size, (tile + 1) * size));
    const seen = cells.filter((code) => code > 0).sort();
    const end = seen[Math.floor(ROBUST * (seen.length - 1))] ?? 0;
    return largest <= ALIKE * end ? largest : end;
  });
}

/**
 * For tiles by their largest cell: the colour of each of 256 amounts, as a canvas stores it.
 * Amounts below the threshold, a weight, are blank; those beyond the end have the last colour.
 * @param {string[]} ramp
 * @param {{gamma: number, threshold: number}} how
 * @returns {(most: number) => Uint32Array}
 */
export function amountColours(ramp, { gamma, threshold }) {
  const base = lookup(ramp, { gamma });
  /** @type {Map<number, Uint32Array>} */
  const made = new Map();
  return (most) => {
    const known = made.get(most);
    if (known) return known;
    const table = new Uint32Array(256).fill(base[0]);
    for (let code = 1; code < 256; code++) {
      if (code >= threshold * 255) table[code] = base[Math.round(Math.min(1, code / most) * 255)];
    }
    made.set(most, table);
    return table;
  };
}

/**
 * All tiles of a block on one canvas, cell by pixel, as nearly square as they go.
 * @param {HTMLCanvasElement} canvas
 * @param {Cells} found
 * @param {number} count  how many tiles
 * @param {(tile: number) => Uint32Array} colours
 * @returns {Sheet}
 */
export function paintSheet(canvas, { cells, height, width }, count, colours) {
  const columns = Math.ceil(Math.sqrt(count)), across = columns * width;
  canvas.width = across;
  canvas.height = Math.ceil(count / columns) * height;
  const brush = brushOf(canvas);
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let tile = 0, from = 0; tile < count; tile++) {
    const table = colours(tile);
    const start = Math.floor(tile / columns) * height * across + (tile % columns) * width;
    for (let row = 0; row < height; row++) {
      const to = start + row * across;
      for (let column = 0; column < width; column++) pixels[to + column] = table[cells[from++]];
    }
  }
  brush.putImageData(image, 0, 0);
  return { canvas, columns, height, width };
}
