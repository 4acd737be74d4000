// One head as a map: rows look at columns. Point at a cell for its weight, click to choose its row
// and column, zoom with the wheel and Ctrl, the buttons or + and −, drag to move. A long map has an
// overview in its corner, a search for words, and a list of links over far distances.
//
// Data: the blob of head_map.py (see MapData). Says: "picked" {row, column}, tokens of the model;
// "zoomed" {rows, columns} or null, once the hand rests.

import { paletteOf } from "../shared/colour.js";
import { element, listener, onEscape, rested } from "../shared/dom.js";
import { onLight, placesOn, shine } from "../shared/hover_link.js";
import { MapBelow } from "./below.js";
import { FarLinks } from "../long/far_links.js";
import { handleMap } from "./hand.js";
import { MapWords } from "../long/map_words.js";
import { Minimap } from "../long/minimap.js";
import { MapPicture } from "./picture.js";
import { cellAt, exactRow } from "./sheet.js";
import { quickSheet } from "../long/tiles.js";
import { describeView, enlargedWords } from "./words.js";
import { WordSearch } from "../long/word_search.js";
import { around, isWhole, wholeMap, zoomed } from "./zoom.js";
import { tell } from "../shared/i18n.js";
import { Pending, same } from "../shared/pending.js";

/** @typedef {import("./sheet.js").MapData} MapData */
/** @typedef {import("./sheet.js").Region} Region */
/** @typedef {{row: number, column: number}} Place */

const MAP_REST = 250; // milliseconds without a change until Python hears of the part that is shown

