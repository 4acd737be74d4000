// The weights of a map as sheets of cells: all of them, or pooled ones and an exact part.

import { changeColours, lookup } from "../shared/colour.js";

const MOST_CELLS = 256; // in a row or a column

/** @typedef {[number, number]} Span  the first, and behind the last */
/** @typedef {{rows: Span, columns: Span}} Region  a part of a map, in its rows and columns */
/**
 * What head_map.py sends. Of the header only `title`, `said`, `numbers`, `note` and `most` depend
 * on the head, and of the arrays all: `weights` float32 [row, column] (NaN: nothing to show) with
 * `masked` uint8, whole or of the `region`; where a map is larger than 256 x 256 also `pooled`
 * uint8, a cell for `stride` rows and columns, which is (value / unit + zero), with
 * `pooled_masked`, and the exact row of `token` as `chosen` with `chosen_masked`.
 * `most` is the weight at the end of the colours; null: the largest one. `largest`: that of a long
 * map, whose few largest weights are beyond that end. `fixed`: nobody answers
 * with exact weights of a part. `within`: the part of a weight that it may be off. `tiles`: a map
 * that is too large to be sent; `pooled` is its thumbnail, and of its sides only the `count` of
 * their labels is sent where the words are had elsewhere. `quick`: a part of it under a step of a
 * slider, ahead of the run of the model.
 * @typedef {import("../shared/hover_link.js").Ruler & {count?: number}} Side  `count`: of a long map
 * @typedef {{colours: import("../shared/colour.js").Colours, title: string, rows: Side,
 *   columns: Side, height: number, change: boolean, old: number,
 *   most: number | null, largest?: number, token: number | null, key: number | null,
 *   ramp: string, gamma: number,
 *   threshold: number, zoom: [Span, Span] | null, stride: Span, zero?: number, unit?: number,
 *   region: [Span, Span] | null, said: string, numbers: string,
 *   direction: string, note: string, tiles?: import("../long/tiles.js").TileLine,
 *   quick?: MapSheet | null, fixed?: boolean, within?: number,
 *   arrays: Record<string, import("../shared/blob.js").Block>}} MapData
 */
/** @typedef {Region & {down: number, across: number, width: number, values: Float32Array,
 *   masked: Uint8Array, deep?: number, was?: Float32Array,
 *   cell?: (row: number, column: number) => Cell}} MapSheet
 *   `down` x `across` weights a cell, `width` cells in a row; `deep`: a cell is of its first rows
 *   alone, of so many; `was`: weights before a change; `cell`: where cells may be coarser */
/** @typedef {Region & {value: number, masked: boolean, pooled: boolean, was?: number}} Cell */

/**
 * The sheets of a map, the finest last.
 * @param {MapData} data
 * @returns {MapSheet[]}
 */
export function sheetsOf(data) {
  const { arrays, region, stride } = data;
  const rows = /** @type {Span} */ ([0, data.rows.labels.length]);
  const columns = /** @type {Span} */ ([0, data.columns.labels.length]);
  const sheets = [];
  if (arrays.pooled) {
    sheets.push({
      rows, columns, down: stride[0], across: stride[1], width: arrays.pooled.shape[1],
      values: decodedWeights(data), masked: arrays.pooled_masked.data,
    });
  }
  if (arrays.weights) {
    const [down, across] = region ?? [rows, columns];
    sheets.push({
      rows: down, columns: across, down: 1, across: 1, width: across[1] - across[0],
      values: arrays.weights.data, masked: arrays.masked.data,
    });
  }
  return sheets;
}

/** @param {MapData} data */
function decodedWeights({ arrays, zero = 0, unit = 1, change }) {
  return Float32Array.from(arrays.pooled.data, (/** @type {number} */ code) =>
    (change && code === 0 ? NaN : (code - zero) * unit));
}

/**
 * The finest sheet that has all of a region, and no more cells of it than can be told apart.
 * @param {MapSheet[]} sheets
 * @param {Region} region
 * @returns {MapSheet}
 */
