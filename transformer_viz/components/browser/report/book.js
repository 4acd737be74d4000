// What a report holds: unpacked once, and asked for the data of a head.

import { read } from "../shared/blob.js";

/** @typedef {{title: string, numbers: string, note: string, most: number, long?: boolean,
 *   arrays: string[]}} BookHead */
/** @typedef {{name: string, low: number, atlas: string,
 *   blocks: Record<string, {map: any, lines: any}>, heads: Record<string, BookHead>}} BookRun */
/** @typedef {[string, number, number]} BookPlace  block, layer, head */

const BOOK_STEPS = 65534; // of the range of weights; one more is no number

/**
 * The bytes that stand deflated, as letters, in an element.
 * @param {Element} holder
 * @returns {Promise<Uint8Array>}
 */
export async function inflated(holder) {
  const packed = Uint8Array.from(atob(holder.textContent ?? ""), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export class ReportBook {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    const found = read(bytes);
    this.speech = /** @type {{lang?: string, texts?: Record<string, string>}} */ (found);
    this.runs = /** @type {BookRun[]} */ (found.runs);
    this.opened = /** @type {BookPlace} */ (found.opened);
    this.chips = found.chips ?? null;
    this.parts = /** @type {string[]} */ (found.parts);
    this.view = /** @type {string} */ (found.view);
    this.overlaid = /** @type {[number, number][]} */ (found.overlaid ?? []);
    this.arrays = /** @type {Record<string, import("../shared/blob.js").Block>} */ (found.arrays);
  }

  /** The atlas of a run. @param {number} run */
  atlas(run) {
    return read(this.arrays[this.runs[run].atlas].data);
  }

  /**
   * What is known of a head; undefined where its weights are not in the file.
   * @param {number} run
   * @param {BookPlace} place
   * @returns {BookHead | undefined}
   */
  head(run, place) {
    return this.runs[run].heads[place.join(" ")];
  }

  /**
   * The data of a map.
   * @param {number} run
   * @param {BookPlace} place
   */
  map(run, place) {
    const head = this.head(run, place);
    if (!head) return null;
    if (head.long) return this.longMap(run, head);
    const common = this.runs[run].blocks[place[0]].map;
    const shape = [common.rows.labels.length, common.columns.labels.length];
    const { title, numbers, note, most } = head;
    const arrays = {
      weights: { shape, data: this.weights(run, head) },
      masked: { shape, data: this.masked(head, shape[0] * shape[1]) },
    };
    return { ...common, title, numbers, note, most, arrays };
  }

  /**
   * A map that is drawn pooled, and exact where it is enlarged.
   * @param {number} run
   * @param {BookHead} head
   */
  longMap(run, head) {
    const data = read(this.arrays[head.arrays[3]].data);
    const shape = [data.rows.labels.length, data.columns.labels.length];
    const weights = { shape, data: this.weights(run, head) };
    const masked = { shape, data: this.masked(head, shape[0] * shape[1]) };
    const region = shape.map((size) => [0, size]);
    return { ...data, region, arrays: { ...data.arrays, weights, masked } };
  }

  /**
   * The data of the lines of some heads of a block, those that are in the file.
   * @param {number} run
   * @param {string} block
   * @param {[number, number][]} places  layer and head of each, the first one the opened one
   */
  lines(run, block, places) {
    const first = this.head(run, [block, ...places[0]]);
    if (!first) return null;
    if (first.long) return read(this.arrays[first.arrays[4]].data);
    const common = this.runs[run].blocks[block].lines;
    const found = places.filter((place) => this.head(run, [block, ...place]));
    const size = common.rows.labels.length * common.columns.labels.length;
    const weights = new Float32Array(found.length * size);
    found.forEach((place, n) => {
      const head = /** @type {BookHead} */ (this.head(run, [block, ...place]));
      weights.set(this.weights(run, head), n * size);
    });
    const shape = [found.length, common.rows.labels.length, common.columns.labels.length];
    const heads = found.map(([layer, head]) => ({ layer, head }));
    return { ...common, heads, arrays: { weights: { shape, data: weights } } };
  }

  /**
   * @param {number} run
   * @param {BookHead} head
   */
  weights(run, head) {
    const [high, low] = head.arrays.slice(0, 2).map((name) => this.arrays[name].data);
    const least = this.runs[run].low, range = 1 - least;
    return Float32Array.from(high, (/** @type {number} */ byte, /** @type {number} */ n) => {
      const steps = 256 * byte + low[n];
      return steps > BOOK_STEPS ? NaN : least + range * steps / BOOK_STEPS;
    });
  }

  /**
   * @param {BookHead} head
   * @param {number} count
   */
  masked(head, count) {
    const bits = this.arrays[head.arrays[2]].data;
    return Uint8Array.from({ length: count }, (_, n) => (bits[n >> 3] >> (7 - (n & 7))) & 1);
  }
}
