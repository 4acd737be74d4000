// All texts that were weighed at a step, with their numbers: the tree in words.

import { dataNear, element, set } from "../shared/dom.js";
import { fateName } from "./words.js";
import { LEFT_OUT, logWords } from "./search.js";
import { tell } from "../shared/i18n.js";

const TAIL = 5; // tokens of a text that are named

export class PlayWeighed {
  /**
   * @param {AbortSignal} signal
   * @param {(one: number) => void} choose
   */
  constructor(signal, choose) {
    this.summary = element("summary");
    this.table = element("table");
    this.drawn = "";
    this.place = element("details", "weighed", this.summary, this.table);
    /** @type {import("./play.js").Moment | null} */
    this.moment = null;
    this.place.addEventListener("toggle", () => this.moment && this.draw(this.moment), { signal });
    this.table.addEventListener("click", (event) => {
      const one = dataNear(event, "tbody tr", "one");
      if (one !== undefined) choose(Number(one));
    }, { signal });
  }

  /** @param {import("./play.js").Moment} moment */
  draw(moment) {
    this.moment = moment;
    const { search, line, step } = moment, column = search.columns[step];
    this.summary.textContent = tell("All {count} texts that were weighed at token {step}, with their numbers",
      { count: column.length, step: step + 1 });
    if (this.place.open) this.build(search, step);
    for (const row of this.table.tBodies[0]?.rows ?? []) {
      const on = Number(row.dataset.one) === line[step];
      row.classList.toggle("on", on);
      for (const open of row.getElementsByTagName("button")) set(open, "aria-pressed", String(on));
    }
  }

  /**
   * @param {import("./search.js").PlaySearch} search
   * @param {number} step
   */
  build(search, step) {
    const drawn = JSON.stringify([search.data.about, step, tell("place")]), column = search.columns[step];
    if (this.drawn === drawn) return; // a line that has the keyboard would lose it
    this.drawn = drawn;
    const heads = [tell("place"), tell("text"), tell("log-probability"), tell("normalised score"), tell("what became of it")];
    const top = element("tr", "", ...heads.map((text) => element("th", "", text)));
    const lines = column.map((one) => this.line(search, one));
    this.table.replaceChildren(element("thead", "", top), element("tbody", "", ...lines));
  }

  /**
   * @param {import("./search.js").PlaySearch} search
   * @param {number} one
   */
  line(search, one) {
    const tokens = search.line(one), tail = tokens.slice(-TAIL).map((at) => search.name(at));
    const open = element("button", "", (tokens.length > TAIL ? "… " : "") + tail.join(" "));
    open.type = "button";
    const cells = [`${search.placeOf(one) + 1}`, open, logWords(search.totals[one], 3),
      logWords(search.scores[one], 3), fateName(search.fates[one])];
    const left = search.fates[one] === LEFT_OUT ? "left" : "";
    const made = element("tr", left, ...cells.map((cell) => element("td", "", cell)));
    made.dataset.one = String(one);
    return made;
  }
}
