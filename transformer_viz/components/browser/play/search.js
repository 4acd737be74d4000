// A search as it went: who goes on from whom, which pass gave a token, what became of each text.

import { tell } from "../shared/i18n.js";

/**
 * What play.py sends: by candidate steps, parents, tokens (places in `names`), ranks, logs, totals,
 * scores, chances, fates; by pass owners, top, top_logs, top_chances, keys, rows [pass, head, key].
 * @typedef {{about: string, way: "greedy" | "sample" | "beam", beam: number,
 *   drawing: number | null, penalty: number, block: string, layers: number, layer: number,
 *   head: number, pooled: boolean, names: string[], words: string[], start: string,
 *   before: string | null, best: number[], written: string[], played: number, chosen: number,
 *   ramp: string, height: number, colours: import("../shared/colour.js").Colours, seq: number,
 *   arrays: Record<string, import("../shared/blob.js").Block>}} PlayData
 */

export const LEFT_OUT = 0, KEPT = 1, ENDED = 2, CUT = 3;
export const NOBODY = -1; // the parent of the first tokens, and the owner of the first pass

export class PlaySearch {
  /** @param {PlayData} data */
  constructor(data) {
    const { arrays } = data;
    this.data = data;
    this.steps = arrays.steps.data;
    this.parents = arrays.parents.data;
    this.tokens = arrays.tokens.data;
    this.totals = arrays.totals.data;
    this.scores = arrays.scores.data;
    this.fates = arrays.fates.data;
    this.count = this.steps.length;
    this.last = this.steps[this.count - 1]; // the last step of the whole search
    /** @type {number[][]} */
    this.children = Array.from({ length: this.count }, () => []);
    /** @type {number[][]} */
    this.columns = Array.from({ length: this.last + 1 }, () => []);
    for (let one = 0; one < this.count; one++) {
      this.columns[this.steps[one]].push(one);
      if (this.parents[one] !== NOBODY) this.children[this.parents[one]].push(one);
    }
    /** @type {Map<number, number>} */
    this.passes = new Map();
    arrays.owners.data.forEach((/** @type {number} */ owner, /** @type {number} */ pass) =>
      this.passes.set(owner, pass));
    this.winners = new Set(data.best.flatMap((one) => this.line(one))); // all that led to an end
  }

  /**
   * A candidate's own token, as a reader sees it.
   * @param {number} one
   */
  name(one) {
    return this.data.names[this.tokens[one]];
  }

  /**
   * A candidate and all that it goes on from, the first step first.
   * @param {number} one
   * @returns {number[]}
   */
  line(one) {
    const found = [];
    for (let at = one; at !== NOBODY; at = this.parents[at]) found.push(at);
    return found.reverse();
  }

  /**
   * The pass that gave a candidate its token.
   * @param {number} one
   */
  passOf(one) {
    return /** @type {number} */ (this.passes.get(this.parents[one]));
  }

  /**
   * The place of a candidate among those weighed at its step, from 0.
   * @param {number} one
   */
  placeOf(one) {
    return one - this.columns[this.steps[one]][0];
  }

  /**
   * Those of a step that were kept or have ended.
   * @param {number} step
   */
  kept(step) {
    return this.columns[step].filter((one) => this.fates[one] !== LEFT_OUT);
  }

  /**
   * The text to show when a candidate is chosen: the best that came of it, or the one that came
   * furthest.
   * @param {number} one
   */
  leafOf(one) {
    const winner = this.data.best.find((best) => this.line(best)[this.steps[one]] === one);
    if (winner !== undefined) return winner;
    let leaf = one;
    for (;;) {
      const next = this.children[leaf].find((child) => this.fates[child] !== LEFT_OUT);
      if (next === undefined) return leaf;
      leaf = next;
    }
  }

  /**
   * How the link names a candidate: its step and its place there.
   * @param {number} one
   */
  address(one) {
    return `${this.steps[one]}.${this.placeOf(one)}`;
  }

  /**
   * What the last token before a candidate's own looked at: of one head, or the mean of all.
   * @param {number} one
   * @param {number | null} head
   * @returns {Float32Array}
   */
  row(one, head) {
    const { rows: { shape: [, heads, keys], data }, keys: lengths } = this.data.arrays;
    const pass = this.passOf(one), found = new Float32Array(lengths.data[pass]);
    const chosen = head === null ? [...Array(heads).keys()] : [head];
    for (let key = 0; key < found.length; key++) {
      let sum = 0;
      for (const n of chosen) sum += data[(pass * heads + n) * keys + key];
      found[key] = sum / chosen.length;
    }
    return found;
  }

  /**
   * The names of all keys that a text's last row has: of what was there, and of its own tokens.
   * @param {number[]} line
   * @returns {string[]}
   */
  keyNames(line) {
    const { words, block, arrays: { keys } } = this.data;
    if (block === "cross") return words;
    const most = keys.data[this.passOf(line[line.length - 1])];
    return [...words, ...line.map((one) => this.name(one))].slice(0, most);
  }
}

/**
 * A log-probability or a score as it is written everywhere.
 * @param {number} value
 * @param {number} [digits]
 */
export function logWords(value, digits = 2) {
  if (value === -Infinity) return "−∞";
  return value.toFixed(digits).replace("-", "−");
}

/**
 * A probability as it is written: small ones keep a digit that is not 0.
 * @param {number} value
 */
export function chanceWords(value) {
  if (value === 0 || value >= 0.001) return value.toFixed(3);
  return value < 0.00001 ? tell("under 0.00001") : value.toPrecision(1).replace(/e.*/, "");
}
