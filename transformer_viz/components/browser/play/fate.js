// Why the shown text won or lost, and all texts that ended, the best first.

import { dataNear, element, set } from "../shared/dom.js";
import { fateWords } from "./words.js";
import { ENDED, logWords } from "./search.js";
import { tell } from "../shared/i18n.js";

export class PlayFate {
  /**
   * @param {AbortSignal} signal
   * @param {(one: number) => void} choose
   */
  constructor(signal, choose) {
    this.question = element("h3");
    this.why = element("div", "why");
    set(this.why, "aria-live", "polite");
    this.table = element("table");
    this.drawn = "";
    this.place = element("section", "fate", this.question, this.why, this.table);
    this.table.addEventListener("click", (event) => {
      const one = dataNear(event, "tr", "one");
      if (one !== undefined) choose(Number(one));
    }, { signal });
  }

  /** @param {import("./search.js").PlaySearch} search */
  show(search) {
    const { about, best, written } = search.data, drawn = about + tell("place");
    if (this.drawn === drawn) return; // a line that has the keyboard would lose it
    this.drawn = drawn;
    const heads = [tell("place"), tell("text"), tell("tokens"), tell("log-probability"), tell("normalised score")];
    const lines = best.map((one, n) => {
      const open = element("button", "", written[n] || "…");
      open.type = "button";
      const ends = search.fates[one] === ENDED ? "" : " …";
      const line = element("tr", "", element("td", "", `${n + 1}`), element("td", "", open, ends),
        element("td", "", `${search.steps[one] + 1}`),
        element("td", "", logWords(search.totals[one])),
        element("td", "", logWords(search.scores[one], 3)));
      line.dataset.one = String(one);
      return line;
    });
    this.table.replaceChildren(element("thead", "", element("tr", "", ...heads.map((text) => {
      const head = element("th", "", text);
      head.scope = "col";
      return head;
    }))), element("tbody", "", ...lines));
  }

  /** @param {import("./play.js").Moment} moment */
  draw({ search, line }) {
    const one = line[line.length - 1], { best } = search.data;
    this.question.textContent = one === best[0] ? tell("Why this text?") : tell("Why did this text lose?");
    this.why.replaceChildren(...fateWords(search, one).map((text) => element("p", "", text)));
    for (const row of this.table.tBodies[0].rows) {
      const shown = Number(row.dataset.one) === one;
      row.classList.toggle("on", shown);
      for (const open of row.getElementsByTagName("button")) set(open, "aria-pressed", String(shown));
    }
  }
}
