// What is said of the lines: how many are drawn, and where a word's lines go.

import { signed } from "./written.js";
import { byStrength, FAINT } from "./lines_links.js";

/** @typedef {import("./lines_links.js").LinesData} LinesData */
/** @typedef {import("./lines_links.js").Link} Link */

const NAMED = 5; // links of a word that are named, of many heads fewer; the others are counted

/** @param {{layer: number, head: number}} head */
export function headName({ layer, head }) {
  return `L${layer} H${head}`;
}

/**
 * How many lines are drawn, what they carry, and what was left out.
 * @param {LinesData} data
 * @param {import("./lines_links.js").Choice} choice
 * @param {number} top
 * @param {number} threshold
 */
export function describeChoice(data, choice, top, threshold) {
  const { links, all, weight, shown } = choice, what = data.change ? "change" : "weight";
  if (!all) return data.change ? "Nothing changed." : "There is no weight to draw.";
  const part = links.length < all ? Math.min(99.9, (100 * shown) / weight) : 100;
  const said = `${counted(links.length)} of ${counted(all)} lines are drawn, `
    + `${part.toFixed(1)} % of all ${what}`;
  if (links.length === all) return said + ".";
  const rules = [`what is below ${Math.max(threshold, FAINT)}`];
  if (top) rules.unshift(`all but the ${top} strongest of each word`);
  if (data.beyond.links) rules.unshift("links that were too weak to be sent");
  return `${said}; left out: ${rules.join(", ")}.`;
}

/** @param {number} number */
function counted(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
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
  if (!own.length) return `No line of “${labels[place]}” is drawn.`;
  const named = Math.max(1, Math.min(NAMED, Math.floor(8 / data.heads.length)));
  const groups = data.heads.map((head, n) => {
    const strongest = byStrength(own.filter((link) => link.head === n));
    const list = strongest.slice(0, named).map((link) =>
      `“${others[side ? link.query : link.key]}” ${signed(link.weight, 4, data.change)}`);
    if (strongest.length > named) list.push(`${strongest.length - named} more`);
    if (!list.length) return "";
    return list.join(", ") + (data.heads.length > 1 ? ` (${headName(head)})` : "");
  });
  const looks = side ? "is looked at by" : "looks at";
  const does = data.change ? `${looks}, more (+) or less (−),` : looks;
  return `“${labels[place]}” ${does} ${groups.filter(Boolean).join("; ")}.`;
}
