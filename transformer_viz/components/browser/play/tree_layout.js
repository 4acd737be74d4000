// Where the texts of a beam stand: a column a step, those kept in their order, and below them the
// best of those that were left out.

import { LEFT_OUT, NOBODY } from "./search.js";

/** @typedef {{one: number, left: number, top: number, step: number}} TreeNode */
/** @typedef {{from: number, to: number, path: string}} TreeEdge  `from`: NOBODY is the beginning */
/** @typedef {{nodes: TreeNode[], edges: TreeEdge[], wide: number, high: number, width: number,
 *   height: number, line: number, column: number}} TreeLayout  `line`: where those left out begin */

const MOST_LEFT = 4;                             // texts left out that are shown at a step
const TREE_SIZES = { least: 5.4, most: 9, gap: 1.2, high: 2.75, pitch: 3.15, between: 1.7 }; // in letters

/**
 * @param {import("./search.js").PlaySearch} search
 * @param {number} room  pixels of width
 * @param {number} letters  the height of a letter
 * @param {number} shown  a candidate that is shown in any case
 * @returns {TreeLayout}
 */
export function treeLayout(search, room, letters, shown) {
  const { beam } = search.data, steps = search.columns.length;
  const gap = TREE_SIZES.gap * letters, high = TREE_SIZES.high * letters, pitch = TREE_SIZES.pitch * letters;
  const wide = Math.max(TREE_SIZES.least * letters, Math.min(TREE_SIZES.most * letters, room / steps - gap));
  const lanes = Math.max(...search.columns.map((_, step) => search.kept(step).length));
  const line = lanes * pitch + TREE_SIZES.between * letters;
  const nodes = search.columns.flatMap((column, step) => {
    const left = gap + step * (wide + gap);
    const out = leftOut(search, column, Math.min(MOST_LEFT, beam), shown);
    return [...search.kept(step).map((one, n) => ({ one, left, top: n * pitch, step })),
      ...out.map((one, n) => ({ one, left, top: line + n * pitch, step }))];
  });
  const places = new Map(nodes.map((node) => [node.one, node]));
  const begin = { left: -wide + letters / 2, top: ((lanes - 1) * pitch) / 2 };
  const edges = nodes.map(({ one, left, top }) => {
    const from = search.parents[one], at = places.get(from) ?? begin;
    return { from, to: one, path: branchCurve(at.left + wide, at.top + high / 2, left, top + high / 2) };
  });
  const lowest = Math.max(...nodes.map(({ top }) => top)) + high;
  return { nodes, edges, wide, high, width: gap + steps * (wide + gap), height: lowest, line, column: wide + gap };
}

/**
 * The texts left out at a step that are shown: the best ones, and the chosen one.
 * @param {import("./search.js").PlaySearch} search
 * @param {number[]} column
 * @param {number} most
 * @param {number} shown
 */
function leftOut({ fates }, column, most, shown) {
  const out = column.filter((one) => fates[one] === LEFT_OUT);
  const best = out.slice(0, most);
  return out.includes(shown) && !best.includes(shown) ? [...best, shown] : best;
}

/**
 * @param {number} x
 * @param {number} y
 * @param {number} right
 * @param {number} down
 */
function branchCurve(x, y, right, down) {
  const middle = (x + right) / 2;
  return `M${x} ${y}C${middle} ${y} ${middle} ${down} ${right} ${down}`;
}

/**
 * The neighbour above or below in the same column.
 * @param {TreeLayout} layout
 * @param {number} one
 * @param {number} by
 */
export function neighbourOf({ nodes }, one, by) {
  const here = nodes.find((node) => node.one === one);
  const column = nodes.filter((node) => node.step === here?.step);
  return column[column.findIndex((node) => node.one === one) + by]?.one ?? NOBODY;
}