export function sheetFor(sheets, { rows, columns }) {
  const suits = (/** @type {Span} */ [first, last], /** @type {Span} */ span,
    /** @type {number} */ step) =>
    first <= span[0] && span[1] <= last && (span[1] - span[0]) / step <= MOST_CELLS;
  return sheets.filter((sheet) => suits(sheet.rows, rows, sheet.down)
    && suits(sheet.columns, columns, sheet.across)).pop() ?? sheets[0];
}

/**
 * The cell of a sheet in which a weight stands.
 * @param {MapSheet} sheet
 * @param {number} row
 * @param {number} column
 * @returns {Cell}
 */
export function cellAt(sheet, row, column) {
  if (sheet.cell) return sheet.cell(row, column);
  const { down, across, width, deep = down } = sheet;
  const r = Math.floor((row - sheet.rows[0]) / down);
  const c = Math.floor((column - sheet.columns[0]) / across);
  const place = r * width + c, [first, last] = cellSpan(sheet.rows, r, down);
  return {
    rows: [first, Math.min(last, first + deep)], columns: cellSpan(sheet.columns, c, across),
    value: sheet.values[place], masked: sheet.masked[place] > 0, pooled: down * across > 1,
    was: sheet.was?.[place],
  };
}

/**
 * @param {Span} side
 * @param {number} cell
 * @param {number} step
 * @returns {Span}
 */
function cellSpan(side, cell, step) {
  const first = side[0] + cell * step;
  return [first, Math.min(side[1], first + step)];
}

/**
 * The exact weights of a row, if they are here.
 * @param {MapData} data
 * @param {MapSheet[]} sheets
 * @param {number} row
 * @param {number | null} chosen  the row that was sent as `chosen`
 * @returns {{values: Float32Array, masked: Uint8Array} | null}
 */
export function exactRow({ arrays, columns }, sheets, row, chosen) {
  if (row === chosen && arrays.chosen) {
    return { values: arrays.chosen.data, masked: arrays.chosen_masked.data };
  }
  const { rows, down, across, width, values, masked } = sheets[sheets.length - 1];
  const whole = down * across === 1 && width === columns.labels.length;
  if (!whole || row < rows[0] || row >= rows[1]) return null;
  const from = (row - rows[0]) * width, to = from + width;
  return { values: values.subarray(from, to), masked: masked.subarray(from, to) };
}

/**
 * The weight or the change at the end of the colours.
 * @param {MapData} data
 * @param {MapSheet[]} sheets
 * @returns {number}
 */
export function limitOf({ most, change }, [sheet]) {
  if (most !== null) return most;
  let largest = 0;
  for (const value of sheet.values) if (Math.abs(value) > largest) largest = Math.abs(value);
  return change ? Math.max(0.05, largest) : largest || 1;
}

/**
 * The colour of each of 256 codes: amounts run from 0 to 255, changes from 1 over 128 (none) to
 * 255, and 0 has no colour.
 * @param {MapData} data
 * @param {import("../shared/colour.js").Palette} palette
 * @returns {Uint32Array}
 */
export function mapColours({ change, ramp, gamma }, palette) {
  if (change) return changeColours(palette.changes, { gamma, threshold: 0 }, 1);
  return lookup(palette.ramps[ramp] ?? palette.amounts, { gamma });
}

/**
 * The cells of a sheet as an image, a pixel a cell; weights below the threshold are blank.
 * @param {MapSheet} sheet
 * @param {Uint32Array} table
 * @param {{change: boolean, threshold: number, limit: number}} how
 * @returns {ImageData}
 */
export function imageOf({ values, width }, table, { change, threshold, limit }) {
  const image = new ImageData(width, values.length / width);
  const pixels = new Uint32Array(image.data.buffer);
  const zero = change ? 128 : 0, steps = change ? 127 : 255;
  for (let n = 0; n < values.length; n++) {
    const value = values[n];
    if (value !== value) continue; // not a number: nothing to show
    const part = Math.abs(value) < threshold ? 0 : Math.max(-1, Math.min(1, value / limit));
    pixels[n] = table[zero + Math.round(part * steps)];
  }
  return image;
}
