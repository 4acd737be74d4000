// Back, play, on, and a slider over all steps of a text.

import { element, set } from "../shared/dom.js";
import { tell } from "../shared/i18n.js";

export class PlayBar {
  /**
   * @param {AbortSignal} signal
   * @param {{go: (step: number) => void, play: () => void}} does
   */
  constructor(signal, does) {
    this.step = 0;
    const press = (/** @type {string} */ name, /** @type {() => void} */ act) => {
      const button = element("button", name);
      button.type = "button";
      button.addEventListener("click", act, { signal });
      return button;
    };
    this.back = press("back", () => does.go(this.step - 1));
    this.play = press("play", does.play);
    this.on = press("on", () => does.go(this.step + 1));
    set(this.back, "data-step", "back");
    set(this.on, "data-step", "on");
    this.slider = element("input");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.addEventListener("input", () => does.go(Number(this.slider.value)), { signal });
    this.said = element("output");
    this.place = element("div", "bar", this.back, this.play, this.on, this.slider, this.said);
    set(this.place, "role", "group");
  }

  /**
   * @param {number} step
   * @param {number} length
   * @param {boolean} plays
   */
  show(step, length, plays) {
    this.step = step;
    this.back.textContent = "◀ " + tell("back");
    this.play.textContent = plays ? "❚❚ " + tell("pause") : "▶ " + tell("play");
    this.on.textContent = tell("step") + " ▶";
    this.back.disabled = step === 0;
    this.on.disabled = step === length - 1;
    this.slider.max = String(length - 1);
    this.slider.value = String(step);
    const words = tell("token {n} of {count}", { n: step + 1, count: length });
    set(this.place, "aria-label", tell("Steps: arrow keys go back and on, the space bar plays"));
    set(this.slider, "aria-label", tell("which token"));
    set(this.slider, "aria-valuetext", words);
    this.said.textContent = words;
  }
}
