// What else could have been written at this step: the ten most probable tokens, the chosen one marked.

import { element } from "../shared/dom.js";
import { chanceWords, LEFT_OUT } from "./search.js";
import { tell } from "../shared/i18n.js";

/** @typedef {{token: number, model: number, drawn: number, rank: number, mark: string}} Guess */

export class PlayGuess {
  constructor() {
    this.question = element("h3");
    this.list = element("ol");
    this.note = element("p", "quiet");
    this.place = element("section", "guess", this.question, this.list, this.note);
  }

  /** @param {import("./play.js").Moment} moment */
  draw({ search, line, step }) {
    const { data } = search, draws = data.way === "sample";
    this.question.textContent = tell("What else could it have written here?");
    const lines = guessesOf(search, line[step]).map((guess) => this.line(guess, data, draws));
    this.list.replaceChildren(...lines);
    const drawing = String(data.drawing);
    this.note.textContent = draws
      ? tell("Filled, and the first number: the chance of being drawn, at output temperature {drawing}. Line, and the second number: the model's own probability.", { drawing })
      : tell("Probability of each token after what is written so far; the ten largest of the whole vocabulary.");
  }

  /**
   * @param {Guess} guess
   * @param {import("./search.js").PlayData} data
   * @param {boolean} draws
   */
  line({ token, model, drawn, rank, mark }, data, draws) {
    const shown = draws ? drawn : model;
    const filled = element("i"), bar = element("span", "track", filled);
    filled.style.width = `${100 * shown}%`;
    if (draws) {
      const own = element("u");
      own.style.left = `${100 * model}%`;
      bar.append(own);
    }
    const told = { chosen: tell("chosen"), kept: tell("kept too") }[mark] ?? "";
    const made = element("li", mark, element("span", "place", `${rank}`),
      element("b", "", data.names[token]), bar, element("span", "number", chanceWords(shown)),
      ...(draws ? [element("span", "place", chanceWords(model))] : []), element("span", "mark", told));
    return made;
  }
}

/**
 * The most probable tokens of the pass that gave a candidate its own; that one comes last where it
 * is not among them.
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one
 * @returns {Guess[]}
 */
export function guessesOf(search, one) {
  const { arrays } = search.data, pass = search.passOf(one), width = arrays.top.shape[1];
  const marks = marksOf(search, one);
  const found = [];
  for (let n = 0; n < width; n++) {
    const at = pass * width + n, token = arrays.top.data[at];
    const model = Math.exp(arrays.top_logs.data[at]);
    if (model === 0 && n > 0) continue; // a token that may not be written here
    found.push({ token, model, drawn: arrays.top_chances.data[at], rank: n + 1,
      mark: marks.get(token) ?? "" });
  }
  const own = search.tokens[one];
  if (!found.some(({ token }) => token === own)) {
    found.push({ token: own, model: Math.exp(arrays.logs.data[one]),
      drawn: arrays.chances.data[one], rank: arrays.ranks.data[one], mark: "chosen" });
  }
  return found;
}

/**
 * What became of the tokens after the same beginning.
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one
 * @returns {Map<number, string>}
 */
function marksOf(search, one) {
  const { parents, fates, tokens, steps } = search, marks = new Map();
  for (const other of search.columns[steps[one]]) {
    if (parents[other] === parents[one] && fates[other] !== LEFT_OUT) marks.set(tokens[other], "kept");
  }
  return marks.set(tokens[one], "chosen");
}
