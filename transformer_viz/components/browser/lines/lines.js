// Heads as lines between words: point at a word, and only its lines stay.
//
// Data: the blob of lines.py (see LinesData). Says: "picked" {row, column}, a click or Enter;
// "drawn" {top, threshold}, once the hand rests. Each side of words is one stop of the Tab key.

import { paletteOf } from "../shared/colour.js";
import { element, listener, modified, rested, set } from "../shared/dom.js";
import { chooseLinks, linksOf } from "./links.js";
import { LinesPicture } from "./picture.js";
import { LinesTools, showLegend, tableOf } from "./tools.js";
import { describeChoice, describeWord } from "./words.js";
import { lit, onLight, placesOn, shine, spotOn } from "../shared/hover_link.js";
import { tell } from "../shared/i18n.js";
import { Pending } from "../shared/pending.js";

/** @typedef {import("./links.js").LinesData} LinesData */
/** @typedef {import("./picture.js").Word} Word */

const LINES_REST = 400;      // milliseconds without a change until Python hears of it
const LEAP = 10;       // words that a page key goes
const SMALLEST = 0.05; // changes below this are noise, and stay pale

export class Lines {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    this.data = /** @type {LinesData} */ (/** @type {unknown} */ (null)); // until it is shown
    /** @type {import("./links.js").Link[]} */
    this.drawn = [];
    this.pointed = "";                                // the word that the pointer is at
    /** @type {Word | null} */
    this.cursor = null; // where the keyboard is, while it is here
    this.reached = [0, 0];                            // and the word that each side was left at
    this.pending = new Pending();                     // choices of how many lines
    this.ending = new AbortController();
    const { signal } = this.ending;
    this.told = rested(LINES_REST, (/** @type {import("./tools.js").Wanted} */ wanted) => {
      this.pending.tell(wanted);
      this.say("drawn", wanted);
    });
    this.tools = new LinesTools(signal, (wanted) => this.want(wanted), () => this.tabulate());
    this.picture = new LinesPicture(signal);
    this.sides = [
      tell("words that look: arrow keys move, Enter chooses"),
      tell("words that are looked at: arrow keys move, Enter chooses"),
    ].map((name, n) => listbox(name, `tv-lines-word-${n}`));
    this.legend = element("ul", "legend");
    this.box = element("div", "box", ...this.sides, this.picture.place);
    this.said = element("p", "said");
    set(this.said, "aria-live", "polite");
    this.count = element("p", "quiet");
    this.note = element("p", "quiet");
    this.table = element("div", "table");
    this.place.classList.add("tv-lines");
    this.place.replaceChildren(this.tools.place, this.legend, this.box, this.said, this.count,
      this.note, this.table);
    this.listen(signal);
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const on = listener(signal), { picture } = this;
    onLight(signal, () => this.data && this.light());
    on(picture.place, "pointermove", (event) => this.point(picture.wordUnder(event)));
    on(picture.place, "pointerleave", () => this.point(null));
    on(picture.place, "click", (event) => this.pick(picture.wordUnder(event)));
    this.sides.forEach((side, n) => {
      on(side, "focus", () => this.reach({ side: n, place: this.reached[n] }));
      on(side, "blur", () => this.reach(null));
      on(side, "keydown", (event) => this.key(event, n));
    });
  }

  end() {
    this.ending.abort();
    this.picture.end();
    this.told.end();
    if (this.pointed || this.cursor) shine(null, null);
  }

  // ---- what is drawn

  /**
   * The links that are drawn, those in focus, and where the words stand.
   * @returns {{links: import("./links.js").Link[], focus: import("./links.js").Link[],
   *   layout: ReturnType<LinesPicture["describe"]>}}
   */
  describe() {
    return { links: this.drawn, focus: this.picture.focus.links, layout: this.picture.describe() };
  }

  /** @param {LinesData} data */
  show(data) {
    this.data = data;
    this.palette = paletteOf(this.place, data);
    const { top, threshold } = data;
    if (this.pending.hear({ top, threshold })) this.tools.show({ top, threshold });
    this.reached = this.reached.map((place, n) => Math.min(place, this.words(n).length - 1));
    this.place.classList.toggle("several", data.heads.length > 1); // more is said of them
    this.box.style.height = `var(--tv-tall, min(${data.height}px, var(--tv-most, ${data.height}px)))`;
    this.note.textContent = [data.caption, data.note].filter(Boolean).join(" · ");
    this.name();
    this.draw();
  }

  /** @param {number} side */
  words(side) {
    return this.ruler(side).labels;
  }

  /** @param {number} side */
  ruler(side) {
    return side ? this.data.columns : this.data.rows;
  }

  /** The places of the chosen words, null where none is chosen or it is not shown. */
  chosen() {
    return [this.data.token, this.data.key].map((token, side) => {
      const ruler = this.ruler(side);
      if (token === null) return null;
      return placesOn(ruler, { sentence: ruler.sentence, tokens: [token] })[0] ?? null;
    });
  }

  /** @param {import("./tools.js").Wanted} wanted */
  want(wanted) {
    this.pending.choose();
    this.draw();
    this.told.ask(wanted);
  }

  /** Choose the links, draw them, and say which they are. */
  draw() {
    const { data, palette, tools: { wanted } } = this;
    if (!palette) return;
    const choice = chooseLinks(data, wanted.top, wanted.threshold), { changes, heads } = palette;
    const brush = {
      colours: data.change ? [changes[0], changes[changes.length - 1]] : heads,
      change: data.change,
      heads: data.heads.length,
      most: data.change ? Math.max(SMALLEST, choice.most) : 1,
      least: 0,
    };
    this.drawn = choice.links;
    this.count.textContent = describeChoice(data, choice, wanted.top, wanted.threshold);
    showLegend(this.legend, data, brush, palette);
    this.tabulate();
    this.picture.show({ data, links: this.drawn, brush, palette }, this.focus());
    this.speak();
  }

  tabulate() {
    this.table.replaceChildren(...(this.tools.isOpen() ? [tableOf(this.data, this.drawn)] : []));
  }

  // ---- what is in focus

  /** The words that are lit anywhere, or else chosen, and their lines. */
  focus() {
    const { data, cursor } = this, { row, column } = lit(), chosen = this.chosen();
    const under = [placesOn(data.rows, row), placesOn(data.columns, column)];
    const pointed = under.some((places) => places.length > 0);
    const words = pointed ? under : chosen.map((place) => (place === null ? [] : [place]));
    return { words, pointed, links: linksOf(this.drawn, words[0], words[1]), chosen, cursor };
  }

  light() {
    this.picture.light(this.focus());
    this.speak();
  }

  /** Say in words where the lines of the words in focus go. */
  speak() {
    const words = this.picture.focus.words.flatMap((places, side) =>
      places.slice(0, 1).map((place) => describeWord(this.data, this.drawn, side, place)));
    this.said.textContent = words.join(" ") || tell("Point at a word to see its lines alone.");
  }

  // ---- pointing and choosing

  /** @param {Word | null} word */
  point(word) {
    const name = word ? `${word.side} ${word.place}` : "";
    if (name === this.pointed) return;
    this.pointed = name;
    this.picture.place.style.cursor = word ? "pointer" : "";
    this.shine(word ?? this.cursor);
  }

  /** @param {Word | null} word */
  shine(word) {
    if (!word) shine(null, null);
    else if (word.side) shine(null, spotOn(this.data.columns, word.place));
    else shine(spotOn(this.data.rows, word.place), null);
  }

  /**
   * Choose a word, or let go of it; the choice on the other side stays.
   * @param {Word | null} word
   */
  pick(word) {
    if (!word) return;
    const { token, key } = this.data, { side, place } = word;
    const picked = this.chosen()[side] === place ? null : this.ruler(side).groups[place][0];
    this.say("picked", side ? { row: token, column: picked } : { row: picked, column: key });
  }

  // ---- keyboard

  /** @param {Word | null} word */
  reach(word) {
    this.cursor = word;
    if (word) {
      this.reached[word.side] = word.place;
      this.name();
      this.picture.uncover(word);
    }
    this.shine(word);
  }

  /** What a screen reader hears of each side: the word that the keyboard is at. */
  name() {
    this.sides.forEach((side, n) => {
      const option = /** @type {HTMLElement} */ (side.firstElementChild), place = this.reached[n];
      const word = this.words(n)[place] ?? "";
      const unread = n === 1 && (this.data.unread ?? []).includes(place);
      option.textContent = unread ? tell("{word}, read by nobody", { word }) : word;
      set(option, "aria-setsize", String(this.words(n).length));
      set(option, "aria-posinset", String(place + 1));
      set(option, "aria-selected", String(this.chosen()[n] === place));
    });
  }

  /**
   * @param {KeyboardEvent} event
   * @param {number} side
   */
  key(event, side) {
    if (modified(event)) return;
    const here = this.reached[side], last = this.words(side).length - 1;
    /** @type {Record<string, number>} */
    const ways = {
      ArrowUp: here - 1, ArrowLeft: here - 1, ArrowDown: here + 1, ArrowRight: here + 1,
      PageUp: here - LEAP, PageDown: here + LEAP, Home: 0, End: last,
    };
    if (event.key === "Enter" || event.key === " ") this.pick({ side, place: here });
    else if (event.key in ways) {
      this.reach({ side, place: Math.min(last, Math.max(0, ways[event.key])) });
    } else return;
    event.preventDefault();
  }
}

/**
 * A side of the picture for the keyboard and for screen readers: of its many words it holds only
 * the one that the keyboard is at.
 * @param {string} name
 * @param {string} id
 * @returns {HTMLElement}
 */
function listbox(name, id) {
  const option = element("span"), side = element("div", "side", option);
  const words = {
    role: "listbox", tabindex: "0", "aria-label": name, "aria-activedescendant": id,
  };
  for (const [key, value] of Object.entries(words)) set(side, key, value);
  set(option, "role", "option");
  set(option, "id", id);
  return side;
}
