// What is known of every head of an atlas: its numbers, its words, and its rank.

import { filled, tell } from "../shared/i18n.js";
import { signed } from "../shared/number_format.js";
/** @typedef {{name: string, title: string, counts: number[], stride: number[],
 *   rows: string, columns: string}} AtlasBlock  counts: heads of each layer */
/** @typedef {{name: string, before: string | null, title: string, heading: string, ranked: string,
 *   heard: string, digits: number, signed: boolean}} Metric  name, before: columns of numbers */
/** @typedef {{sort: string, scale: string, ramp: string, gamma: number, threshold: number}} How */
/** @typedef {{seq: number, height: number, words: string, limit: number, robust?: boolean, how: How,
 *   opened: [string, number, number] | null, overlaid: [number, number][],
 *   colours: import("../shared/colour.js").Colours,
 *   sentences: Record<string, ArrayLike<string>>, blocks: AtlasBlock[], metrics: Metric[],
 *   columns: string[],
 *   arrays: Record<string, import("../shared/blob.js").Block>}} AtlasData  what atlas.py packs */
/** @typedef {{block: number, layer: number, head: number}} Place  one head */

/**
 * Every head that there is, block by block and layer by layer.
 * @param {AtlasData} data
 * @returns {Place[]}
 */
export function placesIn(data) {
  return data.blocks.flatMap(({ counts }, block) =>
    counts.flatMap((count, layer) =>
      [...Array(count).keys()].map((head) => ({ block, layer, head }))));
}

/**
 * The head that is meant by its block's name, its layer and its number, if its block is shown.
 * @param {AtlasData} data
 * @param {[string, number, number] | null} named
 * @returns {Place | null}
 */
export function placeNamed(data, named) {
  const block = data.blocks.findIndex(({ name }) => name === named?.[0]);
  return named && block >= 0 ? { block, layer: named[1], head: named[2] } : null;
}

/**
 * @param {Place | null | undefined} one
 * @param {Place | null | undefined} other
 */
export function samePlace(one, other) {
  return one?.block === other?.block && one?.layer === other?.layer && one?.head === other?.head;
}

/**
 * Where a head stands in arrays whose first axes are layer and head.
 * @param {AtlasData} data
 * @param {Place} place
 */
export function flat(data, { block, layer, head }) {
  return layer * data.arrays["tiles" + block].shape[1] + head;
}

/**
 * A number of a head; NaN where it is not known.
 * @param {AtlasData} data
 * @param {Place} place
 * @param {string} name  of a column
 * @returns {number}
 */
export function numberOf(data, place, name) {
  const { shape, data: numbers } = data.arrays["numbers" + place.block];
  return numbers[data.columns.indexOf(name) * shape[1] * shape[2] + flat(data, place)];
}

/**
 * The metrics by which heads can be sorted and that the table shows: without a change, none of it.
 * @param {AtlasData} data
 */
export function metricsOf(data) {
  return data.metrics.filter((metric) => !metric.signed || data.limit);
}

/**
 * What heads can really be sorted by: there may be no change to sort by.
 * @param {AtlasData} data
 * @param {string} sort
 */
export function sortable(data, sort) {
  return metricsOf(data).some(({ name }) => name === sort) ? sort : "layer";
}

/**
 * The metric whose numbers colour whole tiles; null where tiles show the weights themselves.
 * @param {AtlasData} data
 * @param {string} scale  of the choices: a scale of weights, or the name of a metric
 * @returns {Metric | null}
 */
export function colouring(data, scale) {
  if (data.limit) return null;
  return data.metrics.find(({ name, signed }) => name === scale && !signed) ?? null;
}

/**
 * The least and the largest known number of a metric; nothing where no head has one.
 * @param {AtlasData} data
 * @param {Metric} metric
 * @returns {[number, number] | null}
 */
export function rangeOf(data, metric) {
  const known = placesIn(data).map((place) => numberOf(data, place, metric.name))
    .filter((number) => !Number.isNaN(number));
  return known.length ? [Math.min(...known), Math.max(...known)] : null;
}

/**
 * A metric of a head as it is written; a dash where it is not known.
 * @param {AtlasData} data
 * @param {Place} place
 * @param {Metric} metric
 * @param {string} [column]
 */
export function written(data, place, metric, column = metric.name) {
  const number = numberOf(data, place, column);
  return Number.isNaN(number) ? "–" : signed(number, metric.digits, metric.signed);
}

/**
 * Heads with the highest number first, a change by its size; unknown ones stand at the end, and
 * equal ones as they were.
 * @param {AtlasData} data
 * @param {Place[]} places
 * @param {string} sort  "layer" leaves them as they are
 * @returns {Place[]}
 */
export function ranked(data, places, sort) {
  const metric = metricsOf(data).find(({ name }) => name === sort);
  if (!metric) return places;
  const keys = new Map(places.map((place) => {
    const number = numberOf(data, place, sort);
    return [place, Number.isNaN(number) ? -Infinity : metric.signed ? Math.abs(number) : number];
  }));
  return [...places].sort((a, b) => compare(Number(keys.get(b)), Number(keys.get(a))));
}

