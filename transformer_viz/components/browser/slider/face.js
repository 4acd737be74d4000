// What of a slider is seen: its name and value, the track with the model's own value marked on it,
// what moving it does, and how fast the pictures follow.

import { element, set } from "../shared/dom.js";
import { tell } from "../shared/i18n.js";

/** @typedef {{name: string, title: string, values: string[], labels: string[], spoken: string[], chosen: number,
 *   own: number, help: string, disabled: boolean, line: string, seq: number,
 *   colours: import("../shared/colour.js").Colours}} SliderData  see slider.py */

const REMEMBERED = 5; // steps whose median is told

export class SliderFace {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    place.classList.add("tv-slider");
    this.input = element("input");
    Object.assign(this.input, { type: "range", id: "range", min: "0", step: "1" });
    this.label = element("label");
    this.tip = element("span", "tv-slider-tip");
    Object.assign(this.tip, { id: "tip", role: "tooltip" });
    this.help = element("button", "tv-slider-help", "?");
    this.help.type = "button";
    this.help.setAttribute("aria-describedby", "tip");
    this.speed = element("span", "tv-slider-speed");
    this.shown = element("output", "tv-slider-value");
    this.label.htmlFor = this.shown.htmlFor = "range";
    const head = element("div", "tv-slider-head", this.label, this.help, this.tip, this.speed,
      this.shown);
    place.append(head, element("div", "tv-slider-track", element("i"), this.input));
    for (const comes of ["pointerenter", "focus"]) {
      this.help.addEventListener(comes, () => this.tip.removeAttribute("data-away"));
    }
    /** @type {number[]} */
    this.times = [];
  }

  /** Hide the help until somebody comes to it anew; false where it is hidden. */
  putTipAway() {
    if (getComputedStyle(this.tip).display === "none") return false;
    this.tip.toggleAttribute("data-away", true);
    return true;
  }

  /**
   * Its words and its stops.
   * @param {SliderData} data
   */
  dress(data) {
    const last = data.values.length - 1;
    this.input.max = String(last);
    this.input.disabled = data.disabled;
    this.label.textContent = data.title;
    this.speed.title = tell("From a move of the slider to the second frame after the changed "
      + "pictures were drawn: the median of the last {count} steps.", { count: REMEMBERED });
    this.tip.textContent = data.help;
    set(this.help, "aria-label", tell("what {name} does", { name: data.title }));
    const back = tell("double click or Backspace: back to {value}",
      { value: data.labels[data.own] });
    set(this.input, "title", back);
    this.place.style.setProperty("--own", String(data.own / last));
  }

  /**
   * Where it stands.
   * @param {SliderData} data
   * @param {string} value
   */
  stand({ values, labels, spoken, own }, value) {
    const index = Math.max(0, values.indexOf(value));
    this.input.value = String(index);
    set(this.input, "aria-valuetext", spoken[index]);
    this.shown.textContent = labels[index];
    this.place.classList.toggle("tv-slider-moved", index !== own);
    this.place.style.setProperty("--at", String(index / (values.length - 1)));
  }

  /**
   * Tell how long the pictures of a step took.
   * @param {number} since  when the hand moved, in milliseconds of the page
   */
  time(since) {
    this.times = [...this.times.slice(1 - REMEMBERED), performance.now() - since];
    const middle = [...this.times].sort((a, b) => a - b)[this.times.length >> 1];
    this.speed.textContent = `${Math.round(middle)} ms`;
  }

  /**
   * Tell that this visit asked for more steps than the server gives.
   * @param {number} seconds  until it gives some again
   */
  late(seconds) {
    this.speed.textContent = tell("wait {seconds} s", { seconds: `${seconds}` });
  }
}
