// What is said of the lines: how many are drawn, and where a word's lines go.

import { counted, signed } from "../shared/number_format.js";
import { byStrength, FAINT } from "./links.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./links.js").LinesData} LinesData */
/** @typedef {import("./links.js").Link} Link */

const NAMED = 5; // links of a word that are named, of many heads fewer; the others are counted

/**
 * What lines of one colour are: a head's, or whatever bears a name of its own.
 * @param {{layer?: number, head?: number, name?: string}} head
 */
export function headName({ layer, head, name }) {
  return name ?? `L${layer} H${head}`;
}

/**
 * How many lines are drawn, what they carry, and what was left out.
 * @param {LinesData} data
 * @param {import("./links.js").Choice} choice
 * @param {number} top
 * @param {number} threshold
 */
export function describeChoice(data, choice, top, threshold) {
  const { links, all, weight, shown } = choice;
  if (!all) return data.change ? tell("Nothing changed.") : tell("There is no weight to draw.");
  const part = links.length < all ? Math.min(99.9, (100 * shown) / weight) : 100;
  const words = { drawn: counted(links.length), all: counted(all), part: part.toFixed(1) };
  const said = data.change ? tell("{drawn} of {all} lines are drawn, {part} % of all change", words)
    : tell("{drawn} of {all} lines are drawn, {part} % of all weight", words);
  if (links.length === all) return tell("{said}.", { said });
  const rules = [tell("what is below {weight}", { weight: Math.max(threshold, FAINT) })];
  if (top) rules.unshift(tell("all but the {count} strongest of each word", { count: top }));
  if (data.beyond.links) rules.unshift(tell("links that were too weak to be sent"));
  return tell("{said}; left out: {rules}.", { said, rules: rules.join(tell(", ")) });
}

/**
 * Where the drawn lines of a word go, or come from, with exact weights.
 * @param {LinesData} data
 * @param {Link[]} links  those that are drawn
 * @param {number} side  0: the word looks, 1: it is looked at
 * @param {number} place
 */
export function describeWord(data, links, side, place) {
  const [labels, others] = side ? [data.columns.labels, data.rows.labels]
    : [data.rows.labels, data.columns.labels];
  const own = links.filter((link) => (side ? link.key : link.query) === place);
  const word = labels[place];
  if (!own.length) return tell("No line of “{word}” is drawn.", { word });
  const named = Math.max(1, Math.min(NAMED, Math.floor(8 / data.heads.length)));
  const groups = data.heads.map((head, n) => {
    const strongest = byStrength(own.filter((link) => link.head === n));
    const list = strongest.slice(0, named).map((link) =>
      tell("“{word}” {weight}", {
        word: others[side ? link.query : link.key], weight: signed(link.weight, 4, data.change),
      }));
    const left = strongest.length - named;
    if (left > 0) list.push(tell("{count} more", { count: left }));
    if (!list.length) return "";
    return list.join(tell(", ")) + (data.heads.length > 1 ? ` (${headName(head)})` : "");
  });
  return sideSaid(side, data.change, { word, others: groups.filter(Boolean).join("; ") });
}

/**
 * @param {number} side
 * @param {boolean} change
 * @param {{word: string, others: string}} words
 */
function sideSaid(side, change, words) {
  if (side) {
    return change ? tell("“{word}” is looked at by, more (+) or less (−), {others}.", words)
      : tell("“{word}” is looked at by {others}.", words);
  }
  return change ? tell("“{word}” looks at, more (+) or less (−), {others}.", words)
    : tell("“{word}” looks at {others}.", words);
}
