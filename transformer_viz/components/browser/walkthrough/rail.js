// The whole chain as a row of stations beside the open one: whose word it is, and where we are.

import { element, fit, listener, modified, set } from "../shared/dom.js";
import { symbolName } from "./formula.js";

/** @typedef {{short: string, title: string}} Stop */

export class Rail {
  /**
   * @param {HTMLElement} place
   * @param {(step: number) => void} go
   */
  constructor(place, go) {
    /** @type {HTMLButtonElement[]} */
    this.buttons = [];
    this.word = element("strong", "tv-in-word");
    this.where = element("span", "tv-in-where");
    this.reads = element("span", "tv-in-reads");
    this.list = element("div", "tv-in-stops");
    set(this.list, "role", "toolbar");
    set(this.list, "aria-orientation", "vertical");
    place.append(element("div", "tv-in-margin", this.word, this.reads, this.where), this.list);
    this.ending = new AbortController();
    const on = listener(this.ending.signal);
    on(this.list, "click", (event) => {
      const at = this.buttons.findIndex((button) => button.contains(event.target));
      if (at >= 0) go(at);
    });
    on(this.list, "keydown", (event) => this.key(event));
  }

  end() {
    this.ending.abort();
  }

  /**
   * @param {{row: string, reads: string, label: string}} words
   * @param {Stop[]} stops
   * @param {number} step
   */
  show(words, stops, step) {
    this.word.textContent = words.row;
    this.reads.textContent = words.reads;
    this.where.textContent = words.label;
    fit(this.buttons, stops.length, this.list);
    this.buttons.forEach((button, n) => {
      if (button.title !== stops[n].title) {
        button.title = stops[n].title;
        set(button, "aria-label", `${n + 1}: ${stops[n].title}`);
        button.replaceChildren(element("i"), symbolName(stops[n].short));
      }
      button.tabIndex = n === step ? 0 : -1;
      button.classList.toggle("tv-in-done", n < step);
      set(button, "aria-current", n === step ? "step" : "false");
    });
    this.uncover(this.buttons[step]);
  }

  /**
   * Scroll the list, and nothing around it, so that a stop can be seen.
   * @param {HTMLElement | undefined} stop
   */
  uncover(stop) {
    if (!stop) return;
    const { list } = this, { offsetLeft: left, offsetWidth: width } = stop;
    if (left < list.scrollLeft) list.scrollLeft = left;
    else if (left + width > list.scrollLeft + list.clientWidth) {
      list.scrollLeft = left + width - list.clientWidth;
    }
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const here = this.buttons.findIndex((button) => button === event.target);
    if (here < 0 || modified(event)) return;
    const last = this.buttons.length - 1;
    /** @type {Record<string, number>} */
    const ways = {
      ArrowUp: Math.max(0, here - 1), ArrowDown: Math.min(last, here + 1), Home: 0, End: last,
    };
    if (!(event.key in ways)) return;
    event.preventDefault();
    this.buttons[ways[event.key]].click();
    this.buttons[ways[event.key]].focus();
  }
}
