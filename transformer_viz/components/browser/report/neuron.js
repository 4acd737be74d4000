// A page of its own: how every query comes to look at every key, head by head.

import { element, listener, offer, set } from "../shared/dom.js";
import { isDark } from "../shared/colour.js";
import { afterPainting } from "../shared/streamlit_view.js";
import { read } from "../shared/blob.js";
import { learn, tell } from "../shared/i18n.js";
import { QK } from "../qk/qk.js";
import { inflated } from "./book.js";
import { blockName } from "./words.js";

class NeuronPage {
  /**
   * @param {HTMLElement} place
   * @param {any} book  bertviz/neuron_view.py says what is in it
   */
  constructor(place, book) {
    this.book = book;
    this.head = 0; // of the heads in the file
    this.row = Math.min(1, book.shape[0] - 1);
    this.key = -1; // the one that the row looks at most
    this.ending = new AbortController();
    const on = listener(this.ending.signal);
    this.heads = element("select");
    offer(this.heads, book.heads.map((/** @type {any} */ [block, layer, head], /** @type {number} */ n) =>
      [String(n), `${blockName(block)} L${layer} H${head}`]), "0");
    on(this.heads, "change", () => {
      [this.head, this.key] = [Number(this.heads.value), -1];
      this.show();
    });
    const theme = element("button", "theme", tell("light or dark"));
    theme.type = "button";
    on(theme, "click", () => {
      document.documentElement.dataset.theme = isDark(place) ? "light" : "dark";
      this.show();
    });
    this.words = element("div", "words");
    set(this.words, "role", "toolbar");
    set(this.words, "aria-label", tell("The word that looks"));
    on(this.words, "click", (event) => {
      const at = this.buttons.indexOf(event.target);
      if (at >= 0) this.look(at, -1);
    });
    this.buttons = this.cell(0, 0).rows.labels.map((/** @type {string} */ label) => {
      const button = element("button", "", label);
      button.type = "button";
      return this.words.appendChild(button);
    });
    const card = element("section", "card"), sum = card.appendChild(element("div", "tv"));
    this.sum = new QK(sum, (_, { row, column }) => this.look(row, column));
    const name = element("label", "", tell("head"), " ", this.heads);
    place.classList.add("wide");
    place.replaceChildren(element("div", "bar", name, theme), this.words, card);
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.show());
  }

  /**
   * The data of a pair of words in the chosen head.
   * @param {number} row
   * @param {number} column
   */
  cell(row, column) {
    const at = row * this.book.shape[1] + column, { arrays } = this.book;
    const [from, to] = arrays[`ends${this.head}`].data.slice(at, at + 2);
    return read(arrays[`cells${this.head}`].data.slice(from, to));
  }

  /**
   * @param {number} row
   * @param {number} key  -1: the one that the row looks at most
   */
  look(row, key) {
    [this.row, this.key] = [row, key];
    this.show();
  }

  show() {
    const weights = this.cell(this.row, 0).arrays.weights.data;
    const best = weights.indexOf(Math.max(...weights));
    this.buttons.forEach((/** @type {HTMLElement} */ button, /** @type {number} */ n) =>
      set(button, "aria-pressed", String(n === this.row)));
    this.sum.show(this.cell(this.row, this.key < 0 ? best : this.key));
  }
}

async function startNeuron() {
  const place = document.getElementById("tv-report"), holder = document.getElementById("tv-data");
  if (!place || !holder) return; // these modules are also read where there is no such page
  try {
    const book = read(await inflated(holder));
    learn(book);
    new NeuronPage(place, book).show();
    afterPainting(() => place.setAttribute("data-painted", "1"));
  } catch (error) {
    place.textContent = String(error);
  }
}

startNeuron();
