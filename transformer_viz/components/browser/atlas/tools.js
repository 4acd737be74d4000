// The controls of an atlas: order, scale, colour map, gamma, threshold; and a table instead.

import { element, listener, offer, set } from "../shared/dom.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./heads.js").How} How */

const scaleNames = () => ({ head: tell("per head"), common: tell("common") });
/** @type {() => Record<string, string>} colour maps that are plain words; the others are names */
const rampNames = () => ({ ink: tell("ink"), grey: tell("grey") });
const toolHelp = () => ({
  sort: tell("Heads by layer, or ranked by a number of theirs, the highest first."),
  scale: tell("Weights, each head by its own largest or all on one scale; or a number of each head."),
  ramp: tell("The colours of amounts."),
  gamma: tell("Below 1 weak weights are drawn darker, above 1 paler."),
  threshold: tell("Weights below it are left blank."),
});

export class AtlasTools {
  /**
   * @param {HTMLElement} place
   * @param {AbortSignal} signal
   * @param {(part: Partial<How>) => void} change
   * @param {(asTable: boolean) => void} swap
   */
  constructor(place, signal, change, swap) {
    const on = listener(signal), help = toolHelp();
    this.sort = choice(place, tell("sort"), "sort", help.sort);
    this.scale = choice(place, tell("colour"), "scale", help.scale);
    this.ramp = choice(place, tell("palette"), "ramp", help.ramp);
    this.gamma = range(place, "gamma", tell("gamma"), help.gamma, -8, 8);
    this.threshold = range(place, "threshold", tell("threshold"), help.threshold, 0, 100);
    this.table = place.appendChild(element("button", "tv-swap", tell("as a table")));
    this.table.type = "button";
    set(this.table, "aria-pressed", "false");
    on(this.sort, "change", () => change({ sort: this.sort.value }));
    on(this.scale, "change", () => change({ scale: this.scale.value }));
    on(this.ramp, "change", () => change({ ramp: this.ramp.value }));
    on(this.gamma.input, "input", () => change({ gamma: gammaAt(Number(this.gamma.input.value)) }));
    on(this.threshold.input, "input", () =>
      change({ threshold: thresholdAt(Number(this.threshold.input.value)) }));
    on(this.table, "click", () => {
      const asTable = this.table.getAttribute("aria-pressed") !== "true";
      set(this.table, "aria-pressed", String(asTable));
      swap(asTable);
    });
  }

  /**
   * @param {How} how
   * @param {string[]} ramps  names of colour maps
   * @param {boolean} change  whether changes are drawn: on one scale, in their own colours
   * @param {import("./heads.js").Metric[]} metrics  by which heads can be sorted
   */
  show(how, ramps, change, metrics) {
    const sorts = metrics.map(({ name, title }) => [name, title]);
    offer(this.sort, [["layer", tell("layer")], ...sorts], how.sort);
    const scales = [...Object.entries(scaleNames()), ...(change ? [] : sorts)];
    const scale = scales.some(([name]) => name === how.scale) ? how.scale : "head";
    offer(this.scale, scales, change ? "common" : scale);
    offer(this.ramp, ramps.map((name) => [name, rampNames()[name] ?? name]), how.ramp);
    this.scale.disabled = this.ramp.disabled = change;
    point(this.gamma, 4 * Math.log2(how.gamma), String(how.gamma));
    point(this.threshold, 100 * Math.sqrt(how.threshold), thresholdWords(how.threshold));
  }
}

/**
 * The power at a step of the slider: a quarter to four, 1 in the middle.
 * @param {number} step
 */
function gammaAt(step) {
  return Number((2 ** (step / 4)).toFixed(2));
}

/**
 * The weight at a step of the slider: finer steps where weights are small.
 * @param {number} step
 */
function thresholdAt(step) {
  return Number(((step / 100) ** 2).toFixed(4));
}

/**
 * A threshold as it is read: two digits that say something.
 * @param {number} threshold
 */
export function thresholdWords(threshold) {
  return threshold ? String(Number(threshold.toPrecision(2))) : tell("off");
}

/**
 * @param {HTMLElement} place
 * @param {string} name
 * @param {string} part
 * @param {string} help
 * @returns {HTMLSelectElement}
 */
function choice(place, name, part, help) {
  const select = element("select");
  select.name = part;
  place.append(labelled(name, help, select));
  return select;
}

/**
 * @param {HTMLElement} place
 * @param {string} name
 * @param {string} title  what stands beside it
 * @param {string} help
 * @param {number} least
 * @param {number} most
 * @returns {{input: HTMLInputElement, value: HTMLElement}}
 */
function range(place, name, title, help, least, most) {
  const input = element("input"), value = element("span", "tv-value");
  Object.assign(input, { type: "range", name, min: String(least), max: String(most), step: "1" });
  value.setAttribute("aria-hidden", "true"); // the slider says it
  place.append(labelled(title, help, input, value));
  return { input, value };
}

/**
 * @param {string} name
 * @param {string} help
 * @param {...HTMLElement} controls
 */
function labelled(name, help, ...controls) {
  const label = element("label", "", element("span", "", name), ...controls);
  label.title = help;
  return label;
}

/**
 * @param {{input: HTMLInputElement, value: HTMLElement}} slider
 * @param {number} step
 * @param {string} words
 */
function point({ input, value }, step, words) {
  input.value = String(Math.round(step));
  set(input, "aria-valuetext", words);
  value.textContent = words;
}
