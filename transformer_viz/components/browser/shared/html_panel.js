// Ready HTML from Python that live frames can exchange. Elements that say whose word they are, with
// data-row="produced:4" or data-column="source:2", light up with the pictures, and can be chosen.

import { listener } from "./dom.js";
import { lit, meet, onLight, shine, spotOf } from "./hover_link.js";

const WORDS = "[data-row], [data-column]";

export class Panel {
  /**
   * @param {HTMLElement} place
   * @param {import("./streamlit_view.js").Say} say  "picked" {row, column}, each "produced:4" or null
   */
  constructor(place, say) {
    this.place = place;
    this.html = "";
    this.ending = new AbortController();
    const { signal } = this.ending, on = listener(signal);
    onLight(signal, () => this.light());
    on(place, "pointerover", (event) => this.point(event.target));
    on(place, "pointerleave", () => shine(null, null));
    on(place, "focusin", (event) => this.point(event.target));
    on(place, "focusout", () => shine(null, null));
    on(place, "click", (event) => {
      const word = event.target.closest(WORDS);
      if (word) say("picked", { row: spoken(word, "row"), column: spoken(word, "column") });
    });
    on(place, "keydown", (event) => {
      if (event.key === "Enter" && event.target.matches(WORDS)) event.target.click();
    });
  }

  end() {
    this.ending.abort();
  }

  /** @param {{html: string}} data  HTML whose words Python has escaped */
  show(data) {
    if (this.html !== data.html) this.place.innerHTML = data.html;
    this.html = data.html;
    this.light();
  }

  /** @param {Element} target */
  point(target) {
    const word = target.closest(WORDS);
    shine(spotOf(word && spoken(word, "row")), spotOf(word && spoken(word, "column")));
  }

  light() {
    const { row, column } = lit();
    for (const word of this.place.querySelectorAll(WORDS)) {
      const on = meet(row, spotOf(spoken(word, "row")))
        || meet(column, spotOf(spoken(word, "column")));
      word.classList.toggle("tv-lit", on);
    }
  }
}

/**
 * @param {Element} word
 * @param {"row" | "column"} side
 */
function spoken(word, side) {
  return word.getAttribute("data-" + side);
}
