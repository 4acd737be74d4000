// All rows of the shown text up to this step, as the map that is used for heads everywhere.

import { element } from "../shared/dom.js";
import { HeadMap } from "../head_map/map.js";
import { rowWords } from "./row.js";
import { tell } from "../shared/i18n.js";

/** Rows of steps that are still to come cannot be pointed at. */
class GrowingMap extends HeadMap {
  reached = 0;

  /**
   * @override
   * @param {{row: number, column: number} | null} at
   * @param {boolean} [keyed]
   */
  point(at, keyed = false) {
    super.point(at && at.row <= this.reached ? at : null, keyed);
  }
}

export class PlayHistory {
  /** @param {(step: number) => void} go */
  constructor(go) {
    /** @type {Float32Array[]} */
    this.rows = []; // of the map
    this.question = element("h3");
    this.box = element("div");
    this.place = element("section", "history", this.question, this.box);
    this.map = new GrowingMap(this.box, (name, value) => {
      if (name === "picked" && value.row !== null) go(value.row);
    });
  }

  end() {
    this.map.end();
  }

  /** The weights of each row; null where there is none yet. */
  describe() {
    return this.rows.map((row) => [...row].map((weight) => (Number.isNaN(weight) ? null : weight)));
  }

  /** @param {import("./play.js").Moment} moment */
  draw({ search, line, step, head }) {
    const { data } = search, names = search.keyNames(line), keys = names.length;
    this.question.textContent = tell("And for the tokens before?");
    const weights = new Float32Array(line.length * keys).fill(NaN);
    for (let row = 0; row <= step; row++) {
      weights.fill(0, row * keys, (row + 1) * keys).set(search.row(line[row], head), row * keys);
    }
    const labels = line.map((one, row) => (row <= step ? search.name(one) : ""));
    const there = search.row(line[step], head).length; // of a text that grows, later tokens are not
    const masked = new Uint8Array(weights.length);
    for (let row = 0; row <= step; row++) {
      masked.fill(1, row * keys + search.row(line[row], head).length, (row + 1) * keys);
    }
    this.rows = line.map((_, row) => weights.subarray(row * keys, (row + 1) * keys));
    this.map.reached = step;
    this.map.show(mapOf({ data, labels, names: names.map((name, key) => (key < there ? name : "")),
      weights, masked, step, head }));
  }
}

/**
 * What `HeadMap` is given of a text's rows.
 * @param {{data: import("./search.js").PlayData, labels: string[], names: string[],
 *   weights: Float32Array, masked: Uint8Array, step: number, head: number | null}} shown
 * @returns {import("../head_map/sheet.js").MapData}
 */
function mapOf({ data, labels, names, weights, masked, step, head }) {
  const own = (/** @type {string[]} */ all) => all.map((_, n) => [n]);
  const shape = [labels.length, names.length], row = weights.subarray(step * shape[1], (step + 1) * shape[1]);
  return {
    colours: data.colours, title: `${data.block} L${data.layer}${head === null ? "" : ` H${head}`}`,
    rows: { sentence: "played", labels, groups: own(labels) },
    columns: { sentence: "source", labels: names, groups: own(names) },
    height: data.height, change: false, old: step + 1, most: null, token: step, key: null,
    ramp: data.ramp, gamma: 1, threshold: 0, zoom: null, stride: [1, 1], region: null, fixed: true,
    said: `${tell("“{word}”", { word: labels[step] })}: ${rowWords(row, names)}`, numbers: "",
    direction: tell("each row: the step that produced its token"), note: "",
    arrays: {
      weights: { shape, data: weights },
      masked: { shape, data: masked },
    },
  };
}
