// Tiles of a long map that the page computes by itself, some rows at a time: it goes on answering
// the hand meanwhile. The coarsest levels were made before, as they would take the whole map.

import { STRIP } from "./score_part.js";

/** @typedef {import("./score_part.js").ScorePart} ScorePart */
/** @typedef {import("../head_map/sheet.js").Region} Region */
/** @typedef {import("../shared/blob.js").Block} Block */
/** @typedef {{weights: Block, masked: Block}} Tile */

const SLICE = 8; // milliseconds of computing, until everything else has its turn

/**
 * Some rows and columns of a map, in cells of `step` x `step`: the largest weight of each, and
 * whether nothing in it may be looked at.
 * @param {ScorePart[]} parts
 * @param {Region} region
 * @param {number} step
 * @returns {Promise<Tile>}
 */
export async function computed(parts, region, step) {
  const [top, bottom] = region.rows, [left, right] = region.columns;
  const wide = right - left, across = Math.ceil(wide / step), down = Math.ceil((bottom - top) / step);
  const best = new Float64Array(across * down).fill(-Infinity);
  const masked = new Uint8Array(across * down).fill(1);
  const strip = new Float64Array(STRIP * wide);
  let began = performance.now();
  for (const part of parts) {
    const { firstRow, rows } = part.factors;
    const stop = Math.min(bottom, firstRow + rows);
    for (let row = Math.max(top, firstRow); row < stop; row += STRIP) {
      const count = Math.min(STRIP, stop - row);
      part.exponents(row - firstRow, count, [left, right], strip);
      for (let n = 0; n < count; n++) {
        const to = Math.floor((row + n - top) / step) * across;
        fold(part, row + n - firstRow, strip.subarray(n * wide, (n + 1) * wide), left,
          step, best.subarray(to, to + across), masked.subarray(to, to + across));
      }
      if (performance.now() - began > SLICE) {
        await breath();
        began = performance.now();
      }
    }
  }
  return { weights: { shape: [down, across], data: weightsOf(best) }, masked: { shape: [down, across], data: masked } };
}

/**
 * What no row reached is 0.
 * @param {Float64Array} best
 */
function weightsOf(best) {
  const values = new Float32Array(best.length);
  for (let n = 0; n < best.length; n++) if (best[n] > -Infinity) values[n] = best[n];
  return values;
}

/**
 * Put the exponents of a row into its cells.
 * @param {ScorePart} part
 * @param {number} row
 * @param {Float64Array} exponents
 * @param {number} left  the key of the first
 * @param {number} step
 * @param {Float64Array} best
 * @param {Uint8Array} masked
 */
function fold(part, row, exponents, left, step, best, masked) {
  const { keepsOrder } = part, { keys } = part.factors, stop = Math.min(exponents.length, keys - left);
  for (let cell = 0, from = 0; from < stop; cell++, from += step) {
    const to = Math.min(stop, from + step);
    let largest = -Infinity, seen = false;
    for (let n = from; n < to; n++) {
      const exponent = exponents[n];
      if (exponent > -Infinity) seen = true;
      const value = keepsOrder ? exponent : part.weight(exponent, row, left + n);
      if (value > largest) largest = value;
    }
    if (seen) masked[cell] = 0;
    if (keepsOrder) largest = part.weight(largest, row, left);
    if (largest > best[cell]) best[cell] = largest;
  }
}

/** Let everything that waits go first. */
function breath() {
  return new Promise((go) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => go(port1.close());
    port2.postMessage(null);
  });
}

/**
 * A tile of a coarser level, of the whole at the level that was made before.
 * @param {{values: Float32Array, masked: Uint8Array, width: number, height: number, step: number}} whole
 * @param {Region} region
 * @param {number} step
 * @returns {Tile}
 */
export function cut(whole, region, step) {
  const by = step / whole.step, { width, height } = whole;
  const top = region.rows[0] / whole.step, left = region.columns[0] / whole.step;
  const bottom = Math.min(height, Math.ceil(region.rows[1] / whole.step));
  const right = Math.min(width, Math.ceil(region.columns[1] / whole.step));
  const across = Math.ceil((right - left) / by), down = Math.ceil((bottom - top) / by);
  const values = new Float32Array(across * down).fill(-Infinity);
  const masked = new Uint8Array(across * down).fill(1);
  for (let row = top; row < bottom; row++) {
    for (let column = left; column < right; column++) {
      const from = row * width + column;
      const to = Math.floor((row - top) / by) * across + Math.floor((column - left) / by);
      if (whole.values[from] > values[to]) values[to] = whole.values[from];
      if (!whole.masked[from]) masked[to] = 0;
    }
  }
  return { weights: { shape: [down, across], data: values }, masked: { shape: [down, across], data: masked } };
}
