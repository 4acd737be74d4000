// What the model looked at while it produced one token: a bar for every word that it could see.

import { dataNear, element, offer, set } from "../shared/dom.js";
import { shine } from "../shared/hover_link.js";
import { tell } from "../shared/i18n.js";

const NAMED_KEYS = 3; // words that are named in the sentence below
const LEAST_SHOWN = 0.005; // a weight that is written as 0.00

/** @typedef {{layer: number, head: number, pooled: boolean}} Look */

export class PlayRow {
  /**
   * @param {AbortSignal} signal
   * @param {(look: Partial<Look>) => void} look  hears what was chosen
   */
  constructor(signal, look) {
    this.question = element("h3");
    this.layer = element("select");
    this.head = element("select");
    this.layer.addEventListener("change", () => look({ layer: Number(this.layer.value) }), { signal });
    this.head.addEventListener("change", () => {
      const { value } = this.head;
      look(value === "" ? { pooled: true } : { head: Number(value), pooled: false });
    }, { signal });
    this.bars = element("ol", "keys");
    /** @type {ReturnType<PlayRow["key"]>[]} */
    this.keys = [];
    this.said = element("p", "said");
    set(this.said, "aria-live", "polite");
    this.note = element("p", "quiet");
    const tools = element("span", "tools", this.layer, this.head);
    this.place = element("section", "row", element("header", "", this.question, tools), this.bars,
      this.said, this.note);
    this.bars.addEventListener("pointerover", (event) => {
      const key = dataNear(event, "li", "key");
      shine(null, key === undefined ? null : { sentence: "source", tokens: [Number(key)] });
    }, { signal });
    this.bars.addEventListener("pointerleave", () => shine(null, null), { signal });
  }

  /** @param {import("./play.js").Moment} moment */
  draw({ search, line, step, look, head }) {
    const { data } = search, word = search.name(line[step]);
    const row = search.row(line[step], head), names = search.keyNames(line.slice(0, step + 1));
    const heads = data.arrays.rows.shape[1];
    this.question.textContent = tell("What did it look at to write “{word}”?", { word });
    this.choices(look, data.layers, heads);
    this.fill(row, names, mostOf(search, line, head));
    this.said.textContent = rowWords(row, names);
    const whose = head === null
      ? tell("The mean of the {heads} heads of layer {layer}.", { heads, layer: `L${data.layer}` })
      : tell("One head alone: {head}.", { head: `L${data.layer} H${head}` });
    this.note.textContent = `${whose} ${tell("The row of the step that produced this token; it sums to {sum}.", { sum: sumOf(row) })}`;
  }

  /**
   * @param {Look} look
   * @param {number} layers
   * @param {number} heads
   */
  choices(look, layers, heads) {
    const numbered = (/** @type {number} */ count, /** @type {string} */ letter) =>
      [...Array(count).keys()].map((n) => [`${n}`, letter + n]);
    offer(this.layer, numbered(layers, "L"), String(look.layer));
    offer(this.head, [["", tell("mean of all heads")], ...numbered(heads, "H")],
      look.pooled ? "" : String(look.head));
    set(this.layer, "aria-label", tell("layer"));
    set(this.head, "aria-label", tell("head"));
  }

  /**
   * @param {Float32Array} row
   * @param {string[]} names
   * @param {number} most  the weight of a whole bar
   */
  fill(row, names, most) {
    while (this.keys.length > names.length) this.keys.pop()?.bar.remove();
    while (this.keys.length < names.length) this.keys.push(this.key());
    names.forEach((name, key) => {
      const { bar, number, amount, label } = this.keys[key];
      bar.dataset.key = String(key);
      number.textContent = row[key] >= LEAST_SHOWN ? row[key].toFixed(2) : "";
      amount.style.height = `${(100 * (row[key] || 0)) / most}%`;
      label.textContent = name;
      bar.classList.toggle("most", row[key] === Math.max(...row));
    });
  }

  /** A bar more, and what stands in it. */
  key() {
    const number = element("span", "number"), amount = element("i"), label = element("b");
    const bar = element("li", "", element("span", "column", number, amount), label);
    this.bars.append(bar);
    return { bar, number, amount, label };
  }
}

/**
 * The words with the largest weights, in a sentence.
 * @param {Float32Array} row
 * @param {string[]} names
 */
export function rowWords(row, names) {
  const order = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, NAMED_KEYS);
  const words = order.filter((key) => row[key] >= LEAST_SHOWN)
    .map((key) => tell("“{word}” {weight}", { word: names[key], weight: row[key].toFixed(2) }));
  if (words.length === 0) return tell("It looked at nothing: an edit left no word to look at.");
  return tell("It looked most at {words}.", { words: words.join(", ") });
}

/**
 * The largest weight of a whole text, so that its steps are drawn alike.
 * @param {import("./search.js").PlaySearch} search
 * @param {number[]} line
 * @param {number | null} head
 */
function mostOf(search, line, head) {
  let most = 0;
  for (const one of line) for (const weight of search.row(one, head)) most = Math.max(most, weight || 0);
  return most || 1;
}

/** @param {Float32Array} row */
function sumOf(row) {
  return row.reduce((sum, weight) => sum + weight, 0).toFixed(2);
}
