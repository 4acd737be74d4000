// What is said of a map: one cell, the part that is shown, and what its colours mean.

import { signed } from "./written.js";
import { isWhole } from "./map_zoom.js";

/** @typedef {import("./map_sheet.js").MapData} MapData */
/** @typedef {import("./map_sheet.js").MapSheet} MapSheet */
/** @typedef {import("./map_sheet.js").Region} Region */

/**
 * A cell in words: es → animal: 0.6213.
 * @param {MapData} data
 * @param {import("./map_sheet.js").Cell} cell
 */
export function describeCell({ rows, columns, change, old, most }, cell) {
  const query = spanWords(rows.labels, cell.rows), key = spanWords(columns.labels, cell.columns);
  const { value, masked } = cell;
  if (masked && !value) return `${query} may not look at ${key} (masked)`;
  const pair = `${query} → ${key}: `;
  if (Number.isNaN(value)) {
    return pair + (cell.rows[0] >= old ? "this row was not there before" : "not a number");
  }
  if (cell.pooled) return pair + largestWords(cell, change, digitsFor(most ?? 1));
  return pair + signed(value, 4, change) + (masked ? " (masked)" : "");
}

/**
 * @param {string[]} labels
 * @param {import("./map_sheet.js").Span} span
 */
function spanWords(labels, [first, last]) {
  return last - first > 1 ? `${labels[first]} … ${labels[last - 1]}` : labels[first];
}

/**
 * @param {import("./map_sheet.js").Cell} cell
 * @param {boolean} change
 * @param {number} digits
 */
function largestWords({ value, rows, columns }, change, digits) {
  const count = `${rows[1] - rows[0]} × ${columns[1] - columns[0]}`;
  return change ? `${signed(value, digits, true)}, the largest of ${count} changes`
    : `${value.toFixed(digits)}, the largest of ${count} weights`;
}

/**
 * What part of the map is shown, and how exactly.
 * @param {MapData} data
 * @param {Region} view
 * @param {MapSheet} sheet
 */
export function describeView({ rows, columns, change, stride, fixed }, view, sheet) {
  const size = { rows: rows.labels.length, columns: columns.labels.length };
  const part = isWhole(view, size) ? "" : `Enlarged: rows ${view.rows[0] + 1} to ${view.rows[1]} of `
    + `${size.rows}, columns ${view.columns[0] + 1} to ${view.columns[1]} of ${size.columns}. `;
  if (Math.max(...stride) === 1) return part;
  if (sheet.down * sheet.across === 1) return part + "Every cell is one weight.";
  const what = change ? "changes" : "weights";
  return `${part}Each cell holds up to ${sheet.down} × ${sheet.across} ${what}; the largest is `
    + (fixed ? "shown." : "shown. Zoom in for exact values.");
}

/**
 * What a screen reader hears of the picture when the keyboard comes to it.
 * @param {MapData} data
 */
export function describeMap({ title, rows, columns, change }) {
  return `${change ? "Change of attention" : "Attention"}, ${title}: ${rows.labels.length} rows look `
    + `at ${columns.labels.length} columns. Arrow keys move, Enter chooses, plus and minus zoom, `
    + "0 shows all.";
}

/**
 * The words at both ends of the colours.
 * @param {boolean} change
 * @param {number} limit
 */
export function legendEnds(change, limit) {
  const digits = digitsFor(limit);
  return change ? [signed(-limit, digits, true), signed(limit, digits, true)]
    : ["0", limit.toFixed(digits)];
}

/**
 * How many digits tell weights apart: over a thousand words all of them may be below 0.01.
 * @param {number} limit  the largest of them
 */
function digitsFor(limit) {
  return limit < 0.05 ? 4 : 2;
}
