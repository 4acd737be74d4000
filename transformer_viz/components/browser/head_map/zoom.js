// Which part of a map is shown: enlarged around a cell, moved, and never beyond its sides.

/** @typedef {import("./sheet.js").Region} Region */
/** @typedef {import("./sheet.js").Span} Span */
/** @typedef {{rows: number, columns: number}} Size */

const FEWEST = 4; // rows and columns that can fill the picture
const READABLE = 48; // rows and columns whose names can be read

/**
 * The whole map.
 * @param {Size} size
 * @returns {Region}
 */
export function wholeMap({ rows, columns }) {
  return { rows: [0, rows], columns: [0, columns] };
}

/**
 * @param {Region} view
 * @param {Size} size
 */
export function isWhole({ rows, columns }, size) {
  return rows[1] - rows[0] === size.rows && columns[1] - columns[0] === size.columns;
}

/**
 * The part that is shown when it is enlarged by a factor and a cell stays where it was.
 * @param {Region} view
 * @param {Size} size
 * @param {number} factor  below 1 shows more
 * @param {{row: number, column: number}} at
 * @returns {Region}
 */
export function zoomed(view, size, factor, at) {
  return {
    rows: scaledSpan(view.rows, size.rows, factor, at.row),
    columns: scaledSpan(view.columns, size.columns, factor, at.column),
  };
}

/**
 * @param {Span} span
 * @param {number} size
 * @param {number} factor
 * @param {number} at
 * @returns {Span}
 */
function scaledSpan([first, last], size, factor, at) {
  const count = last - first, least = Math.min(FEWEST, size);
  const wanted = factor > 1 ? Math.min(count - 1, Math.round(count / factor))
    : Math.max(count + 1, Math.round(count / factor));
  const shown = Math.max(least, Math.min(size, wanted));
  return spanFrom(Math.round(at + 0.5 - ((at + 0.5 - first) * shown) / count), shown, size);
}

/**
 * The part that is shown after moving by some rows and columns.
 * @param {Region} view
 * @param {Size} size
 * @param {number} down
 * @param {number} right
 * @returns {Region}
 */
export function moved({ rows, columns }, size, down, right) {
  return {
    rows: spanFrom(rows[0] + down, rows[1] - rows[0], size.rows),
    columns: spanFrom(columns[0] + right, columns[1] - columns[0], size.columns),
  };
}

/**
 * The part with a cell in its middle, enlarged until names can be read; what is nearer stays so.
 * @param {Region} view
 * @param {Size} size
 * @param {{row: number, column: number}} cell
 * @returns {Region}
 */
export function around({ rows, columns }, size, { row, column }) {
  const out = (/** @type {Span} */ [first, last], /** @type {number} */ place,
    /** @type {number} */ most) => {
    const count = Math.min(last - first, READABLE);
    return spanFrom(place - Math.floor(count / 2), count, most);
  };
  return { rows: out(rows, row, size.rows), columns: out(columns, column, size.columns) };
}

/**
 * The part that is shown while two fingers hold two of its places.
 * @param {Region} view  when they came down
 * @param {Size} size
 * @param {number} factor  how much farther apart they are
 * @param {{row: number, column: number}} at  the cell between them then
 * @param {{down: number, right: number}} shift  cells that their middle has moved, as large as they
 *   were
 * @returns {Region}
 */
export function pinched(view, size, factor, at, { down, right }) {
  const now = factor === 1 ? view : zoomed(view, size, factor, at);
  const rows = (now.rows[1] - now.rows[0]) / (view.rows[1] - view.rows[0]);
  const columns = (now.columns[1] - now.columns[0]) / (view.columns[1] - view.columns[0]);
  return moved(now, size, Math.round(-down * rows), Math.round(-right * columns));
}

/**
 * The nearest part of the same size that has a cell in it.
 * @param {Region} view
 * @param {Size} size
 * @param {{row: number, column: number}} cell
 * @returns {Region}
 */
export function uncovering(view, size, { row, column }) {
  return moved(view, size, missingSteps(view.rows, row), missingSteps(view.columns, column));
}

/**
 * @param {Span} span
 * @param {number} place
 */
function missingSteps([first, last], place) {
  return Math.min(0, place - first) + Math.max(0, place + 1 - last);
}

/**
 * @param {number} first
 * @param {number} count
 * @param {number} size
 * @returns {Span}
 */
function spanFrom(first, count, size) {
  const start = Math.max(0, Math.min(size - count, first));
  return [start, start + count];
}
