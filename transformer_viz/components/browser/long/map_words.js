// The words along the sides of a long map: fetched once, however often the page runs, and kept.

import { read } from "../shared/blob.js";

/** @typedef {import("../head_map/sheet.js").MapData} MapData */
/** @typedef {{row_labels: string[], column_labels: string[], spelled: string[],
 *   row_words: number[], column_words: number[]}} SideWords
 *   `spelled`: whole words; `row_words`, `column_words`: which one a row or column belongs to */
/** @typedef {{rows: string[], columns: string[], spelled: string[], rowWords: number[],
 *   columnWords: number[]}} Words */

const MOST_KEPT = 4; // texts
const TRIES = 3; // times that words are asked for
const REST = 1500; // milliseconds between them: a busy server may have refused

/** @type {Map<string, Words>} */
const KEPT = new Map(); // by their names, the one used last at the end; views come and go

export class MapWords {
  /** @param {() => void} arrived */
  constructor(arrived) {
    this.arrived = arrived;
    this.coming = ""; // the name of the words that are on their way
    this.missing = ""; // and of those that could not be had
    this.tries = 0;
    this.ending = new AbortController();
  }

  end() {
    this.ending.abort();
  }

  /**
   * Give a long map's data their labels: blank ones until they come.
   * @param {MapData} data
   * @returns {Words | null}
   */
  give(data) {
    const { tiles, rows, columns } = data, named = tiles?.named;
    if (!named) return null;
    const sent = /** @type {MapData & SideWords} */ (data);
    if (sent.spelled && !KEPT.has(named)) {
      keep(named, wordsOf({ ...sent, row_labels: rows.labels, column_labels: columns.labels }));
    }
    const found = KEPT.get(named);
    rows.labels = found?.rows ?? blanks(rows.count ?? 0);
    columns.labels = found?.columns ?? blanks(columns.count ?? 0);
    if (found) keep(named, found);
    else if (this.missing !== named) this.fetch(named, tiles.words);
    return found ?? null;
  }

  /**
   * @param {string} named
   * @param {string} [words]  their address
   */
  async fetch(named, words) {
    if (this.coming === named || !words) return;
    this.coming = named;
    const { signal } = this.ending;
    try {
      const asked = `${words}?${new URLSearchParams({ of: named })}`;
      const answer = await fetch(asked, { cache: "no-store", signal });
      if (answer.status !== 200) throw new Error(await answer.text());
      keep(named, wordsOf(/** @type {any} */ (read(new Uint8Array(await answer.arrayBuffer())))));
    } catch {
      this.missing = named; // the map is drawn without them, and its tiles say what is wrong
      this.tries += 1;
      if (this.tries < TRIES) setTimeout(() => this.again(), REST * this.tries);
    }
    if (this.coming === named) this.coming = "";
    if (!signal.aborted) this.arrived();
  }

  again() {
    this.missing = "";
    if (!this.ending.signal.aborted) this.arrived();
  }
}

/** @param {SideWords} sent */
function wordsOf({ row_labels, column_labels, spelled, row_words, column_words }) {
  return {
    rows: row_labels, columns: column_labels, spelled,
    rowWords: row_words, columnWords: column_words,
  };
}

/** @type {string[][]} */
const BLANK = [[]];

/**
 * As many empty labels, the same list each time.
 * @param {number} count
 */
function blanks(count) {
  if (BLANK[0].length !== count) BLANK[0] = new Array(count).fill("");
  return BLANK[0];
}

/**
 * @param {string} name
 * @param {Words} words
 */
function keep(name, words) {
  KEPT.delete(name);
  KEPT.set(name, words);
  if (KEPT.size > MOST_KEPT) KEPT.delete(/** @type {string} */ (KEPT.keys().next().value));
}
