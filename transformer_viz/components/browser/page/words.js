// The model's words are no words of the page: no translation, and a language of their own.

import { set } from "../shared/dom.js";

/** Elements with words of the source, and of the target. */
const SIDES = [
  ".st-key-text input, .st-key-text textarea, .st-key-second input, .st-key-token, .st-key-key",
  ".st-key-target input, .st-key-target textarea",
];
const EXAMPLES = ".st-key-examples button"; // sentences to try are English

export class WordMarks {
  constructor() {
    /** @type {string[]} */
    this.languages = [];
    this.watch = new MutationObserver(() => this.mark());
    this.watch.observe(document.body, { childList: true, subtree: true });
  }

  end() {
    this.watch.disconnect();
  }

  /** @param {string[]} languages  of source and target; one that nobody knows is empty */
  show(languages) {
    this.languages = languages;
    this.mark();
  }

  mark() {
    SIDES.forEach((query, side) => markAll(query, this.languages[side] ?? ""));
    markAll(EXAMPLES, "en");
  }
}

/**
 * @param {string} query
 * @param {string} language
 */
function markAll(query, language) {
  for (const one of document.querySelectorAll(query)) {
    set(one, "translate", "no");
    set(one, "lang", language);
  }
}
