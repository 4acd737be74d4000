// What a report holds: unpacked once, and asked for the data of a head.

import { read } from "../shared/blob.js";
import { LongHead } from "./long_head.js";

/** @typedef {{title: string, numbers: string, note: string, most: number, largest?: number, long?: boolean,
 *   arrays: string[], packed?: import("./long_head.js").PackedHead, within?: number,
 *   why?: string}} BookHead */
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
  const letters = atob(holder.textContent ?? ""), packed = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n++) packed[n] = letters.charCodeAt(n);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The bytes of a part of the page that is unpacked when it is asked for. @param {string} name */
function inflatedPart(name) {
  const holder = document.getElementById(`tv-part-${name}`);
  if (!holder) throw new Error(`part ${name} of this page is missing`);
  return inflated(holder);
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
    this.tiled = /** @type {boolean} */ (found.tiled ?? false); // too long for matrices
    /** @type {Map<string, LongHead>} */
    this.long = new Map(); // heads that were opened, of such a text
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
    if (this.tiled) return this.tiledMap(run, place, head);
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
   * A head of a long text whose queries and keys are here, if they are.
   * @param {number} run
   * @param {BookPlace} place
   */
  longHead(run, place) {
    const packed = this.head(run, place)?.packed, name = [run, ...place].join(" ");
    const known = this.long.get(name);
    if (!packed || known) return known;
    const { rows, columns, tiles } = this.runs[run].blocks[place[0]].map;
    const size = { rows: rows.labels.length, columns: columns.labels.length };
    const made = new LongHead(packed, size, tiles.size, inflatedPart);
    this.long.set(name, made);
    return made;
  }

  /**
   * A map whose cells the page computes; of a head without queries and keys its small picture.
   * @param {number} run
   * @param {BookPlace} place
   * @param {BookHead} head
   */
  tiledMap(run, place, head) {
    const common = this.runs[run].blocks[place[0]].map;
    const { title, numbers, most, largest, within = 0 } = head;
    const [, heads, high, wide] = common.small.shape, first = place[1] * heads + place[2];
    const shape = [high, wide], size = high * wide;
    const pooled = this.arrays[common.small.name].data.subarray(first * size, (first + 1) * size);
    const arrays = {
      pooled: { shape, data: pooled }, pooled_masked: { shape, data: new Uint8Array(size) },
    };
    const words = { ...common, title, numbers, most, largest, within, arrays };
    const opened = this.longHead(run, place);
    if (!opened) return { ...words, tiles: undefined, fixed: true, note: head.why };
    const tiles = {
      ...common.tiles, of: [run, ...place].join(" "),
      make: (/** @type {import("../long/tile_grid.js").Square} */ square) => opened.tile(square),
    };
    return { ...words, tiles };
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
