// Where a map's cells stand, and which of its names there is room for.

/** @typedef {import("./sheet.js").Region} Region */
/** @typedef {{left: number, top: number, width: number, height: number, view: Region,
 *   cell: {width: number, height: number}, x: (column: number) => number,
 *   y: (row: number) => number}} MapFrame  `x`, `y`: where a column or a row begins */
/** @typedef {{text: string, place: number, x: number, y: number, width: number}} Name
 *   `x`, `y`: the end of a row's name, the beginning of a column's, half-way up */

const NAME_SLANT = (50 * Math.PI) / 180; // names of columns rise to the right
const LONGEST = { rows: 150, columns: 118 }; // pixels of a name
const SHARE = 0.28;  // of the width, for the names of rows
const ASIDE = 8;     // pixels between names and cells
const LARGEST = 72;  // pixels of a cell's side
const MEASURED = 400; // names that are measured for each picture
const LEADING = 1.2; // from a line of text to the next, in heights of its letters

/**
 * The frame of a map in a picture of a given size.
 * @param {{rows: string[], columns: string[]}} labels
 * @param {Region} view  the part to show
 * @param {{width: number, height: number}} room
 * @param {number} size  of the letters
 * @param {(text: string) => number} measure
 * @param {number} [corner]  pixels that are kept free in the corner between the names
 * @returns {MapFrame}
 */
export function frameOf(labels, view, room, size, measure, corner = 0) {
  const rows = view.rows[1] - view.rows[0], columns = view.columns[1] - view.columns[0];
  const widest = (/** @type {string[]} */ all, /** @type {number} */ most) =>
    Math.ceil(Math.min(most, widestOf(all, measure)));
  const left = ASIDE + Math.max(corner, widest(labels.rows, Math.min(LONGEST.rows, room.width * SHARE)));
  const rising = widest(labels.columns, LONGEST.columns);
  const above = rising * Math.sin(NAME_SLANT) + (size / 2) * Math.cos(NAME_SLANT);
  const top = Math.ceil(ASIDE + Math.max(corner, above));
  const step = (room.width - left) / columns;
  // Only names near the right side can reach beyond it.
  const near = Math.min(columns, Math.ceil(LONGEST.columns / step) + 1);
  const over = near > MEASURED ? [rising * Math.cos(NAME_SLANT) + size]
    : labels.columns.slice(view.columns[1] - near, view.columns[1]).map((text, n) =>
      Math.min(LONGEST.columns, measure(text)) * Math.cos(NAME_SLANT) + size - (near - n - 0.5) * step);
  const right = Math.max(2, Math.ceil(over.reduce((a, b) => Math.max(a, b), 0)));
  const cell = {
    width: Math.min(LARGEST, (room.width - left - right) / columns),
    height: Math.min(LARGEST, (room.height - top - size / 2 - 2) / rows),
  };
  return {
    left, top, width: cell.width * columns, height: cell.height * rows, view, cell,
    x: (column) => sharp(left + (column - view.columns[0]) * cell.width),
    y: (row) => sharp(top + (row - view.rows[0]) * cell.height),
  };
}

/** @type {WeakMap<string[], {font: number, width: number}>} */
const WIDEST = new WeakMap(); // of lists of names, which may have thousands

/**
 * @param {string[]} labels
 * @param {(text: string) => number} measure
 */
function widestOf(labels, measure) {
  const known = WIDEST.get(labels), font = measure("Wi1");
  if (known?.font === font) return known.width;
  const width = labels.reduce((most, text) => Math.max(most, measure(text)), 0);
  WIDEST.set(labels, { font, width });
  return width;
}

/**
 * On the border of a pixel of the screen.
 * @param {number} length
 */
function sharp(length) {
  return Math.round(length * devicePixelRatio) / devicePixelRatio;
}

/**
 * The cell of the map at a point of the picture.
 * @param {MapFrame} frame
 * @param {number} x
 * @param {number} y
 * @param {boolean} [nearest]  beside all cells the nearest one, instead of none
 */
export function cellUnder({ left, top, width, height, view, cell }, x, y, nearest = false) {
  const outside = x < left || x >= left + width || y < top || y >= top + height;
  if (outside && !nearest) return null;
  const within = (/** @type {number} */ place, /** @type {[number, number]} */ [first, last]) =>
    Math.max(first, Math.min(last - 1, first + Math.floor(place)));
  return {
    row: within((y - top) / cell.height, view.rows),
    column: within((x - left) / cell.width, view.columns),
  };
}

