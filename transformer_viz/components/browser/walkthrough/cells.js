// A strip of coloured cells: one number a cell, blue below zero, orange above.

import { shade } from "../shared/colour.js";
import { pen } from "../shared/dom.js";

/** @typedef {{colours: string[], ink: string, accent: string, line: string}} CellColours */
/** @typedef {{most: number, cursor?: number | null, window?: [number, number] | null,
 *   marked?: [number, number] | null}} CellLook
 *   most: the number with the fullest colour; window: cells whose numbers stand below; marked: an
 *   own part of the strip, such as one head's */

const SIDE = 127; // colours to each side of zero

/**
 * The colours of a palette for cells, from -1 over 0 to 1.
 * @param {import("../shared/colour.js").Palette} palette
 * @returns {CellColours}
 */
export function cellColours(palette) {
  const colours = Array.from({ length: 2 * SIDE + 1 }, (_, n) => {
    const part = (n - SIDE) / SIDE;
    const size = Math.abs(part) ** 0.7; // small numbers are to be seen beside a large one
    return `rgb(${shade(palette.changes, (1 + Math.sign(part) * size) / 2).join(" ")})`;
  });
  return { colours, ink: palette.ink, accent: palette.accent, line: palette.line };
}

/**
 * The colour of a number.
 * @param {CellColours} look
 * @param {number} value
 * @param {number} most
 */
export function cellColour(look, value, most) {
  const part = most > 0 && Number.isFinite(value) ? Math.max(-1, Math.min(1, value / most)) : 0;
  return look.colours[SIDE + Math.round(SIDE * part)];
}

/**
 * The largest size among numbers; those that are no number count nothing.
 * @param {ArrayLike<number>} values
 */
export function largestOf(values) {
  let most = 0;
  for (let n = 0; n < values.length; n++) {
    const size = Math.abs(values[n]);
    if (size > most && size < 1e30) most = size;
  }
  return most;
}

/**
 * Draw numbers as cells over the whole canvas.
 * @param {HTMLCanvasElement} canvas
 * @param {ArrayLike<number>} values
 * @param {CellColours} colours
 * @param {CellLook} look
 */
export function paintStrip(canvas, values, colours, look) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height) return;
  const brush = pen(canvas, width, height);
  canvas.style.width = canvas.style.height = ""; // as the style sheet has it
  const step = width / values.length, gap = step >= 6 ? 1 : 0;
  for (let n = 0; n < values.length; n++) {
    brush.fillStyle = cellColour(colours, values[n], look.most);
    brush.fillRect(n * step, 0, Math.max(step - gap, 0.6), height);
  }
  brush.lineWidth = 1;
  brush.strokeStyle = colours.line;
  brush.strokeRect(0.5, 0.5, width - 1, height - 1);
  if (look.marked) frameCells(brush, look.marked, step, height, colours.accent, 3);
  if (look.window) frameCells(brush, look.window, step, height, colours.ink, 1);
  if (look.cursor !== null && look.cursor !== undefined) {
    frameCells(brush, [look.cursor, look.cursor + 1], step, height, colours.ink, 2);
  }
}

/**
 * A frame around some cells.
 * @param {CanvasRenderingContext2D} brush
 * @param {[number, number]} span  from the first cell to behind the last
 * @param {number} step
 * @param {number} height
 * @param {string} colour
 * @param {number} width
 */
function frameCells(brush, [first, last], step, height, colour, width) {
  brush.lineWidth = width;
  brush.strokeStyle = colour;
  brush.strokeRect(first * step + width / 2, width / 2,
    Math.max((last - first) * step - width, 1), height - width);
}

/**
 * The cell under the pointer, or -1.
 * @param {HTMLCanvasElement} canvas
 * @param {number} count
 * @param {MouseEvent} event
 */
export function stripCellAt(canvas, count, event) {
  const box = canvas.getBoundingClientRect();
  const at = Math.floor((event.clientX - box.left) / box.width * count);
  return at >= 0 && at < count ? at : -1;
}
