// The row of the softmax: every key with its score, exp(score − max) and weight; one is chosen.

import { activeAround, element, fit, listener, modified, set } from "../shared/dom.js";
import { lit, onLight, placesOn, shine, spotOn } from "../shared/hover_link.js";
import { figure } from "../shared/number_format.js";
import { tell } from "../shared/i18n.js";

const LISTED = 200; // keys; of a longer row the strongest ones

/** @typedef {import("./qk.js").QkData} QkData */

export class Keys {
  /**
   * @param {HTMLElement} place
   * @param {(key: number) => void} pick
   */
  constructor(place, pick) {
    this.pick = pick;
    /** @type {QkData | null} */
    this.data = null;
    /** @type {number[]} */
    this.listed = [];
    /** @type {HTMLButtonElement[]} */
    this.buttons = [];
    const heads = [tell("key"), tell("score"), tell("exp(score − max)"), tell("weight")];
    this.heads = element("div", "tv-qk-heads", ...heads.map((head) => element("span", "", head)));
    set(this.heads, "aria-hidden", "true");
    this.list = element("div", "tv-qk-list");
    set(this.list, "role", "toolbar");
    set(this.list, "aria-orientation", "vertical");
    this.sums = element("p", "tv-qk-sums");
    place.append(this.heads, this.list, this.sums);
    this.ending = new AbortController();
    const { signal } = this.ending, on = listener(signal);
    onLight(signal, () => this.light());
    on(this.list, "pointerover", (event) => this.point(event.target));
    on(this.list, "pointerleave", () => shine(null, null));
    on(this.list, "focusin", (event) => this.point(event.target));
    on(this.list, "focusout", () => shine(null, null));
    on(this.list, "click", (event) => {
      const at = this.where(event.target);
      if (at >= 0) this.pick(this.listed[at]);
    });
    on(this.list, "keydown", (event) => this.key(event));
  }

  end() {
    this.ending.abort();
  }

  /** @param {QkData} data */
  show(data) {
    const chosen = this.data?.key;
    this.data = data;
    const { weights } = data.arrays;
    this.listed = strongestKeys(weights.data, data.key);
    fit(this.buttons, this.listed.length, this.list);
    const most = weights.data.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    this.buttons.forEach((button, n) => dressKey(button, data, this.listed[n], most));
    set(this.list, "aria-label", tell("keys of {word}", { word: data.row }));
    this.sums.textContent = rowSums(data, this.listed);
    const active = activeAround(this.list);
    const focused = this.buttons.findIndex((button) => button === active);
    const here = this.listed.indexOf(data.key);
    this.reach(focused >= 0 ? focused : here);
    if (chosen !== data.key) uncover(this.list, this.buttons[here]);
    this.light();
  }

  /** @param {EventTarget | null} target */
  where(target) {
    return target instanceof Node ? this.buttons.findIndex((button) => button.contains(target)) : -1;
  }

  /**
   * The one key that the Tab key stops at.
   * @param {number} at
   */
  reach(at) {
    this.buttons.forEach((button, n) => { button.tabIndex = n === at ? 0 : -1; });
  }

  /** @param {EventTarget | null} target */
  point(target) {
    const at = this.where(target);
    if (at < 0 || !this.data) return;
    const { rows, columns, token } = this.data;
    shine(spotOn(rows, token), spotOn(columns, this.listed[at]));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const here = this.where(event.target), last = this.buttons.length - 1;
    if (here < 0 || modified(event)) return;
    /** @type {Record<string, number>} */
    const ways = { ArrowUp: here - 1, ArrowDown: here + 1, Home: 0, End: last };
    const to = ways[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to < 0 || to > last) return;
    this.reach(to);
    this.buttons[to].focus();
  }

  light() {
    if (!this.data) return;
    const on = new Set(placesOn(this.data.columns, lit().column));
    this.buttons.forEach((button, n) => button.classList.toggle("lit", on.has(this.listed[n])));
  }
}

/**
 * The keys that are listed, in the order of the sentence.
 * @param {Float32Array} weights
 * @param {number} chosen
 */
function strongestKeys(weights, chosen) {
  const all = Array.from(weights, (_, key) => key);
  if (all.length <= LISTED) return all;
  const size = (/** @type {number} */ key) => key === chosen ? Infinity : Math.abs(weights[key]);
  return all.sort((a, b) => size(b) - size(a)).slice(0, LISTED).sort((a, b) => a - b);
}

/**
 * One key: its word, its numbers, and a bar behind its weight.
 * @param {HTMLButtonElement} button
 * @param {QkData} data
 * @param {number} key
 * @param {number} most
 */
function dressKey(button, data, key, most) {
  if (!button.firstChild) {
    button.append(...[0, 1, 2, 3].map(() => element("span")));
    button.append(element("i"));
  }
  const { scores, exponentials, weights, seen } = data.arrays;
  const label = data.columns.labels[key], hidden = !seen.data[key];
  const score = hidden ? tell("hidden") : figure(scores.data[key]);
  const weight = weights.data[key];
  const part = exponentials.data[key].toFixed(4);
  [label, score, part, weight.toFixed(4).replace("-", "−")].forEach((text, n) => {
    const span = button.children[n];
    if (span.textContent !== text) span.textContent = text;
  });
  const bar = /** @type {HTMLElement} */ (button.lastElementChild);
  bar.style.width = (most ? 100 * Math.abs(weight) / most : 0) + "%";
  button.classList.toggle("hidden", hidden);
  set(button, "aria-pressed", String(key === data.key));
  set(button, "aria-label",
    tell("{label}: score {score}, weight {weight}", { label, score, weight: figure(weight) }));
}

/**
 * What the columns add up to, and what is not listed.
 * @param {QkData} data
 * @param {number[]} listed
 */
function rowSums(data, listed) {
  const { exponentials, weights } = data.arrays;
  const add = (/** @type {number} */ total, /** @type {number} */ value) => total + value;
  const all = weights.data.reduce(add, 0);
  const exp = figure(exponentials.data.reduce(add, 0));
  const words = [tell("sums of {count} keys: exp {exp}", { count: weights.data.length, exp }),
    data.sinks, tell("weight {weight}", { weight: figure(all) })];
  const left = weights.data.length - listed.length;
  if (left > 0) {
    const shown = listed.reduce((total, key) => total + weights.data[key], 0);
    words.push(tell("{count} weaker keys are not listed: together {weight}",
      { count: left, weight: figure(all - shown) }));
  }
  return words.filter(Boolean).join(" · ");
}

/**
 * Scroll a list, and nothing around it, so that one of its entries can be seen.
 * @param {HTMLElement} list
 * @param {HTMLElement | undefined} entry
 */
function uncover(list, entry) {
  if (!entry) return;
  const top = entry.offsetTop, bottom = top + entry.offsetHeight; // the list is positioned
  if (top < list.scrollTop) list.scrollTop = top;
  else if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
}