export class HeadMap {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    this.ending = new AbortController();
    const { signal } = this.ending;
    this.told = rested(MAP_REST, () => this.tell());
    this.pending = new Pending(); // parts that are shown
    this.size = { rows: 0, columns: 0 };
    this.view = wholeMap(this.size);
    /** @type {Place | null} */
    this.at = null; // the cell that is pointed at
    /** @type {Place | null} */
    this.last = null; // and was pointed at last
    this.keyed = false; // whether the keyboard points at it
    /** @type {import("./picture.js").Pinned} */
    this.pinned = { row: null, column: null };
    /** @type {number | null} */
    this.sent = null; // the row of which all exact weights were sent
    this.picture = new MapPicture(() => this.draw());
    this.below = new MapBelow({
      zoom: (factor) => this.zoom(factor),
      table: () => this.tabulate(!this.below.open),
      far: (open) => this.far.unfold(open),
    }, signal);
    this.words = new MapWords(() => this.data && this.show(this.data));
    this.search = new WordSearch({
      from: () => this.view.columns[0], go: (at) => this.go(at), mark: () => this.mark(),
    }, signal);
    this.far = new FarLinks((at) => this.follow(at), signal);
    this.minimap = new Minimap(this, (view) => (this.data ? enlargedWords(view, this.size) : ""), signal);
    place.classList.add("tv-map");
    place.replaceChildren(this.search.place,
      element("div", "around", this.picture.place, this.minimap.place), ...this.below.parts,
      this.far.place, this.picture.live);
    onLight(signal, () => this.mark());
    window.addEventListener("tv-asking", (event) => {
      const { tiles } = this.picture, words = /** @type {CustomEvent} */ (event).detail;
      if (this.data?.tiles) tiles.tellPart(words, this.view);
    }, { signal });
    handleMap(this.picture.place, listener(signal), this);
    onEscape(signal, () => this.picture.putAway());
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.picture.place);
  }

  end() {
    this.ending.abort();
    this.watch.disconnect();
    this.picture.tiles.end();
    this.words.end();
    this.told.end();
    if (this.at) shine(null, null);
  }

  // ---- data

  /** @param {any} given  all of the data, or what a step of a slider changes of a long map */
  show(given) {
    if (given.ahead && !this.data?.tiles) return;
    /** @type {MapData} */
    const data = given.ahead ? ahead(/** @type {any} */ (this.data), given) : given;
    const words = this.words.give(data);
    for (const side of [data.rows, data.columns]) side.groups ??= side.labels.map((_, n) => [n]);
    const size = { rows: data.rows.labels.length, columns: data.columns.labels.length };
    const other = size.rows !== this.size.rows || size.columns !== this.size.columns;
    this.data = data;
    this.size = size;
    if (other) this.leave();
    if (this.pending.hear(data.zoom)) {
      const [rows, columns] = data.zoom ?? [];
      this.view = rows && columns ? { rows, columns } : wholeMap(size);
    }
    this.pinned = {
      row: shownPlace(data.rows, data.token), column: shownPlace(data.columns, data.key),
    };
    this.sent = this.pinned.row;
    const palette = paletteOf(this.place, data), { picture } = this;
    picture.show(data, palette);
    this.below.table.hidden = Boolean(data.tiles);
    this.search.place.hidden = !data.tiles;
    this.search.show(words);
    // A page of its own has no list, nor have changes: it is one of weights.
    this.below.far.hidden = !data.tiles || Boolean(data.tiles.make) || data.change;
    if (data.change) {
      this.far.unfold(false);
      this.below.far.setAttribute("aria-expanded", "false");
    }
    if (data.tiles) this.far.show(data);
    this.below.show(data, picture.limit, picture.table, picture.hatched, palette.hatch);
    this.tabulate(this.below.open);
    this.draw();
  }

  /** Nothing that was pointed at or shown stands in a map of another size. */
  leave() {
    this.at = this.last = null;
    this.pending.forget();
    this.told.end();
  }

  // ---- drawing

  /**
   * The part of the map that is shown, and the box of its cells in CSS pixels of the page.
   * @returns {Region & {cells: import("./picture.js").Box | null, limit: number,
   *   names: import("./picture.js").MapPicture["names"], resting: boolean, coming: number,
   *   step: number, deep: number, took: number[], of: string, ahead: boolean,
   *   found: import("../long/word_finds.js").Find[], at: number,
   *   far: import("../long/far_links.js").Link[], asking: boolean}}  limit: what the last colour stands
   *   for; names: their corners in the picture; resting: Python knows the part; coming: tiles and
   *   words on their way; step: weights of a cell's side; deep: rows that are looked at of them;
   *   took: milliseconds from the request of a tile to its picture; of: which map; ahead: whether
   *   its run has not come; found, at: what a search found, and which of it the map went to; far:
   *   links over far distances, asking: whether they are on their way
   */
  describe() {
    const { rows, columns } = this.view, { limit, names, tiles, sheet } = this.picture;
    return {
      coming: tiles.coming.size + tiles.wanted.length + Number(tiles.hastening)
        + Number(Boolean(this.words.coming)),
      step: sheet?.down ?? 1, deep: sheet?.deep ?? sheet?.down ?? 1, took: tiles.took,
      of: tiles.line.of, ahead: Boolean(tiles.line.ahead),
      found: this.search.finds, at: this.search.at, far: this.far.links, asking: this.far.waits,
      rows, columns, cells: this.picture.cellsOnPage(), limit, names,
      resting: !this.pending.unsaid,
    };
  }

  resize() {
    const { place, width, height } = this.picture;
    if (this.data && (place.clientWidth !== width || place.clientHeight !== height)) this.draw();
  }

  draw() {
    const { data, view, picture, size } = this;
    if (!data || !picture.draw(view)) return;
    const whole = isWhole(view, size), closer = zoomed(view, size, 2, this.start());
    picture.place.classList.toggle("part", !whole);
    const said = [data.note, describeView(data, view, picture.sheet), picture.tiles.trouble]
      .filter(Boolean).join(" ");
    this.below.masked.hidden = !picture.hatched;
    this.below.view(said, whole, same(closer, view));
    if (data.tiles) {
      const { table, limit } = picture, { change, threshold, title } = data;
      this.minimap.draw(picture.tiles.coarsest(), table, { change, threshold, limit }, title);
    }
    this.mark();
  }

  mark() {
    const { finds: all, now } = this.search;
    this.picture.mark(this.pinned, this.at, this.keyed, { all, now });
  }

  /** @param {boolean} open */
  tabulate(open) {
    const { data, picture: { sheets }, pinned: { row }, sent } = this;
    if (!data) return;
    const exact = row === null ? null : exactRow(data, sheets, row, sent);
    this.below.tabulate(data, open, row, exact);
  }

  // ---- pointing, choosing, zooming

  /** The cell at which the keyboard goes on. */
  start() {
    const { view, pinned } = this;
    return this.at ?? this.last
      ?? { row: pinned.row ?? view.rows[0], column: pinned.column ?? view.columns[0] };
  }

  /**
   * Point at a cell, or at none.
   * @param {Place | null} at
   * @param {boolean} [keyed]
   */
  point(at, keyed = false) {
    const same = at?.row === this.at?.row && at?.column === this.at?.column;
    if (!this.data || (same && keyed === this.keyed)) return;
    this.at = at;
    this.last = at ?? this.last;
    this.keyed = keyed;
    this.picture.quiet = false;
    if (!at) return shine(null, null);
    const { rows, columns } = cellAt(this.picture.sheet, at.row, at.column);
    shine(spotsOn(this.data.rows, rows), spotsOn(this.data.columns, columns)); // which marks
  }

  /**
   * Choose a row and a column; the column is let go of when both were chosen before.
   * @param {Place} at
   */
  pick({ row, column }) {
    const { data, pinned } = this;
    if (!data) return;
    const again = pinned.row === row && pinned.column === column;
    this.last = { row, column };
    this.pinned = { row, column: again ? null : column };
    this.mark();
    this.tabulate(this.below.open);
    const names = [data.rows.labels[row], ...(again ? [] : [data.columns.labels[column]])];
    this.picture.live.textContent = tell("Chosen: {words}", { words: names.join(" → ") });
    this.say("picked", {
      row: data.rows.groups[row][0], column: again ? null : data.columns.groups[column][0],
    });
  }

  /**
   * Enlarge around a cell, or around the middle; a factor of 0 shows all.
   * @param {number} factor
   * @param {Place | null} [at]
   */
  zoom(factor, at) {
    const { view: { rows, columns }, view, size } = this;
    const middle = { row: (rows[0] + rows[1] - 1) / 2, column: (columns[0] + columns[1] - 1) / 2 };
    this.look(factor ? zoomed(view, size, factor, at ?? middle) : wholeMap(size));
  }

  /**
   * Show a part of the map.
   * @param {Region} view
   */
  look(view) {
    if (same(view, this.view)) return;
    this.view = view;
    this.pending.choose();
    this.draw();
    this.told.ask();
  }

  /**
   * Bring a cell into the middle, so near that its words can be read.
   * @param {Place} at
   */
  go(at) {
    this.last = at;
    this.look(around(this.view, this.size, at));
  }

  /**
   * Go to a cell and choose it.
   * @param {Place} at
   */
  follow(at) {
    this.go(at);
    this.picture.place.scrollIntoView({ block: "nearest" }); // the list may stand far below
    const { row, column } = this.pinned;
    if (row !== at.row || column !== at.column) this.pick(at); // a second pick lets go of a column
  }

  tell() {
    const { rows, columns } = this.view, whole = isWhole(this.view, this.size);
    this.pending.tell(whole ? null : [rows, columns]);
    this.say("zoomed", whole ? null : { rows, columns });
  }
}

/**
 * A long map under a step of a slider: one part of it is known, ahead of the run of the model.
 * @param {MapData} data
 * @param {any} step
 * @returns {MapData}
 */
function ahead(data, step) {
  const tiles = { .../** @type {any} */ (data.tiles), of: step.of, ahead: true, moving: true };
  return { ...data, tiles, note: step.note, numbers: "", quick: quickSheet(step) };
}

/**
 * The row or column of a token; null where it is not shown.
 * @param {import("../shared/hover_link.js").Ruler} ruler
 * @param {number | null} token
 */
function shownPlace(ruler, token) {
  if (token === null) return null;
  return placesOn(ruler, { sentence: ruler.sentence, tokens: [token] })[0] ?? null;
}

/**
 * The tokens of several rows or columns.
 * @param {import("../shared/hover_link.js").Ruler} ruler
 * @param {import("./sheet.js").Span} span
 */
function spotsOn(ruler, [first, last]) {
  return { sentence: ruler.sentence, tokens: ruler.groups.slice(first, last).flat() };
}
