// Which tiles a part of a map needs: squares of cells, each cell 2^level rows and columns.

/** @typedef {import("../head_map/sheet.js").Region} Region */
/** @typedef {import("../head_map/sheet.js").Span} Span */
/** @typedef {{level: number, row: number, column: number}} Square  `row`, `column`: its number */
/** @typedef {{size: number, levels: number}} Grid  cells of a tile's side; how many levels */

/**
 * The finest level at which a part has no more cells than can be told apart.
 * @param {Region} view
 * @param {Grid} grid
 * @param {number} most  cells in a row or a column
 */
export function levelFor({ rows, columns }, { levels }, most) {
  const longest = Math.max(rows[1] - rows[0], columns[1] - columns[0]);
  let level = 0;
  while (level < levels - 1 && longest / 2 ** level > most) level++;
  return level;
}

/**
 * A part with whole cells at its sides, within the map.
 * @param {Region} view
 * @param {number} level
 * @param {{rows: number, columns: number}} size
 * @returns {Region}
 */
export function alignedTo({ rows, columns }, level, size) {
  const step = 2 ** level;
  const out = (/** @type {Span} */ [first, last], /** @type {number} */ count) =>
    /** @type {Span} */ ([Math.floor(first / step) * step,
      Math.min(count, Math.ceil(last / step) * step)]);
  return { rows: out(rows, size.rows), columns: out(columns, size.columns) };
}

/**
 * The tiles of a level in which a part stands.
 * @param {Region} view
 * @param {number} level
 * @param {Grid} grid
 * @returns {Square[]}
 */
export function squaresIn({ rows, columns }, level, { size }) {
  const side = size * 2 ** level, found = [];
  for (let row = Math.floor(rows[0] / side); row * side < rows[1]; row++) {
    for (let column = Math.floor(columns[0] / side); column * side < columns[1]; column++) {
      found.push({ level, row, column });
    }
  }
  return found;
}

/**
 * The rows and columns of a tile, as far as the map goes.
 * @param {Square} square
 * @param {Grid} grid
 * @param {{rows: number, columns: number}} size
 * @returns {Region}
 */
export function regionOf({ level, row, column }, grid, size) {
  const side = grid.size * 2 ** level;
  return {
    rows: [row * side, Math.min(size.rows, (row + 1) * side)],
    columns: [column * side, Math.min(size.columns, (column + 1) * side)],
  };
}

/**
 * The tile of a coarser level that holds a tile.
 * @param {Square} square
 * @param {number} level
 * @returns {Square}
 */
export function coarser(square, level) {
  const by = 2 ** (level - square.level);
  return { level, row: Math.floor(square.row / by), column: Math.floor(square.column / by) };
}

/**
 * Whether a sheet of cells of a level holds all of a part.
 * @param {import("../head_map/sheet.js").MapSheet} sheet
 * @param {Region} part
 * @param {number} step  rows and columns of a cell
 */
export function covers({ rows, columns, down }, part, step) {
  const within = (/** @type {Span} */ [first, last], /** @type {Span} */ mine) =>
    first <= mine[0] && mine[1] <= last;
  return down === step && within(rows, part.rows) && within(columns, part.columns);
}
