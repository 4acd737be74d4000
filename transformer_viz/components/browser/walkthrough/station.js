// One stage of the chain: its title, its formula, why it is there, and its pictures.

import { element, elementsIn, listener, set } from "../shared/dom.js";
import { Formula, plainSymbol, symbolName } from "./formula.js";
import { KeyTable } from "./keys.js";
import { Legend } from "./legend.js";
import { Vectors } from "./vectors.js";
import { tell } from "../shared/i18n.js";

/** @typedef {{symbol: string, text: string, value: string, open: string}} Fact */
/** @typedef {import("./vectors.js").VectorPanel} VectorPanel */
/** @typedef {import("./keys.js").KeyPanel} KeyPanel */
/** @typedef {{name: string, short: string, title: string, formula: string, why: string,
 *   symbols: Record<string, import("./formula.js").FormulaSymbol>, facts: Fact[],
 *   panels: (VectorPanel | KeyPanel)[]}} StationData */

const PANEL_KINDS = { vectors: Vectors, keys: KeyTable };

export class Station {
  /**
   * @param {HTMLElement} place
   * @param {(address: string) => void} open
   * @param {(key: number | null) => void} light
   */
  constructor(place, open, light) {
    this.place = place;
    this.name = "";
    /** @type {any[]} */
    this.panels = [];
    this.ending = new AbortController();
    this.title = element("h3", "tv-in-title");
    this.title.tabIndex = -1;
    this.formula = element("div", "tv-in-formula");
    this.facts = element("p", "tv-in-facts");
    this.why = element("p", "tv-in-why");
    this.said = element("p", "tv-in-said");
    set(this.said, "aria-live", "polite");
    this.legend = new Legend();
    this.pictures = element("div", "tv-in-pictures");
    const below = element("div", "tv-in-reading", this.said, this.legend.place);
    place.append(this.title, this.why,
      element("div", "tv-in-line", this.formula, this.facts, below), this.pictures);
    /** @type {import("./formula.js").Hands} */
    this.hands = {
      point: (symbol) => this.point(symbol), read: (text) => this.read(text), open, light,
    };
    this.written = new Formula(this.formula, this.hands, this.ending.signal);
    const on = listener(this.ending.signal);
    on(this.facts, "click", (event) => {
      const address = event.target.closest("button")?.dataset.address;
      if (address) open(address);
    });
  }

  end() {
    this.ending.abort();
    this.panels.forEach((panel) => panel.end());
  }

  /**
   * @param {StationData} data
   * @param {Record<string, import("../shared/blob.js").Block>} arrays
   * @param {import("./cells.js").CellColours} colours
   * @param {string} opened
   */
  show(data, arrays, colours, opened) {
    this.title.textContent = data.title;
    this.why.textContent = data.why;
    this.written.show(data.formula, data.symbols);
    this.facts.replaceChildren(...data.facts.map((fact) => factOf(fact, opened)));
    this.facts.hidden = !data.facts.length;
    const forms = data.panels.map(({ form }) => form).join();
    if (this.name !== data.name || this.forms !== forms) this.build(data, forms);
    this.legend.show(data.panels, colours);
    data.panels.forEach((panel, n) => this.panels[n].show(panel, arrays, colours, opened));
  }

  /**
   * @param {StationData} data
   * @param {string} forms
   */
  build(data, forms) {
    this.panels.forEach((panel) => panel.end());
    this.pictures.replaceChildren();
    this.name = data.name;
    this.forms = forms;
    this.panels = data.panels.map(({ form }) => {
      const place = this.pictures.appendChild(element("div", "tv-in-panel"));
      return new PANEL_KINDS[form](place, this.hands);
    });
    this.read(tell("Point at a symbol or a number; click a number to see how it is made."));
  }

  /** @param {string | null} symbol */
  point(symbol) {
    for (const one of elementsIn(this.place, "[data-symbol]")) {
      one.classList.toggle("tv-in-lit", one.dataset.symbol === symbol);
    }
  }

  /** @param {string} text */
  read(text) {
    if (this.said.textContent !== text) this.said.textContent = text;
  }
}

/**
 * A single number of a stage, which can be opened where a sum is behind it.
 * @param {Fact} fact
 * @param {string} opened
 */
function factOf({ symbol, text, value, open }, opened) {
  const button = element("button", "tv-in-number", value);
  button.type = "button";
  button.dataset.address = open;
  set(button, "aria-pressed", String(opened === open));
  set(button, "aria-label", `${plainSymbol(text)}: ${value}`);
  const number = open ? button : element("span", "tv-in-number", value);
  const made = element("span", "tv-in-fact", symbolName(text), " = ", number);
  made.dataset.symbol = symbol;
  return made;
}
