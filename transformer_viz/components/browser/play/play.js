// A translation, word by word: what was written so far, what the model looked at for this word,
// what else it could have written, and, of a beam, the tree of all texts that were tried.
//
// Data: the blob of play.py (see PlayData). Says: "moved" {played, branch}, once the hand rests;
// "looked" {layer, head, pooled}. Keys: ← → step, the space bar plays.

import { paletteOf } from "../shared/colour.js";
import { element, listener, modified, rested } from "../shared/dom.js";
import { shine } from "../shared/hover_link.js";
import { Pending } from "../shared/pending.js";
import { PlayBar } from "./bar.js";
import { PlayFate } from "./fate.js";
import { PlayGuess } from "./guess.js";
import { PlayHistory } from "./history.js";
import { PlayRow } from "./row.js";
import { PlaySearch } from "./search.js";
import { PlayText } from "./text.js";
import { PlayTree } from "./tree.js";

/** @typedef {import("./search.js").PlayData} PlayData */
/** @typedef {import("./row.js").Look} Look */
/** @typedef {{search: PlaySearch, line: number[], step: number, look: Look, head: number | null,
 *   palette: import("../shared/colour.js").Palette}} Moment  what is shown: the text and its step */

const PLAY_REST = 350; // milliseconds without a step until Python hears of it
// Shows without its answer after which a step of the hand is forgotten: Python gave its run up, or
// set the step right.
const PLAY_WAIT = 3;
/** @type {unknown} */
const UNSHOWN = null; // known once data are shown
const PLAY_PACE = 1200; // from a word to the next
const OWN_KEYS = "input, select, textarea, [role='application'], [contenteditable]";

export class Play {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    this.search = /** @type {PlaySearch} */ (UNSHOWN);
    this.palette = /** @type {import("../shared/colour.js").Palette} */ (UNSHOWN);
    this.step = 0;
    this.chosen = 0;
    this.pending = new Pending(PLAY_WAIT); // steps, each with its text
    this.look = /** @type {Look} */ (UNSHOWN); // what the boxes above the row are set to
    this.looks = new Pending(PLAY_WAIT);
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.pace = undefined;
    this.ending = new AbortController();
    const { signal } = this.ending;
    this.told = rested(PLAY_REST, () => this.tell());
    this.bar = new PlayBar(signal, { go: (step) => this.go(step), play: () => this.toggle() });
    this.text = new PlayText(signal, (step) => this.go(step));
    this.row = new PlayRow(signal, (look) => this.lookAt(look));
    this.guess = new PlayGuess();
    this.history = new PlayHistory((step) => this.go(step));
    this.fate = new PlayFate(signal, (one) => this.choose(one));
    this.tree = new PlayTree(signal, (one) => this.choose(one));
    place.classList.add("tv-play");
    place.tabIndex = -1; // a click anywhere brings the keys here
    place.replaceChildren(
      element("section", "top", this.bar.place, this.text.place),
      element("div", "pair", this.row.place, this.guess.place),
      this.tree.place,
      element("div", "pair", this.history.place, this.fate.place),
    );
    const on = listener(signal);
    on(place, "keydown", (event) => this.key(event));
    on(document, "keydown", (event) => this.afar(event));
  }

  end() {
    this.ending.abort();
    this.rest();
    this.told.end();
    this.history.end();
    this.tree.end();
    shine(null, null);
  }

  // ---- data

  /** @param {PlayData} data */
  show(data) {
    const other = this.search?.data.about !== data.about;
    this.search = new PlaySearch(data);
    this.palette = paletteOf(this.place, data);
    if (other) {
      this.rest();
      this.pending.forget();
      this.looks.forget();
    }
    const { played, chosen, layer, head, pooled } = data;
    if (this.looks.hear([layer, head, pooled])) this.look = { layer, head, pooled };
    if (this.pending.hear([played, chosen])) Object.assign(this, { step: played, chosen });
    this.step = Math.min(this.step, this.length - 1);
    this.place.dataset.way = data.way;
    this.tree.show(this.search);
    this.fate.show(this.search);
    this.draw();
  }

  /** How many tokens the shown text has. */
  get length() {
    return this.search.steps[this.chosen] + 1;
  }

  /** @returns {Moment} */
  get moment() {
    const { search, step, palette, look } = this, line = search.line(this.chosen);
    return { search, line, step, look, head: look.pooled ? null : look.head, palette };
  }

  /**
   * The step, the text that is shown, by its last token, and the rows of its history.
   * @returns {{step: number, chosen: number, history: (number | null)[][]}}
   */
  describe() {
    return { step: this.step, chosen: this.chosen, history: this.history.describe() };
  }

  draw() {
    const { moment } = this;
    this.bar.show(this.step, this.length, this.pace !== undefined);
    for (const part of [this.text, this.row, this.guess, this.tree, this.history, this.fate]) {
      part.draw(moment);
    }
  }

  // ---- what the hand does

  /** @param {number} step */
  go(step) {
    const wanted = Math.max(0, Math.min(this.length - 1, step));
    if (wanted === this.step) return;
    this.step = wanted;
    if (wanted === this.length - 1) this.rest();
    this.draw();
    this.told.ask();
  }

  /**
   * Show the text that came of a candidate, at its step.
   * @param {number} one
   */
  choose(one) {
    this.rest();
    this.chosen = this.search.leafOf(one);
    this.step = this.search.steps[one];
    this.draw();
    this.told.ask();
  }

  /** @param {Partial<Look>} look */
  lookAt(look) {
    this.look = { ...this.look, ...look };
    const { layer, head, pooled } = this.look;
    this.looks.tell([layer, head, pooled]);
    this.say("looked", this.look);
    this.draw();
  }

  toggle() {
    if (this.pace !== undefined) this.rest();
    else {
      if (this.step === this.length - 1) this.go(0);
      this.pace = setInterval(() => this.go(this.step + 1), PLAY_PACE);
    }
    this.draw();
  }

  /** Play no further. */
  rest() {
    clearInterval(this.pace);
    this.pace = undefined;
  }

  tell() {
    const { step, chosen, search } = this;
    const branch = chosen === search.data.best[0] ? "" : search.address(chosen);
    this.pending.tell([step, chosen]);
    this.say("moved", { played: step, branch });
  }

  // ---- keyboard

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.defaultPrevented || modified(event) || target.matches(OWN_KEYS)) return;
    /** @type {Record<string, () => void>} */
    const does = {
      ArrowLeft: () => this.go(this.step - 1), ArrowRight: () => this.go(this.step + 1),
      Home: () => this.go(0), End: () => this.go(this.length - 1),
    };
    const presses = target.matches("button, summary"); // the space bar does so by itself
    const act = event.key === " " && !presses ? () => this.toggle() : does[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /**
   * A key while nothing on the page has the keyboard; a presentation has arrows of its own.
   * @param {KeyboardEvent} event
   */
  afar(event) {
    if (document.activeElement && document.activeElement !== document.body) return;
    const presented = document.documentElement.hasAttribute("data-present");
    if (presented ? event.key === " " : ["ArrowLeft", "ArrowRight", " "].includes(event.key)) {
      this.key(event);
    }
  }
}
