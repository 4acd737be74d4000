// The tree of a beam search: it grows a column at each step. A click shows the text that came of a
// token; arrow keys up and down go to the others of its step.

import { dataNear, element, set } from "../shared/dom.js";
import { fateName } from "./words.js";
import { CUT, ENDED, LEFT_OUT, logWords, NOBODY } from "./search.js";
import { neighbourOf, treeLayout } from "./tree_layout.js";
import { PlayWeighed } from "./weighed.js";
import { tell } from "../shared/i18n.js";

const SVG = "http://www.w3.org/2000/svg";

export class PlayTree {
  /**
   * @param {AbortSignal} signal
   * @param {(one: number) => void} choose
   */
  constructor(signal, choose) {
    this.choose = choose;
    this.question = element("h3");
    this.note = element("p", "quiet");
    this.edges = document.createElementNS(SVG, "svg");
    this.out = element("span", "out");
    this.sheet = element("div", "sheet", this.edges, this.out);
    this.frame = element("div", "frame", this.sheet);
    this.weighed = new PlayWeighed(signal, choose);
    this.place = element("section", "tree", this.question, this.frame, this.note, this.weighed.place);
    /** @type {Map<number, HTMLButtonElement>} */
    this.buttons = new Map();
    this.drawn = "";
    /** @type {import("./play.js").Moment | null} */
    this.moment = null;
    this.frame.addEventListener("click", (event) => {
      const one = dataNear(event, "button", "one");
      if (one !== undefined) choose(Number(one));
    }, { signal });
    this.frame.addEventListener("keydown", (event) => this.key(event), { signal });
    this.watch = new ResizeObserver(() => this.moment && this.draw(this.moment));
    this.watch.observe(this.frame);
  }

  end() {
    this.watch.disconnect();
  }

  /** @param {import("./search.js").PlaySearch} search */
  show(search) {
    this.place.hidden = search.data.way !== "beam";
  }

  /** @param {import("./play.js").Moment} moment */
  draw(moment) {
    this.moment = moment;
    const { search, line, step } = moment;
    if (this.place.hidden) return;
    this.question.textContent = tell("Which texts were tried?");
    this.note.textContent = tell("Below each token: the log-probability of the text up to it. At each step every text weighs its {beam} most probable tokens; the {beam} best of all are kept, and one that ends gives its place up.",
      { beam: search.data.beam });
    this.build(search, line[line.length - 1]);
    this.mark(search, line, step);
    this.weighed.draw(moment);
  }

  /**
   * Put all tokens into their places, where that is not done already.
   * @param {import("./search.js").PlaySearch} search
   * @param {number} shown
   */
  build(search, shown) {
    const letters = parseFloat(getComputedStyle(this.frame).fontSize), room = this.frame.clientWidth;
    const kept = search.fates[shown] === LEFT_OUT ? shown : NOBODY;
    const drawn = JSON.stringify([search.data.about, tell("left out"), room, letters, kept]);
    if (!room || drawn === this.drawn) return;
    this.drawn = drawn;
    const layout = treeLayout(search, room, letters, shown);
    this.layout = layout;
    this.sheet.style.width = layout.width + "px";
    this.sheet.style.height = layout.height + "px";
    this.out.textContent = tell("left out");
    this.out.style.top = layout.line - letters * 1.55 + "px";
    set(this.edges, "width", String(layout.width));
    set(this.edges, "height", String(layout.height));
    this.edges.replaceChildren(...layout.edges.map(({ path }) => {
      const made = document.createElementNS(SVG, "path");
      made.setAttribute("d", path);
      return made;
    }));
    for (const button of this.buttons.values()) button.remove();
    this.buttons = new Map(layout.nodes.map((node) => [node.one, this.button(search, node, layout)]));
    this.sheet.append(...this.buttons.values());
  }

  /**
   * @param {import("./search.js").PlaySearch} search
   * @param {import("./tree_layout.js").TreeNode} node
   * @param {import("./tree_layout.js").TreeLayout} layout
   * @returns {HTMLButtonElement}
   */
  button(search, { one, left, top }, { wide, high }) {
    const total = logWords(search.totals[one]), score = logWords(search.scores[one], 3);
    const made = element("button", "", element("b", "", search.name(one)), element("span", "", total));
    const place = { left: left + "px", top: top + "px", width: wide + "px", height: high + "px" };
    Object.assign(made.style, place);
    made.type = "button";
    made.dataset.one = String(one);
    made.title = tell("“{word}”, {fate}: log-probability {total}, score {score}",
      { word: search.name(one), fate: fateName(search.fates[one]), total, score });
    return made;
  }

  /**
   * Which tokens are there by now, on the shown text, alive, or left out.
   * @param {import("./search.js").PlaySearch} search
   * @param {number[]} line
   * @param {number} step
   */
  mark(search, line, step) {
    const { layout } = this;
    if (!layout) return;
    const on = new Set(line), { fates, steps, winners } = search;
    for (const [one, button] of this.buttons) {
      const fate = fates[one], words = [on.has(one) ? "on" : "", one === line[step] ? "now" : "",
        fate === LEFT_OUT ? "left" : winners.has(one) ? "" : "dead", fate === ENDED || fate === CUT ? "ended" : ""];
      button.className = words.filter(Boolean).join(" ");
      button.style.visibility = steps[one] > step ? "hidden" : "";
      button.tabIndex = one === line[step] ? 0 : -1;
    }
    layout.edges.forEach(({ to }, n) => {
      const left = fates[to] === LEFT_OUT, away = steps[to] > step || (left && steps[to] !== step && !on.has(to));
      const words = [on.has(to) ? "on" : "", left ? "left" : winners.has(to) ? "" : "dead", away ? "away" : ""];
      set(this.edges.children[n], "class", words.filter(Boolean).join(" "));
    });
    this.uncover(step, layout);
  }

  /**
   * Bring a column into view.
   * @param {number} step
   * @param {import("./tree_layout.js").TreeLayout} layout
   */
  uncover(step, { column }) {
    const { scrollLeft, clientWidth } = this.frame, left = step * column;
    if (left < scrollLeft) this.frame.scrollLeft = left;
    const right = left + 1.3 * column - clientWidth;
    if (right > scrollLeft) this.frame.scrollLeft = right;
    this.out.style.left = this.frame.scrollLeft + "px";
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const one = Number(dataNear(event, "[data-one]", "one"));
    if (by === undefined || !this.layout || Number.isNaN(one)) return;
    event.preventDefault();
    const other = neighbourOf(this.layout, one, by);
    if (other === NOBODY) return;
    this.choose(other);
    this.buttons.get(other)?.focus();
  }
}
