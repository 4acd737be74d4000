// Below the tiles of an atlas: what its colours mean, with the numbers at both ends.

import { colouring, metricsOf, numberOf, placesIn, rangeOf } from "./heads.js";
import { element, pen } from "../shared/dom.js";
import { thresholdWords } from "./tools.js";
import { tell } from "../shared/i18n.js";
import { signed } from "../shared/number_format.js";

/** @typedef {import("./heads.js").AtlasData} AtlasData */

const BAR_WIDE = 120;
const BAR_HIGH = 12;

export class AtlasLegend {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.bar = element("canvas");
    pen(this.bar, BAR_WIDE, BAR_HIGH); // its own size is larger, and would move the tiles later
    this.least = element("span", "tv-end");
    this.most = element("span", "tv-end");
    this.words = element("span", "tv-said");
    place.append(this.least, this.bar, this.most, this.words);
  }

  /**
   * @param {AtlasData} data
   * @param {import("./heads.js").How} how
   * @param {{pooled: number[][], legend: Uint32Array}} picture  for each block how many tokens a
   *   cell holds, down and across; and the colours from the lowest amount to the highest
   */
  show(data, how, { pooled, legend }) {
    const [least, most] = ends(data, how);
    this.least.textContent = least;
    this.bar.hidden = !least;
    this.most.textContent = least ? most : tell("no numbers");
    this.words.textContent = [
      ...scaleWords(data, how, most),
      ...(colouring(data, how.scale) ? [] : poolWords(data, pooled)), data.words,
    ].filter(Boolean).join(" · ");
    this.paint(legend);
  }

  /** @param {Uint32Array} colours */
  paint(colours) {
    const sheet = new OffscreenCanvas(colours.length, 1);
    const image = new ImageData(colours.length, 1);
    new Uint32Array(image.data.buffer).set(colours);
    /** @type {OffscreenCanvasRenderingContext2D} */ (sheet.getContext("2d"))
      .putImageData(image, 0, 0);
    pen(this.bar, BAR_WIDE, BAR_HIGH).drawImage(sheet, 0, 0, BAR_WIDE, BAR_HIGH);
  }
}

/**
 * The numbers at both ends of the bar; empty where no head has one.
 * @param {AtlasData} data
 * @param {import("./heads.js").How} how
 * @returns {[string, string]}
 */
function ends(data, how) {
  const metric = colouring(data, how.scale), range = metric && rangeOf(data, metric);
  if (metric && range) {
    const [low, high] = range.map((number) => signed(number, metric.digits, false));
    return [low, high];
  }
  if (data.limit) return [signed(-data.limit, 2, false), signed(data.limit, 2, true)];
  const largest = placesIn(data).map((place) => numberOf(data, place, "strongest"))
    .filter((number) => !Number.isNaN(number));
  if (!largest.length) return ["", ""];
  const most = signed(Math.max(...largest), 2, false), least = signed(Math.min(...largest), 2, false);
  const one = how.scale === "common" || most === least;
  if (data.robust && how.scale !== "common") return ["0", tell("98th percentile")];
  return ["0", one ? most : tell("{least} to {most}", { least, most })];
}

/**
 * @param {AtlasData} data
 * @param {import("./heads.js").How} how
 * @param {string} most
 * @returns {string[]}
 */
function scaleWords(data, how, most) {
  const said = [], metric = colouring(data, how.scale);
  if (metric) return [tell("colour: {metric}", { metric: metric.heading }), rankWords(data, how.sort)];
  if (data.limit) said.push(tell("change, one scale"));
  else if (!most) return [rankWords(data, how.sort)];
  else if (how.scale === "common") said.push(tell("one scale 0 … {most}", { most }));
  else said.push(tell("each head on its own scale"));
  const weight = thresholdWords(how.threshold);
  if (how.threshold) said.push(tell("below {weight} left blank", { weight }));
  said.push(rankWords(data, how.sort));
  return said;
}

/**
 * @param {AtlasData} data
 * @param {string} sort
 */
function rankWords(data, sort) {
  return metricsOf(data).find(({ name }) => name === sort)?.ranked
    ?? tell("rows are layers, columns are heads");
}

/**
 * @param {AtlasData} data
 * @param {number[][]} pooled
 * @returns {string[]}
 */
function poolWords(data, pooled) {
  const said = pooled.map(([down, across]) => down * across === 1 ? ""
    : data.limit
      ? tell("a cell holds up to {down} × {across} weights, the largest change is shown",
        { down, across })
      : tell("a cell holds up to {down} × {across} weights, the largest is shown",
        { down, across }));
  if (new Set(said).size === 1) return said[0] ? [said[0]] : [];
  return said.flatMap((words, n) => (words ? [`${data.blocks[n].title}: ${words}`] : []));
}
