// The pictures of a report, linked: a tile opens its head, a word is chosen in all of them.

import { Atlas } from "../atlas/atlas.js";
import { isDark } from "../shared/colour.js";
import { element, listener, set } from "../shared/dom.js";
import { placesOn, spotOf } from "../shared/hover_link.js";
import { Lines } from "../lines/lines.js";
import { HeadMap } from "../head_map/map.js";
import { blockName, describeLeftOut, describeMissing, describeRow } from "./words.js";
import { tell } from "../shared/i18n.js";
import { tabs } from "../shared/tabs.js";
import { Chips } from "../tokens/tokens.js";

/** @typedef {import("./book.js").BookPlace} BookPlace */
/** @typedef {import("./book.js").ReportBook} ReportBook */
/** @typedef {(where: EventTarget, what: string, does: (event: any) => void) => void} Listen */

const VIEWS = ["map", "lines"];

export class Report {
  /**
   * @param {HTMLElement} place
   * @param {ReportBook} book
   */
  constructor(place, book) {
    this.book = book;
    this.run = 0;
    this.opened = book.opened;
    this.view = book.view;
    this.overlaid = book.overlaid;
    this.token = /** @type {number | null} */ (null); // the chosen row and column of the head
    this.key = /** @type {number | null} */ (null);
    this.zoom = /** @type {any} */ (null);
    this.how = /** @type {any} */ ({});   // colours, chosen in the atlas
    this.least = /** @type {any} */ ({}); // lines that are drawn, chosen among them
    /** @type {Map<string, string>} */
    this.sayings = new Map(); // rows of a long text in words, those that were chosen
    this.ending = new AbortController();
    const on = listener(this.ending.signal);
    this.places = {
      chips: element("section", "tv"), atlas: element("div", "tv"),
      map: element("div", "tv"), lines: element("div", "tv"),
    };
    this.title = element("h2");
    this.missing = element("p", "missing");
    set(this.missing, "role", "status");
    this.chips = new Chips(this.places.chips, (name, value) => this.hear(name, value));
    this.atlas = new Atlas(this.places.atlas, (name, value) => this.hear(name, value));
    this.map = new HeadMap(this.places.map, (name, value) => this.hear(name, value));
    this.lines = new Lines(this.places.lines, (name, value) => this.hear(name, value));
    const names = [tell("Map"), tell("Lines")]; // of the VIEWS
    this.views = tabs(tell("Show as"), names, on, (n) => this.look(VIEWS[n]));
    this.views.choose(VIEWS.indexOf(this.view));
    this.build(place, on);
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.show());
  }

  end() {
    this.ending.abort();
    for (const view of [this.chips, this.atlas, this.map, this.lines]) view.end();
  }

  /**
   * @param {HTMLElement} place
   * @param {Listen} on
   */
  build(place, on) {
    const { book, places } = this, bar = element("div", "bar"), theme = element("button", "theme");
    if (book.runs.length > 1) {
      const names = book.runs.map(({ name }) => name);
      bar.append(tabs(tell("Which run"), names, on, (run) => this.compare(run)).place);
    }
    theme.type = "button";
    theme.textContent = tell("light or dark");
    on(theme, "click", () => {
      document.documentElement.dataset.theme = isDark(place) ? "light" : "dark";
      this.show();
    });
    bar.append(theme);
    const views = book.tiled ? [] : [this.views.place]; // lines need a shorter text
    const top = element("div", "top", this.title, ...views);
    const parts = {
      chips: places.chips,
      atlas: element("section", "card", places.atlas),
      head: element("section", "card", top, this.missing, places.map, places.lines),
    };
    const shown = Object.entries(parts).filter(([name]) => book.parts.includes(name));
    // Several blocks side by side need the whole width; the head stands below them.
    place.classList.toggle("wide", book.parts.includes("atlas") && book.atlas(0).blocks.length > 1);
    place.replaceChildren(bar, ...shown.map(([, part]) => part));
  }

  /**
   * What one of the pictures says, which in the app goes to Python.
   * @param {string} name
   * @param {any} value
   */
  hear(name, value) {
    if (name === "opened") this.open(value);
    else if (name === "overlaid") this.overlay(value);
    else if (name === "zoomed") this.zoom = value && [value.rows, value.columns];
    else if (name === "picked" && "side" in value) this.pickChip(value);
    else if (name === "picked") this.pick(value.row, value.column);
    else if (name === "drawn" && "top" in value) this.least = value;
    else if (name === "drawn") {
      this.how = value;
      this.showHead();
    }
  }

  // ---- what is chosen

  /** @param {number} run */
  compare(run) {
    this.run = run;
    this.show();
  }

  /** @param {string} view */
  look(view) {
    this.view = view;
    this.showHead();
  }

  /** @param {BookPlace} place */
  open(place) {
    const other = place[0] !== this.opened[0];
    if (other) [this.token, this.key, this.overlaid] = [null, null, []];
    this.opened = place;
    this.zoom = null;
    if (other) this.show(); // the atlas and the chips forget too
    else this.showHead();
  }

  /** Lay these heads over the opened one. @param {[number, number][]} places */
  overlay(places) {
    if (this.book.tiled) return;
    this.overlaid = places;
    this.view = "lines";
    this.views.choose(1);
    this.show();
  }

  /**
   * @param {number | null} token
   * @param {number | null} key
   */
  pick(token, key) {
    [this.token, this.key] = [token, key];
    this.showChips();
    this.showHead();
  }

  /** @param {{side: string, token: number}} value */
  pickChip({ side, token }) {
    const map = this.book.map(this.run, this.opened);
    const chip = this.book.chips.rows
      .find((/** @type {any} */ row) => row.name === side).chips[token];
    if (!map) return;
    const [row] = placesOn(map.rows, spotOf(chip.row));
    const [column] = placesOn(map.columns, spotOf(chip.column));
    if (row !== undefined) this.pick(map.rows.groups[row][0], this.key);
    else if (column !== undefined) this.pick(this.token, map.columns.groups[column][0]);
  }

  // ---- what is shown

  show() {
    const { book, opened, overlaid } = this;
    this.showChips();
    if (book.parts.includes("atlas")) {
      this.atlas.show({ ...book.atlas(this.run), opened, overlaid });
    }
    if (book.parts.includes("head")) this.showHead();
  }

  showChips() {
    if (!this.book.parts.includes("chips")) return;
    const rows = this.book.chips.rows.map((/** @type {any} */ row) => ({
      ...row,
      chips: row.chips.map((/** @type {any} */ chip) => ({ ...chip, on: this.isChosen(chip) })),
    }));
    this.chips.show({ ...this.book.chips, rows });
  }

  /** Whether a chip stands for the chosen row. @param {any} chip */
  isChosen(chip) {
    const common = this.book.runs[this.run].blocks[this.opened[0]];
    const spot = spotOf(chip.row);
    return Boolean(common && spot && this.token !== null
      && spot.sentence === common.map.rows.sentence && spot.tokens.includes(this.token));
  }

  showHead() {
    const [block, layer, head] = this.opened, lines = this.view === "lines";
    const data = lines ? this.dataOfLines() : this.dataOfMap();
    this.title.textContent = `${blockName(block)} L${layer} H${head}`;
    this.missing.hidden = Boolean(data);
    this.places.map.hidden = lines || !data;
    this.places.lines.hidden = !lines || !data;
    if (data) (lines ? this.lines : this.map).show(data);
    else {
      const kept = Object.keys(this.book.runs[this.run].heads).length;
      this.missing.textContent = describeMissing(layer, head, kept);
    }
  }

  dataOfLines() {
    const [block, layer, head] = this.opened, { token, key } = this;
    const further = this.overlaid.filter(([l, h]) => l !== layer || h !== head);
    const lines = this.book.lines(this.run, block, [[layer, head], ...further]);
    if (!lines) return null;
    const drawn = lines.heads.length, asked = 1 + further.length;
    const left = drawn === asked ? "" : describeLeftOut(!!this.book.head(this.run, this.opened)?.long);
    const note = [lines.note, left].filter(Boolean).join(" · ");
    return { ...lines, ...this.least, note, token, key };
  }

  dataOfMap() {
    const { token, key, zoom } = this, map = this.book.map(this.run, this.opened);
    if (!map) return null;
    const { ramp = map.ramp, gamma = map.gamma, threshold = map.threshold } = this.how;
    return { ...map, token, key, ramp, gamma, threshold, zoom, said: this.said() };
  }

  /** The chosen row in words. */
  said() {
    if (this.book.tiled) return this.saidOfLong();
    // Of a difference: what the head looks at now.
    const run = this.book.map(this.run, this.opened)?.change ? 0 : this.run;
    const plain = this.book.map(run, this.opened);
    if (this.token === null || !plain?.arrays.weights) return "";
    const [row] = placesOn(plain.rows, { sentence: plain.rows.sentence, tokens: [this.token] });
    return row === undefined ? "" : describeRow(plain, row);
  }

  /** The same of a long text, whose row is computed first. */
  saidOfLong() {
    const { book, run, opened, token } = this, head = book.longHead(run, opened);
    if (token === null || !head) return "";
    const name = [run, ...opened, token].join(" "), known = this.sayings.get(name);
    if (known !== undefined) return known;
    this.sayings.set(name, "");
    const { rows, columns } = book.runs[run].blocks[opened[0]].map;
    head.row(token).then((data) => {
      const one = { rows: { labels: [rows.labels[token]] }, columns, arrays: { weights: { data } } };
      this.sayings.set(name, describeRow(one, 0));
      if (this.token === token) this.showHead();
    });
    return "";
  }
}
