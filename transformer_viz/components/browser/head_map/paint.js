// A map's picture: cells and hatch below, and above them what is chosen, lit or pointed at.

import { brushOf } from "../shared/dom.js";

/** @typedef {import("../shared/colour.js").Palette} Palette */
/** @typedef {import("./frame.js").MapFrame} MapFrame */
/** @typedef {import("./sheet.js").MapSheet} MapSheet */
/** @typedef {{rows: number[], columns: number[]}} Places */
/** @typedef {{all: Places[], now: Places | null}} Found  what a search found, and where it is now */

const GAPS = 6;     // pixels of a cell from which on cells stand apart
const STRIPES = 5;  // pixels from one line of the hatch to the next
const TICK = 6;     // pixels of a mark between names and cells

/**
 * The cells of the part that is shown.
 * @param {CanvasRenderingContext2D} brush
 * @param {MapFrame} frame
 * @param {MapSheet} sheet
 * @param {HTMLCanvasElement} image  the sheet's cells, a pixel each
 * @param {Palette} palette
 */
export function paintCells(brush, frame, sheet, image, palette) {
  const { rows, columns } = frame.view, { down, across } = sheet;
  const x = frame.x(columns[0]), y = frame.y(rows[0]);
  const width = frame.x(columns[1]) - x, height = frame.y(rows[1]) - y;
  brush.imageSmoothingEnabled = false;
  brush.drawImage(image,
    (columns[0] - sheet.columns[0]) / across, (rows[0] - sheet.rows[0]) / down,
    (columns[1] - columns[0]) / across, (rows[1] - rows[0]) / down, x, y, width, height);
  paintHatch(brush, frame, sheet, palette.hatch);
  brush.fillStyle = palette.card;
  if (frame.cell.width * across >= GAPS) {
    for (const edge of edgesIn(columns, sheet.columns, across)) {
      brush.fillRect(frame.x(edge) - 1, y, 1, height);
    }
  }
  if (frame.cell.height * down >= GAPS) {
    for (const edge of edgesIn(rows, sheet.rows, down)) {
      brush.fillRect(x, frame.y(edge) - 1, width, 1);
    }
  }
  brush.strokeStyle = palette.line;
  brush.lineWidth = 1;
  brush.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
}

/**
 * Where cells of the sheet end within a span.
 * @param {[number, number]} span
 * @param {[number, number]} side
 * @param {number} step
 */
function edgesIn([first, last], side, step) {
  const edges = [];
  const begun = Math.floor((first - side[0]) / step) + 1;
  for (let edge = side[0] + begun * step; edge < last; edge += step) edges.push(edge);
  return edges;
}

/**
 * A fine hatch over what is masked: runs of cells in each row, filled at once.
 * @param {CanvasRenderingContext2D} brush
 * @param {MapFrame} frame
 * @param {MapSheet} sheet
 * @param {string} colour
 */
function paintHatch(brush, frame, sheet, colour) {
  const { rows, columns } = frame.view, { down, across, width, masked } = sheet;
  const within = (/** @type {number} */ place, /** @type {[number, number]} */ span) =>
    Math.max(span[0], Math.min(span[1], place));
  const left = Math.floor((columns[0] - sheet.columns[0]) / across);
  const right = Math.ceil((columns[1] - sheet.columns[0]) / across);
  brush.beginPath();
  for (let row = rows[0]; row < rows[1];) {
    const r = Math.floor((row - sheet.rows[0]) / down);
    const next = within(sheet.rows[0] + (r + 1) * down, rows);
    for (let from = left; from < right; from++) {
      if (!masked[r * width + from]) continue;
      let to = from;
      while (to < right && masked[r * width + to]) to++;
      const x = frame.x(within(sheet.columns[0] + from * across, columns));
      const end = frame.x(within(sheet.columns[0] + to * across, columns));
      brush.rect(x, frame.y(row), end - x, frame.y(next) - frame.y(row));
      from = to;
    }
    row = next;
  }
  brush.fillStyle = hatchPattern(brush, colour);
  brush.fill();
}

/**
 * Thin lines that rise to the right, as fine on every screen.
 * @param {CanvasRenderingContext2D} brush
 * @param {string} colour
 * @returns {CanvasPattern}
 */
