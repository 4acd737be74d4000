// What is written so far, a chip a token; the room for what is still to come is kept.

import { element, fit, set } from "../shared/dom.js";
import { tell } from "../shared/i18n.js";

export class PlayText {
  /**
   * @param {AbortSignal} signal
   * @param {(step: number) => void} go
   */
  constructor(signal, go) {
    this.start = element("span", "start");
    this.chips = element("span", "chips");
    this.place = element("div", "text", this.start, this.chips);
    this.before = element("p", "before");
    this.place.append(this.before);
    /** @type {HTMLButtonElement[]} */
    this.buttons = [];
    this.chips.addEventListener("click", ({ target }) => {
      const at = this.buttons.findIndex((button) => button === target);
      if (at >= 0) go(at);
    }, { signal });
  }

  /** @param {import("./play.js").Moment} moment */
  draw({ search, line, step }) {
    const { start, before } = search.data;
    this.start.textContent = start;
    this.start.hidden = !start;
    fit(this.buttons, line.length, this.chips);
    this.buttons.forEach((button, n) => {
      const name = search.name(line[n]);
      if (button.textContent !== name) button.textContent = name;
      button.className = n === step ? "chip now" : "chip";
      button.style.visibility = n > step ? "hidden" : "";
      button.tabIndex = -1; // the slider goes there by keys
      set(button, "aria-current", n === step ? "step" : "false");
    });
    this.before.hidden = before === null;
    this.before.textContent = before === null ? ""
      : tell("The clean run writes: {text}", { text: before || "…" });
  }
}
