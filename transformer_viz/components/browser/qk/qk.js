// How a query comes to look at a key: q and k, their product, and every step to the weight.

import { paletteOf } from "../shared/colour.js";
import { element, listener, set } from "../shared/dom.js";
import { Keys } from "./keys.js";
import { Strips } from "./strips.js";
import { figure } from "../shared/number_format.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("../shared/hover_link.js").Ruler} Ruler */
/** @typedef {{kind: string, name: string, formula: string, result: string, why: string}} Step */
/** @typedef {{q: {data: Float32Array}, k: {data: Float32Array}, product: {data: Float32Array},
 *   scores: {data: Float32Array}, exponentials: {data: Float32Array},
 *   weights: {data: Float32Array}, seen: {data: Uint8Array}}} QkArrays */
/** @typedef {{problem: string, title: string, rows: Ruler, columns: Ruler, token: number,
 *   key: number, row: string, column: string, said: string, steps: Step[], sinks: string,
 *   notes: string[], arrays: QkArrays, colours: import("../shared/colour.js").Colours}} QkData  components/qk.py says what each is */

export class QK {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say  "picked" {row, column}, the model's own tokens
   */
  constructor(place, say) {
    this.place = place;
    /** @type {QkData | null} */
    this.data = null;
    place.classList.add("tv-qk");
    this.problem = element("p", "tv-qk-problem");
    this.said = element("p", "tv-qk-said");
    this.steps = element("ol", "tv-qk-steps");
    this.notes = element("div", "tv-qk-notes");
    this.table = element("div", "tv-qk-table");
    this.fold = element("details", "", element("summary", "", tell("q and k as a table")), this.table);
    const vectors = element("section", "tv-qk-vectors"), keys = element("section", "tv-qk-keys");
    this.body = element("div", "tv-qk-body", this.said, vectors, this.steps, keys, this.notes,
      this.fold);
    place.replaceChildren(this.problem, this.body);
    this.strips = new Strips(vectors);
    this.keys = new Keys(keys, (key) => say("picked", { row: this.data?.token, column: key }));
    this.ending = new AbortController();
    listener(this.ending.signal)(this.fold, "toggle", () => this.tabulate());
  }

  end() {
    this.ending.abort();
    this.strips.end();
    this.keys.end();
  }

  /** @param {QkData} data */
  show(data) {
    const palette = paletteOf(this.place, data);
    this.data = data;
    this.problem.textContent = data.problem;
    this.problem.hidden = !data.problem;
    this.body.hidden = Boolean(data.problem);
    if (data.problem) return;
    const { q, k, product } = data.arrays;
    this.said.textContent = data.said;
    this.strips.show({ q: q.data, k: k.data, product: product.data }, data, palette);
    this.steps.replaceChildren(...data.steps.map(stepLine));
    this.keys.show(data);
    this.notes.replaceChildren(...data.notes.map((note) => element("p", "", note)));
    this.tabulate();
  }

  /** The vectors in numbers, as long as somebody looks. */
  tabulate() {
    if (!this.fold.open || !this.data) return;
    const { q, k, product } = this.data.arrays;
    const head = [tell("dimension"), "q", "k", "q × k"].map((text) => tableCell("th", text, "col"));
    const rows = Array.from(q.data, (value, at) => element("tr", "",
      tableCell("th", String(at + 1), "row"),
      ...[value, k.data[at], product.data[at]].map((number) => tableCell("td", figure(number)))));
    this.table.replaceChildren(element("table", "",
      element("thead", "", element("tr", "", ...head)), element("tbody", "", ...rows)));
  }
}

/**
 * One step: its name, its formula with numbers, the result, and why.
 * @param {Step} step
 */
function stepLine({ kind, name, formula, result, why }) {
  const made = element("li", "",
    element("span", "tv-qk-name", name), " ", element("span", "tv-qk-formula", formula), " ",
    element("span", "tv-qk-result", "= " + result), " ", element("span", "tv-qk-why", why));
  set(made, "data-kind", kind);
  return made;
}

/**
 * @param {"th" | "td"} kind
 * @param {string} text
 * @param {string} [scope]
 */
function tableCell(kind, text, scope) {
  const made = element(kind, "", text);
  if (scope) set(made, "scope", scope);
  return made;
}
