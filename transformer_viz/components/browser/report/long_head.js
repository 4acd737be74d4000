// One head of a long run: unpacked from the page when it is opened first, and its map from there.

import { read } from "../shared/blob.js";
import { regionOf } from "../long/tile_grid.js";
import { ScorePart } from "./score_part.js";
import { computed, cut } from "./tile_maker.js";

/** @typedef {import("../shared/blob.js").Block} Block */
/** @typedef {import("../long/tile_grid.js").Square} Square */
/** @typedef {{rows: number, columns: number}} Size */
/**
 * Where the numbers of a head are in the page, as views/export/packed_heads.py puts them there.
 * @typedef {{queries: string, keys: string, visible: string | null, bias: string | null,
 *   biasKind: string, span: number, scale: number, cap: number | null, sharpness: number,
 *   gain: number, firstRow: number}} PackedPart
 * @typedef {{parts: PackedPart[], whole: {name: string, level: number, unit: number} | null}} PackedHead
 */
/** @typedef {(name: string) => Promise<Uint8Array>} Unpack  the bytes of a name */
/** @typedef {{values: Float32Array, masked: Uint8Array, width: number, height: number,
 *   step: number}} Whole */

export class LongHead {
  /**
   * @param {PackedHead} packed
   * @param {Size} size  rows and columns of its map
   * @param {number} side  cells of a tile's side
   * @param {Unpack} unpack
   */
  constructor(packed, size, side, unpack) {
    this.packed = packed;
    this.size = size;
    this.side = side;
    this.unpack = unpack;
    /** @type {Promise<ScorePart[]> | null} */
    this.parts = null;
    /** @type {Promise<Whole> | null} */
    this.whole = null;
  }

  /**
   * A tile of its map.
   * @param {Square} square
   */
  async tile(square) {
    const { whole } = this.packed, grid = { size: this.side, levels: 0 };
    const region = regionOf(square, grid, this.size), step = 2 ** square.level;
    if (whole && square.level >= whole.level) {
      this.whole ??= this.wholeOf(whole.name, 2 ** whole.level, whole.unit);
      return cut(await this.whole, region, step);
    }
    return computed(await this.factors(), region, step);
  }

  /**
   * All weights of a row.
   * @param {number} row
   * @returns {Promise<Float32Array>}
   */
  async row(row) {
    const region = { rows: [row, row + 1], columns: [0, this.size.columns] };
    const { weights } = await computed(await this.factors(), /** @type {any} */ (region), 1);
    return weights.data;
  }

  factors() {
    this.parts ??= Promise.all(this.packed.parts.map((part) => this.partOf(part)));
    return this.parts;
  }

  /** @param {PackedPart} part */
  async partOf({ queries, keys, visible, bias, span, ...words }) {
    const [mine, theirs, seen, added] = await Promise.all(
      [queries, keys, visible, bias].map((name) => this.arrays(name)));
    const [rows, width] = mine.q.shape.slice(-2), [count] = theirs.k.shape.slice(-2);
    return new ScorePart({
      ...words, q: numbers(mine, "q"), k: numbers(theirs, "k"), width, rows, keys: count,
      queries: span, logSum: new Float64Array(mine.log_sum.data.buffer), blank: mine.blank?.data, only: mine.only?.data,
      edges: seen.edges?.data, ends: seen.ends?.data, bias: added.table?.data,
    });
  }

  /**
   * @param {string | null} name  null: there are none
   * @returns {Promise<Record<string, Block>>}
   */
  async arrays(name) {
    return name === null ? {} : read(await this.unpack(name)).arrays;
  }

  /**
   * @param {string} name
   * @param {number} step
   * @param {number} unit
   * @returns {Promise<Whole>}
   */
  async wholeOf(name, step, unit) {
    const { high, low, masked } = await this.arrays(name), [height, width] = high.shape;
    const values = new Float32Array(height * width), hidden = new Uint8Array(height * width);
    for (let n = 0; n < values.length; n++) {
      values[n] = (256 * high.data[n] + low.data[n]) * unit;
      hidden[n] = (masked.data[n >> 3] >> (7 - (n & 7))) & 1;
    }
    return { values, masked: hidden, width, height, step };
  }
}

/**
 * Queries or keys: float32 as its four bytes one behind the other, or whole numbers of 16 bits
 * that a unit for each token multiplies.
 * @param {Record<string, Block>} arrays
 * @param {string} name
 */
function numbers(arrays, name) {
  const { shape, data } = arrays[name], [rows, width] = shape.slice(-2);
  const units = arrays[`${name}_unit`]?.data;
  const found = new Float32Array(rows * width);
  if (units) {
    for (let row = 0, n = 0; row < rows; row++) {
      for (const last = n + width; n < last; n++) found[n] = data[n] * units[row];
    }
    return found;
  }
  const bytes = new Uint8Array(found.buffer), count = found.length;
  for (let n = 0; n < count; n++) {
    for (let byte = 0; byte < 4; byte++) bytes[4 * n + byte] = data[byte * count + n];
  }
  return found;
}
