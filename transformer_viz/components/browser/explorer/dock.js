// The controls of a widget besides its sliders: choices that Python names, the text, the way back.

import { element, listener, offer, set } from "../shared/dom.js";
import { tell } from "../shared/i18n.js";

/** @typedef {{name: string, title: string, options: string[][], chosen: string,
 *   disabled: boolean}} Choice */
/** @typedef {{choices: Choice[], source: string | null, changes: string, changed: boolean}} DockData */

const ABOVE = ["block", "view", "compare"]; // these stand over the pictures, the others below

export class Dock {
  /**
   * @param {HTMLElement} above
   * @param {HTMLElement} below
   * @param {AbortSignal} signal
   * @param {(name: string, value: any) => void} say
   */
  constructor(above, below, signal, say) {
    this.above = above;
    this.below = below;
    this.say = say;
    this.on = listener(signal);
    /** @type {Map<string, HTMLSelectElement>} */
    this.menus = new Map();
    this.source = element("input", "tv-source");
    this.source.type = "text";
    set(this.source, "aria-label", tell("Sentence"));
    this.given = "";
    this.on(this.source, "change", () => say("source", this.source.value));
    this.clean = element("button", "tv-clean", tell("clean run"));
    this.clean.type = "button";
    this.on(this.clean, "click", () => say("clean", null));
    this.changes = element("span", "tv-changes");
    above.append(this.source);
    below.append(element("div", "tv-done", this.changes, this.clean));
  }

  /** @param {DockData} data */
  show({ choices, source, changes, changed }) {
    for (const choice of choices) this.choice(choice);
    this.source.hidden = source === null;
    if (source !== null && source !== this.given) this.source.value = this.given = source;
    this.changes.textContent = changes;
    this.changes.classList.toggle("tv-changed", changed);
    this.clean.disabled = !changed;
  }

  /** The text as the model has it: what was typed could not be read. */
  forgetText() {
    this.source.value = this.given;
  }

  /** @param {Choice} choice */
  choice({ name, title, options, chosen, disabled }) {
    let menu = this.menus.get(name);
    if (!menu) {
      menu = element("select");
      const made = menu, label = element("label", "tv-choice", element("span", "", title), menu);
      label.dataset.name = name;
      this.on(menu, "change", () => this.say(name, made.value));
      if (ABOVE.includes(name)) this.above.append(label);
      else this.below.insertBefore(label, this.below.lastElementChild);
      this.menus.set(name, menu);
    }
    offer(menu, options, chosen);
    menu.disabled = disabled || options.length < 2;
  }
}
