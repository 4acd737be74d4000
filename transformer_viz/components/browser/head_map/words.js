// What is said of a map: one cell, the part that is shown, and what its colours mean.

import { signed } from "../shared/number_format.js";
import { isWhole } from "./zoom.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./sheet.js").MapData} MapData */
/** @typedef {import("./sheet.js").MapSheet} MapSheet */
/** @typedef {import("./sheet.js").Region} Region */

/**
 * A cell in words: es → animal: 0.6213.
 * @param {MapData} data
 * @param {import("./sheet.js").Cell} cell
 */
export function describeCell({ rows, columns, change, old, most, tiles, within = 0 }, cell) {
  const query = spanWords(rows.labels, cell.rows), key = spanWords(columns.labels, cell.columns);
  const { value, masked } = cell;
  if (masked && !value) return tell("{query} may not look at {key} (masked)", { query, key });
  const pair = `${query} → ${key}: `;
  if (Number.isNaN(value)) {
    const fresh = cell.rows[0] >= old;
    if (tiles?.ahead) return pair + tell("on its way");
    return pair + (fresh ? tell("this row was not there before") : tell("not a number"));
  }
  if (cell.pooled) return pair + largestWords(cell, change, digitsFor(most ?? 1), within);
  if (cell.was !== undefined && change) {
    const [now, before] = [cell.was + value, cell.was].map((weight) => weight.toFixed(4));
    return pair + tell("{change}: {now} now, {before} before",
      { change: signed(value, 4, true), now, before });
  }
  const weight = signed(value, 4, change) + offBy(value * within, 4);
  return pair + (masked ? tell("{weight} (masked)", { weight }) : weight);
}

/**
 * @param {string[]} labels
 * @param {import("./sheet.js").Span} span
 */
function spanWords(labels, [first, last]) {
  return last - first > 1 ? `${labels[first]} … ${labels[last - 1]}` : labels[first];
}

/**
 * How far a number may be off, where its digits would hide it.
 * @param {number} off
 * @param {number} digits
 */
function offBy(off, digits) {
  const unit = 10 ** digits;
  return off * unit < 0.5 ? "" : ` ± ${(Math.ceil(off * unit) / unit).toFixed(digits)}`;
}

/**
 * @param {import("./sheet.js").Cell} cell
 * @param {boolean} change
 * @param {number} digits
 * @param {number} within
 */
function largestWords({ value, rows, columns }, change, digits, within) {
  const count = `${rows[1] - rows[0]} × ${columns[1] - columns[0]}`;
  return change
    ? tell("{value}, the largest of {count} changes", { value: signed(value, digits, true), count })
    : tell("{value}, the largest of {count} weights", {
      value: value.toFixed(digits) + offBy(value * within, digits), count,
    });
}

/**
 * What part of the map is shown.
 * @param {Region} view
 * @param {{rows: number, columns: number}} size
 */
export function enlargedWords(view, size) {
  return tell("Enlarged: rows {top} to {bottom} of {rows}, columns {left} to {right} of {columns}.",
    { ...size, top: view.rows[0] + 1, bottom: view.rows[1],
      left: view.columns[0] + 1, right: view.columns[1] });
}

/**
 * What part of the map is shown, and how exactly.
 * @param {MapData} data
 * @param {Region} view
 * @param {MapSheet} sheet
 */
export function describeView({ rows, columns, change, stride, fixed }, view, sheet) {
  const size = { rows: rows.labels.length, columns: columns.labels.length };
  const part = isWhole(view, size) ? "" : enlargedWords(view, size) + " ";
  if (Math.max(...stride) === 1) return part;
  if (sheet.down * sheet.across === 1) return part + tell("Every cell is one weight.");
  const { down, deep = down, across } = sheet;
  if (deep < down) {
    return part + tell("Until the rest is there, each cell holds the first {deep} of its {down} rows "
      + "and {across} columns; the largest weight is shown.", { deep, down, across });
  }
  const said = change
    ? tell("Each cell holds up to {down} × {across} changes; the largest is shown.", sheet)
    : tell("Each cell holds up to {down} × {across} weights; the largest is shown.", sheet);
  return part + said + (fixed ? "" : " " + tell("Zoom in for exact values."));
}

/**
 * What a screen reader hears of the picture when the keyboard comes to it.
 * @param {MapData} data
 */
export function describeMap({ title, rows, columns, change }) {
  const words = { title, rows: rows.labels.length, columns: columns.labels.length };
  const said = change
    ? tell("Change of attention, {title}: {rows} rows look at {columns} columns.", words)
    : tell("Attention, {title}: {rows} rows look at {columns} columns.", words);
  return said + " " + tell("Arrow keys move, Enter chooses, plus and minus zoom, 0 shows all.");
}

/**
 * The words at both ends of the colours.
 * @param {boolean} change
 * @param {number} limit
 * @param {number} [largest]  weight of a long map, of which few are beyond the end of the colours;
 *   Infinity: not known yet
 */
export function legendEnds(change, limit, largest = 0) {
  const digits = digitsFor(limit);
  if (!change && largest > limit) {
    const shown = limit.toFixed(digits);
    return ["0", largest === Infinity ? tell("{limit} or more", { limit: shown }) : tell("{limit} or more (from the 98th percentile on; largest {largest})",
      { limit: shown, largest: largest.toFixed(2) })];
  }
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
