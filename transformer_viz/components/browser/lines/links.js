// Which links between words are drawn: of each word the strongest, and none that is too weak.

/** @typedef {import("../shared/hover_link.js").Ruler} Ruler */
/**
 * What lines.py packs. `weights` are float32 [head, query, key]; with `keys` (int32, -1: none) they
 * are [head, query, link] instead, and `beyond` counts what was not sent. `unread` are columns that
 * nobody looks at.
 * @typedef {{part: string, view: string, seq: number, block: string, across: boolean,
 *   height: number, heads: {layer?: number, head?: number, name?: string}[],
 *   rows: Ruler, columns: Ruler, unread?: number[],
 *   change: boolean, token: number | null, key: number | null, top: number, threshold: number,
 *   beyond: {links: number, weight: number}, caption: string, note: string,
 *   colours: import("../shared/colour.js").Colours,
 *   arrays: {weights: import("../shared/blob.js").Block, keys?: import("../shared/blob.js").Block}}} LinesData
 */
/** @typedef {{head: number, query: number, key: number, weight: number}} Link */
/**
 * `all` links have a weight; `weight` is the sum of their sizes, `shown` that of the drawn ones;
 * `most` is the largest size.
 * @typedef {{links: Link[], all: number, weight: number, shown: number, most: number}} Choice
 */

export const FAINT = 0.001; // a weaker line could not be seen

/**
 * The links to draw, with what they are chosen from.
 * @param {LinesData} data
 * @param {number} top  so many of each word's, strongest first; 0 for all
 * @param {number} threshold  the least size
 * @returns {Choice}
 */
export function chooseLinks({ arrays, beyond }, top, threshold) {
  const { data: weights, shape: [heads, queries, width] } = arrays.weights;
  const keys = arrays.keys?.data, least = Math.fround(Math.max(threshold, FAINT));
  const found = { links: /** @type {Link[]} */ ([]), all: beyond.links, weight: beyond.weight };
  let shown = 0, most = 0;
  for (let row = 0; row < heads * queries; row++) {
    let links = [];
    for (let n = row * width; n < (row + 1) * width; n++) {
      const size = Math.abs(weights[n]);
      if (!(size > 0)) continue; // not a number: there was nothing to compare
      found.all += 1;
      found.weight += size;
      most = Math.max(most, size);
      if (size >= least) links.push(n);
    }
    // The order of a sort is kept where sizes are equal: then the earlier word goes first.
    if (top && links.length > top) {
      links.sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]));
      links = links.slice(0, top);
    }
    for (const n of links) {
      const key = keys ? keys[n] : n % width;
      const head = Math.floor(row / queries);
      found.links.push({ head, query: row % queries, key, weight: weights[n] });
      shown += Math.abs(weights[n]);
    }
  }
  return { ...found, shown, most };
}

/**
 * The links of some words only: those that a query sends, or that a key gets.
 * @param {Link[]} links
 * @param {number[]} queries
 * @param {number[]} keys
 */
export function linksOf(links, queries, keys) {
  const looking = new Set(queries), seen = new Set(keys);
  return links.filter((link) => looking.has(link.query) || seen.has(link.key));
}

/**
 * Strongest first; of equals as they were.
 * @param {Link[]} links
 */
export function byStrength(links) {
  return [...links].sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
}
