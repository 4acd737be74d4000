// A station's formula: each symbol can be pointed at, and its numbers in the picture light up.

import { dataNear, element, elementsIn, listener, set } from "../shared/dom.js";

/** @typedef {{text: string, says: string, numbers: string}} FormulaSymbol
 *   text: "W_Q" stands with Q lowered; says: what it is; numbers: the first of them, or "" */
/** @typedef {{point: (symbol: string | null) => void, read: (text: string) => void,
 *   open: (address: string) => void, light: (key: number | null) => void}} Hands
 *   what the parts of a station tell it */

/**
 * A symbol's name with what stands behind "_" lowered and behind "^" raised.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function symbolName(text) {
  const made = element("i", "tv-in-name");
  for (const [whole] of text.matchAll(/[_^][A-Za-z0-9]+|[^_^]+/g)) {
    const tag = whole[0] === "_" ? "sub" : whole[0] === "^" ? "sup" : "";
    made.append(tag ? element(tag, "", whole.slice(1)) : whole);
  }
  return made;
}

/**
 * The same name as plain text, for labels that are read out.
 * @param {string} text
 */
export function plainSymbol(text) {
  return text.replaceAll(/[_^]/g, " ");
}

export class Formula {
  /**
   * @param {HTMLElement} place
   * @param {Hands} hands
   * @param {AbortSignal} signal
   */
  constructor(place, hands, signal) {
    this.place = place;
    this.written = "";
    /** @type {Record<string, FormulaSymbol>} */
    this.symbols = {};
    const on = listener(signal);
    const over = (/** @type {Event} */ event) => {
      const name = dataNear(event, "[data-symbol]", "symbol") ?? null;
      hands.point(name);
      if (name) hands.read(this.saying(name));
    };
    on(place, "pointerover", over);
    on(place, "focusin", over);
    for (const what of ["pointerleave", "focusout"]) on(place, what, () => hands.point(null));
  }

  /**
   * @param {string} formula  with symbols as {name}
   * @param {Record<string, FormulaSymbol>} symbols
   */
  show(formula, symbols) {
    this.symbols = symbols;
    const written = formula + Object.values(symbols).map(({ text }) => text).join();
    if (written !== this.written) {
      this.written = written;
      this.place.replaceChildren(...formula.split(/(\{\w+\})/).filter(Boolean).map((part) =>
        part[0] === "{" ? this.symbol(part.slice(1, -1)) : part));
    }
    for (const button of elementsIn(this.place, "[data-symbol]")) {
      const name = button.dataset.symbol ?? "";
      set(button, "aria-label", `${plainSymbol(symbols[name].text)}: ${this.saying(name)}`);
    }
  }

  /** @param {string} name */
  symbol(name) {
    const made = element("button", "tv-in-symbol", symbolName(this.symbols[name].text));
    made.type = "button";
    made.dataset.symbol = name;
    return made;
  }

  /** @param {string} name */
  saying(name) {
    const { says, numbers } = this.symbols[name];
    return numbers ? `${says}: ${numbers}` : says;
  }
}
