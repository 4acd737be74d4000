// Where every tile of an atlas stands: layers by heads, or one ranked sequence in rows.

/** @typedef {import("./heads.js").Place} Place */
/** @typedef {{place: Place, left: number, top: number, row: number, column: number}} Slot */
/** @typedef {{text: string, at: number}} Name  a name and the middle of what it names */
/** @typedef {{slots: Slot[], tile: {width: number, height: number}, gap: number, left: number,
 *   top: number, width: number, height: number, ranked: boolean, titles: Name[],
 *   across: Name[], down: Name[], letters: number}} Layout  in pixels of the whole picture,
 *   scrolled or not; `letters`: how large they are, 1 on an ordinary page */

const LAYERS_WIDE = 36;    // room for the names of layers
const NAMES_HIGH = 22;     // room for the names of heads, and again for the titles of blocks
const RANKED_NAME = 20;    // room for a name above each ranked tile
const TILE_EDGE = 8;       // room for the frames and marks of the outermost tiles
const TILE_GAP = 8;
const BETWEEN = 26;        // from block to block
const NARROWEST_STEP = 18; // pixels from tile to tile; more heads than fit so can be scrolled to
const HIGHEST_STEP = 150;
const UNEVEN = 1.4;        // a tile's longer side is at most so many times its shorter one

/**
 * Rows are layers, columns are heads; blocks stand side by side.
 * @param {Place[]} places
 * @param {string[]} titles  of the blocks
 * @param {{width: number, height: number}} room
 * @param {number} [letters]  how large they are; 1: 14 pixels
 * @returns {Layout}
 */
export function inLayers(places, titles, room, letters = 1) {
  const most = (/** @type {Place[]} */ of, /** @type {"layer" | "head"} */ axis) =>
    of.reduce((all, place) => Math.max(all, place[axis] + 1), 0);
  const widths = titles.map((_, block) => most(places.filter((p) => p.block === block), "head"));
  const starts = widths.map((_, block) => widths.slice(0, block).reduce((a, b) => a + b, 0));
  const columns = widths.reduce((a, b) => a + b, 0), rows = most(places, "layer");
  const side = LAYERS_WIDE * letters;
  const top = NAMES_HIGH * letters * (titles.length > 1 ? 2 : 1) + TILE_EDGE;
  const free = room.width - side - TILE_EDGE - BETWEEN * (titles.length - 1);
  const x = Math.max(NARROWEST_STEP, Math.floor(free / columns));
  const high = Math.min(HIGHEST_STEP, Math.floor((room.height - top - TILE_EDGE) / rows));
  const y = Math.max(NARROWEST_STEP, high);
  const step = { x: Math.min(x, Math.round(y * UNEVEN)), y: Math.min(y, Math.round(x * UNEVEN)) };
  const gap = gapOf(Math.min(step.x, step.y));
  const tile = { width: step.x - gap, height: step.y - gap };
  const leftOf = (/** @type {number} */ block, /** @type {number} */ head) =>
    side + block * BETWEEN + (starts[block] + head) * step.x;
  return {
    slots: places.map((place) => ({
      place,
      left: leftOf(place.block, place.head), top: top + place.layer * step.y,
      row: place.layer, column: starts[place.block] + place.head,
    })),
    tile, gap, left: side, top, ranked: false, letters,
    width: leftOf(titles.length - 1, widths[titles.length - 1]) + TILE_EDGE,
    height: top + rows * step.y + TILE_EDGE,
    titles: (titles.length > 1 ? titles : []).map((text, block) =>
      ({ text, at: leftOf(block, 0) })),
    across: widths.flatMap((width, block) => thinned(width, step.x / letters).map((head) =>
      ({ text: "H" + head, at: leftOf(block, head) + tile.width / 2 }))),
    down: thinned(rows, step.y / letters).map((layer) =>
      ({ text: "L" + layer, at: top + layer * step.y + tile.height / 2 })),
  };
}

/**
 * One sequence that flows in rows; each tile bears its name.
 * @param {Place[]} places
 * @param {number} narrowest  room that the longest name takes
 * @param {{width: number, height: number}} room
 * @param {number} [letters]  how large they are; 1: 14 pixels
 * @returns {Layout}
 */
export function inRank(places, narrowest, room, letters = 1) {
  const named = RANKED_NAME * letters;
  const free = room.width - 2 * TILE_EDGE;
  const most = Math.max(1, Math.floor(free / (narrowest + TILE_GAP)));
  let columns = 1;
  const stepAt = (/** @type {number} */ count) =>
    Math.min(HIGHEST_STEP, Math.floor(free / count));
  const rows = () => Math.ceil(places.length / columns);
  const high = () => rows() * (stepAt(columns) + named) + TILE_EDGE;
  while (columns < most && high() > room.height) columns += 1;
  const step = stepAt(columns), gap = gapOf(step);
  return {
    slots: places.map((place, n) => ({
      place,
      left: TILE_EDGE + (n % columns) * step,
      top: Math.floor(n / columns) * (step + named) + named,
      row: Math.floor(n / columns), column: n % columns,
    })),
    tile: { width: step - gap, height: step - gap }, gap, left: 0, top: 0, ranked: true, letters,
    width: Math.min(room.width, 2 * TILE_EDGE + columns * step), height: high(),
    titles: [], across: [], down: [],
  };
}

/** @param {number} step */
function gapOf(step) {
  return Math.min(TILE_GAP, Math.floor(step / 5));
}

/**
 * As many of the first numbers as have room for a name of 14 pixels.
 * @param {number} count
 * @param {number} step
 */
function thinned(count, step) {
  const every = Math.ceil(30 / step);
  return [...Array(count).keys()].filter((n) => n % every === 0);
}

/**
 * The tile at a point, and the part of it (0 to 1) to the right and down.
 * @param {Layout} layout
 * @param {number} x
 * @param {number} y
 * @returns {{slot: Slot, right: number, down: number} | null}
 */
export function slotAt({ slots, tile }, x, y) {
  const slot = slots.find(({ left, top }) =>
    x >= left && x < left + tile.width && y >= top && y < top + tile.height);
  if (!slot) return null;
  return { slot, right: (x - slot.left) / tile.width, down: (y - slot.top) / tile.height };
}

/**
 * The tile that a key leads to; none at the border.
 * @param {Layout} layout
 * @param {Slot} from
 * @param {string} key
 * @returns {Slot | undefined}
 */
export function neighbour({ slots }, { row, column }, key) {
  const line = slots.filter((slot) => slot.row === row);
  const at = (/** @type {number} */ r, /** @type {number} */ c) =>
    slots.find((slot) => slot.row === r && slot.column === c);
  switch (key) {
    case "ArrowLeft": return at(row, column - 1);
    case "ArrowRight": return at(row, column + 1);
    case "ArrowUp": return at(row - 1, column);
    case "ArrowDown": return at(row + 1, column);
    case "Home": return line[0];
    case "End": return line[line.length - 1];
    default: return undefined;
  }
}