/**
 * The names that are drawn, so that none touches another: those wanted first, then every n-th.
 * @param {{rows: string[], columns: string[]}} labels
 * @param {MapFrame} frame
 * @param {{rows: number[], columns: number[]}} wanted  the most important first
 * @param {number} size
 * @param {(text: string) => number} measure
 * @returns {{rows: Name[], columns: Name[]}}
 */
export function namesOf(labels, frame, wanted, size, measure) {
  const { left, top, view, cell } = frame, pitch = size * LEADING;
  const rows = placesWithRoom(view.rows, wanted.rows, pitch / cell.height);
  const columns = placesWithRoom(view.columns, wanted.columns, pitch / Math.sin(NAME_SLANT) / cell.width);
  return {
    rows: rows.map((place) => ({
      ...shortened(labels.rows[place], left - ASIDE, measure), place,
      x: left - ASIDE, y: (frame.y(place) + frame.y(place + 1)) / 2,
    })),
    columns: columns.map((place) => ({
      ...shortened(labels.columns[place], LONGEST.columns, measure), place,
      x: (frame.x(place) + frame.x(place + 1)) / 2, y: top - ASIDE,
    })),
  };
}

/**
 * @param {[number, number]} span
 * @param {number[]} wanted
 * @param {number} apart  the least distance of two of them, in cells
 */
function placesWithRoom([first, last], wanted, apart) {
  const step = Math.max(1, Math.ceil(apart - 1e-9));
  /** @type {number[]} */
  const found = [];
  for (const place of wanted) {
    if (place >= first && place < last && far(found, place, apart)) found.push(place);
  }
  const forced = [...found];
  for (let place = Math.ceil(first / step) * step; place < last; place += step) {
    if (far(forced, place, apart)) found.push(place);
  }
  return found;
}

/**
 * @param {number[]} places
 * @param {number} place
 * @param {number} apart
 */
function far(places, place, apart) {
  return places.every((other) => Math.abs(other - place) >= apart - 1e-9);
}

/**
 * A text that fits, and its width.
 * @param {string} text
 * @param {number} most
 * @param {(text: string) => number} measure
 */
function shortened(text, most, measure) {
  let kept = text, width = measure(kept);
  for (let letters = [...text]; width > most && letters.length > 1;) {
    letters = letters.slice(0, -1);
    kept = letters.join("") + "…";
    width = measure(kept);
  }
  return { text: kept, width };
}

/**
 * The four corners of each name that is drawn, for whoever wants to know what it covers.
 * @param {{rows: Name[], columns: Name[]}} names
 * @param {number} size
 * @returns {{text: string, corners: [number, number][]}[]}
 */
export function boxesOf({ rows, columns }, size) {
  const box = (/** @type {Name} */ { text, x, y, width }, /** @type {number} */ turn,
    /** @type {number} */ from) => ({
    text,
    corners: /** @type {[number, number][]} */ ([[from, -size / 2], [from + width, -size / 2],
      [from + width, size / 2], [from, size / 2]].map(([along, down]) => [
      x + along * Math.cos(turn) - down * Math.sin(turn),
      y + along * Math.sin(turn) + down * Math.cos(turn)])),
  });
  return [...rows.map((name) => box(name, 0, -name.width)),
    ...columns.map((name) => box(name, -NAME_SLANT, 0))];
}

/**
 * Draw the names with a pen whose font is set.
 * @param {CanvasRenderingContext2D} brush
 * @param {{rows: Name[], columns: Name[]}} names
 * @param {(side: "rows" | "columns", place: number) => string} colour
 */
export function drawNames(brush, { rows, columns }, colour) {
  brush.textBaseline = "middle";
  brush.textAlign = "right";
  for (const { text, place, x, y } of rows) {
    brush.fillStyle = colour("rows", place);
    brush.fillText(text, x, y);
  }
  brush.textAlign = "left";
  for (const { text, place, x, y } of columns) {
    brush.save();
    brush.translate(x, y);
    brush.rotate(-NAME_SLANT);
    brush.fillStyle = colour("columns", place);
    brush.fillText(text, 0, 0);
    brush.restore();
  }
}