/**
 * Numbers in order; two unknown ones, both infinite, are equal.
 * @param {number} one
 * @param {number} other
 */
function compare(one, other) {
  return one === other ? 0 : one - other;
}

/**
 * A head's name, "L1 H3".
 * @param {Place} place
 */
export function nameOf({ layer, head }) {
  return `L${layer} H${head}`;
}

/**
 * The words from one token to another.
 * @param {ArrayLike<string>} labels
 * @param {number} first
 * @param {number} last
 */
function wordsFrom(labels, first, last) {
  return first === last ? labels[first] : `${labels[first]} … ${labels[last]}`;
}

/**
 * Two sets of words as a link, "es → animal".
 * @param {AtlasData} data
 * @param {number} block
 * @param {ArrayLike<number>} span  first and last row, first and last column
 */
function linkOf(data, block, span) {
  const { rows, columns } = data.blocks[block];
  return wordsFrom(data.sentences[rows], span[0], span[1])
    + " → " + wordsFrom(data.sentences[columns], span[2], span[3]);
}

/**
 * Where a head looks hardest, or changed most: "es → animal".
 * @param {AtlasData} data
 * @param {Place} place
 */
export function strongestLink(data, place) {
  const start = flat(data, place) * 4;
  const { data: links } = data.arrays["links" + place.block];
  return linkOf(data, place.block, links.subarray(start, start + 4));
}

/**
 * What a person hears of a head: some metrics, and its strongest link or largest change.
 * @param {AtlasData} data
 * @param {Place} place
 * @returns {string[]}
 */
export function factsOf(data, place) {
  const link = strongestLink(data, place);
  const metrics = data.metrics.filter(({ heard }) => heard).map((metric) => {
    const number = written(data, place, metric);
    const from = data.limit && metric.before
      ? written(data, place, metric, metric.before) + " → " : "";
    return filled(metric.heard, { number, numbers: from + number });
  });
  const weight = signed(numberOf(data, place, "strongest"), 2, false);
  const change = aboutByte(signed(numberOf(data, place, "change"), 2, true));
  const what = data.limit ? tell("largest change {link} {change}", { link, change })
    : tell("strongest {link} {weight}", { link, weight });
  return [...metrics, what];
}

/**
 * A number of a tile as it is said: its cells are bytes, so it is rounded.
 * @param {string} number
 */
function aboutByte(number) {
  return tell("about {number}", { number });
}

/**
 * What stands in one cell of a tile: "es → animal about 0.62".
 * @param {AtlasData} data
 * @param {Place} place
 * @param {number} row  of the tile's cells
 * @param {number} column
 */
export function cellOf(data, place, row, column) {
  const { data: cells, shape } = data.arrays["tiles" + place.block];
  const code = cells[(flat(data, place) * shape[2] + row) * shape[3] + column];
  const { row: { tokens: rows }, column: { tokens: columns } } =
    spotsAt(data, { slot: { place }, row, column });
  const link = linkOf(data, place.block,
    [rows[0], rows[rows.length - 1], columns[0], columns[columns.length - 1]]);
  if (data.limit && !code) return tell("{link} was not there before", { link });
  const amount = aboutByte(data.limit ? signed(((code - 128) / 127) * data.limit, 2, true)
    : signed(code / 255, 2, false));
  return rows.length * columns.length > 1 ? tell("{link} up to {amount}", { link, amount })
    : `${link} ${amount}`;
}

/**
 * The words of a cell, as other pictures are told of them.
 * @param {AtlasData} data
 * @param {{slot: {place: Place}, row: number, column: number}} hit
 */
export function spotsAt(data, { slot, row, column }) {
  const { block } = slot.place, { rows, columns, stride } = data.blocks[block];
  return {
    row: { sentence: rows, tokens: tokensAt(data, block, "rows", row, stride[0]) },
    column: { sentence: columns, tokens: tokensAt(data, block, "columns", column, stride[1]) },
  };
}

/**
 * Which rows or columns of a block's tiles are lit, as parts of a tile from 0 to 1.
 * @param {AtlasData} data
 * @param {number} block
 * @param {"rows" | "columns"} side
 * @param {import("../shared/hover_link.js").Spot | null} spot
 * @returns {number[]}
 */
export function litParts(data, block, side, spot) {
  const { [side]: sentence, stride } = data.blocks[block];
  if (spot?.sentence !== sentence) return [];
  const axis = side === "rows" ? 0 : 1;
  const cells = new Set(spot.tokens.map((token) => Math.floor(token / stride[axis])));
  const count = data.arrays["tiles" + block].shape[2 + axis];
  return [...cells].filter((cell) => cell < count).map((cell) => (cell + 0.5) / count);
}

/**
 * The model's tokens in a row or column of a tile.
 * @param {AtlasData} data
 * @param {number} block
 * @param {"rows" | "columns"} side
 * @param {number} at
 * @param {number} step
 * @returns {number[]}
 */
function tokensAt(data, block, side, at, step) {
  const count = data.sentences[data.blocks[block][side]].length;
  const first = Math.min(at * step, count - 1);
  return [...Array(Math.min(step, count - first)).keys()].map((n) => first + n);
}