export function hatchPattern(brush, colour) {
  const tile = document.createElement("canvas"), sharpness = devicePixelRatio;
  tile.width = tile.height = Math.round(STRIPES * sharpness);
  const pen = brushOf(tile);
  pen.strokeStyle = colour;
  pen.lineWidth = sharpness;
  const size = tile.width;
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
  }
  pen.stroke();
  const pattern = /** @type {CanvasPattern} */ (brush.createPattern(tile, "repeat"));
  pattern.setTransform(new DOMMatrix().scale(1 / sharpness));
  return pattern;
}

/**
 * What is lit and what is chosen, and the cell that is pointed at.
 * @param {CanvasRenderingContext2D} brush
 * @param {MapFrame} frame
 * @param {{lit: Places, pinned: {row: number | null, column: number | null},
 *   at: import("./sheet.js").Region | null, keyed: boolean}} marks
 * @param {Palette} palette
 */
export function paintMarks(brush, frame, { lit, pinned, at, keyed }, palette) {
  const { view } = frame;
  brush.strokeStyle = palette.warm;
  for (const row of lit.rows) outlineCells(brush, frame, { ...view, rows: [row, row + 1] }, 1);
  for (const column of lit.columns) {
    outlineCells(brush, frame, { ...view, columns: [column, column + 1] }, 1);
  }
  brush.strokeStyle = palette.accent;
  const { row, column } = pinned;
  if (column !== null) outlineCells(brush, frame, { ...view, columns: [column, column + 1] }, 1);
  if (row !== null) outlineCells(brush, frame, { ...view, rows: [row, row + 1] }, 2);
  brush.strokeStyle = keyed ? palette.accent : palette.ink;
  if (at) outlineCells(brush, frame, at, keyed ? 3 : 2);
}

/**
 * What a search found: marks at both sides, and the rows and columns of the find that it is at.
 * @param {CanvasRenderingContext2D} brush
 * @param {MapFrame} frame
 * @param {Found} found
 * @param {Palette} palette
 */
export function paintFound(brush, frame, { all, now }, palette) {
  const { view, left, top } = frame;
  brush.fillStyle = palette.warm;
  for (const { rows, columns } of all) {
    for (const row of rows) {
      const box = boxOf(frame, { ...view, rows: [row, row + 1] });
      if (box) brush.fillRect(left - TICK - 1, box.y, TICK, Math.max(1, box.height));
    }
    for (const column of columns) {
      const box = boxOf(frame, { ...view, columns: [column, column + 1] });
      if (box) brush.fillRect(box.x, top - TICK - 1, Math.max(1, box.width), TICK);
    }
  }
  if (!now) return;
  brush.strokeStyle = palette.warm;
  for (const rows of runsOf(now.rows)) outlineCells(brush, frame, { ...view, rows }, 2);
  for (const columns of runsOf(now.columns)) outlineCells(brush, frame, { ...view, columns }, 2);
}

/**
 * Places in a row as spans.
 * @param {number[]} places  rising
 * @returns {import("./sheet.js").Span[]}
 */
function runsOf(places) {
  /** @type {import("./sheet.js").Span[]} */
  const runs = [];
  for (const place of places) {
    const last = runs[runs.length - 1];
    if (last?.[1] === place) last[1]++;
    else runs.push([place, place + 1]);
  }
  return runs;
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {MapFrame} frame
 * @param {import("./sheet.js").Region} region
 * @param {number} line  pixels
 */
function outlineCells(brush, frame, region, line) {
  const box = boxOf(frame, region);
  if (!box) return;
  brush.lineWidth = line;
  const shift = (line % 2) / 2; // on whole pixels, or it would be a blur
  brush.strokeRect(box.x - shift, box.y - shift, box.width, box.height);
}

/**
 * Where a part of the map stands in the picture, if any of it is shown.
 * @param {MapFrame} frame
 * @param {import("./sheet.js").Region} region
 */
export function boxOf(frame, { rows, columns }) {
  const { view } = frame;
  const top = Math.max(rows[0], view.rows[0]), bottom = Math.min(rows[1], view.rows[1]);
  const left = Math.max(columns[0], view.columns[0]), right = Math.min(columns[1], view.columns[1]);
  if (top >= bottom || left >= right) return null;
  const x = frame.x(left), y = frame.y(top);
  return { x, y, width: frame.x(right) - x, height: frame.y(bottom) - y };
}
