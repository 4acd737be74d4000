// The search of a long map: a word is typed, its rows and columns light up, and the map goes there.

import { element, set } from "../shared/dom.js";
import { tell } from "../shared/i18n.js";
import { counted } from "../shared/number_format.js";
import { firstFrom, findsOf, placeOf } from "./word_finds.js";

/** @typedef {import("./word_finds.js").Find} Find */

export class WordSearch {
  /**
   * @param {{from: () => number, mark: () => void,
   *   go: (place: {row: number, column: number}) => void}} map
   *   from: the first column that is shown
   * @param {AbortSignal} signal
   */
  constructor(map, signal) {
    this.map = map;
    /** @type {import("./map_words.js").Words | null} */
    this.words = null;
    /** @type {Find[]} */
    this.finds = [];
    this.at = -1; // which of them the map went to
    this.input = element("input");
    Object.assign(this.input, { type: "search", placeholder: tell("find a word"), spellcheck: false });
    set(this.input, "aria-label", tell("find a word"));
    set(this.input, "autocomplete", "off");
    set(this.input, "enterkeyhint", "search");
    this.count = element("span", "count");
    set(this.count, "role", "status");
    const press = (/** @type {string} */ text, /** @type {string} */ name,
      /** @type {number} */ by) => {
      const button = element("button", "", text);
      button.type = "button";
      button.title = name;
      set(button, "aria-label", name);
      button.addEventListener("click", () => this.step(by), { signal });
      return button;
    };
    this.back = press("‹", tell("previous match (Shift and Enter)"), -1);
    this.on = press("›", tell("next match (Enter)"), 1);
    this.place = element("div", "search", this.input, this.back, this.on, this.count);
    set(this.place, "role", "search");
    this.input.addEventListener("input", () => this.look(), { signal });
    this.input.addEventListener("keydown", (event) => this.press(event), { signal });
    this.tell();
  }

  /**
   * The words of the map that is shown; what was found in another one is looked for again.
   * @param {import("./map_words.js").Words | null} words
   */
  show(words) {
    if (words === this.words) return;
    this.words = words;
    this.look();
  }

  look() {
    this.finds = this.words ? findsOf(this.words, this.input.value) : [];
    this.at = -1;
    this.tell();
    this.map.mark();
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.isComposing) return;
    if (event.key === "Enter") {
      this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && this.input.value) {
      this.input.value = "";
      this.look();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {number} by  1: to the next one, -1: to the one before */
  step(by) {
    const { finds } = this, count = finds.length;
    if (!count) return;
    if (this.at < 0) {
      const first = firstFrom(finds, this.map.from());
      this.at = by > 0 ? first : (first - 1 + count) % count;
    } else {
      this.at = (this.at + by + count) % count;
    }
    this.tell();
    this.map.go(placeOf(finds[this.at]));
    this.map.mark();
  }

  /** How many were found, and which of them the map went to. */
  tell() {
    const { finds, at, words } = this, { length: count } = finds, wanted = this.input.value.trim();
    const said = !wanted || !words ? ""
      : !count ? tell("no such word")
        : at < 0 ? tell("{count} found", { count: counted(count) })
          : tell("{number} of {count}", { number: counted(at + 1), count: counted(count) });
    if (this.count.textContent !== said) this.count.textContent = said;
    for (const button of [this.back, this.on]) set(button, "aria-disabled", String(!count));
  }

  /** The find that the map went to. */
  get now() {
    return this.finds[this.at] ?? null;
  }
}
