// Where the words stand between which lines are drawn: in two columns, or one row above the other.

/** @typedef {import("./links.js").LinesData} LinesData */
/**
 * One sentence: `places` of its words along the picture, `lane` where their lines end, the angle of
 * its labels, where their text begins, and how far they may reach.
 * @typedef {{places: number[], lane: number, angle: number, align: CanvasTextAlign,
 *   reach: number}} Side
 */
/**
 * `across`: the sentences lie; else they stand. `length` is that of the picture along them (it
 * scrolls), `pitch` the least distance of two words. Sides: queries, keys.
 * @typedef {{across: boolean, length: number, pitch: number, sides: Side[]}} Layout
 */

const PITCH = 24;        // pixels from word to word
const GAP = 14;          // between two words that lie in a row
const REACH = 120;       // pixels of a word's label; longer ones are cut
const BESIDE = 8;        // between a label and its lines
const LINES_SLANT = 50 * (Math.PI / 180);
const APART = 520;       // columns do not stand further apart
const STRETCH = 40;      // nor words in a row than so much more than they need
const EDGE = 12;

/**
 * @param {LinesData} data
 * @param {{width: number, height: number}} room  what can be seen at once, in pixels
 * @param {(text: string) => number} measure  the width of a text
 * @returns {Layout}
 */
export function layOut(data, room, measure) {
  const labels = [data.rows.labels, data.columns.labels];
  const widths = labels.map((words) => words.map((word) => Math.min(REACH, measure(word))));
  if (!data.across) return columns(widths, room);
  return lying(widths, room) ?? slanted(widths, room);
}

/**
 * @param {number[][]} widths
 * @param {{width: number}} room
 * @returns {Layout}
 */
function columns(widths, { width }) {
  const reach = widths.map((side) => Math.max(0, ...side));
  const free = width - reach[0] - reach[1] - 2 * (BESIDE + EDGE);
  const spare = Math.max(0, free - APART) / 2; // half of it on either side
  const lanes = [EDGE + reach[0] + BESIDE + spare, width - EDGE - reach[1] - BESIDE - spare];
  const sides = widths.map((side, n) => ({
    places: side.map((_, place) => EDGE + PITCH * (place + 0.5)),
    lane: lanes[n],
    angle: 0,
    align: /** @type {CanvasTextAlign} */ (n ? "left" : "right"),
    reach: REACH,
  }));
  const length = 2 * EDGE + PITCH * Math.max(...widths.map((side) => side.length));
  return { across: false, length, pitch: PITCH, sides };
}

/**
 * Two sentences as one reads them, each as wide as it needs; null where one is too long.
 * @param {number[][]} widths
 * @param {{width: number, height: number}} room
 * @returns {Layout | null}
 */
function lying(widths, { width, height }) {
  const needed = widths.map((side) => side.reduce((all, word) => all + word + GAP, 0));
  if (Math.max(...needed) > width - 2 * EDGE) return null;
  const sides = widths.map((side, n) => {
    const more = Math.min(STRETCH, (width - 2 * EDGE - needed[n]) / Math.max(1, side.length));
    let end = (width - needed[n] - more * side.length) / 2;
    const places = side.map((word) => {
      const middle = end + (word + GAP + more) / 2;
      end += word + GAP + more;
      return middle;
    });
    const lane = n ? PITCH + EDGE : height - PITCH - EDGE;
    const align = /** @type {CanvasTextAlign} */ ("center");
    return { places, lane, angle: 0, align, reach: REACH };
  });
  return { across: true, length: width, pitch: PITCH, sides };
}

/**
 * Two sentences with slanted words, which need less room from one to the next.
 * @param {number[][]} widths
 * @param {{width: number, height: number}} room
 * @returns {Layout}
 */
function slanted(widths, { width, height }) {
  const reach = widths.map((side) => Math.max(0, ...side));
  const last = EDGE + Math.max(...reach) * Math.cos(LINES_SLANT); // a label goes on to the right
  const count = Math.max(...widths.map((side) => side.length));
  const pitch = Math.max(PITCH, (width - 2 * EDGE - last) / count);
  const lanes = reach.map((most, n) => {
    const label = EDGE + BESIDE + most * Math.sin(LINES_SLANT);
    return n ? label : height - label;
  });
  const sides = widths.map((side, n) => ({
    places: side.map((_, place) => EDGE + pitch * (place + 0.5)),
    lane: lanes[n],
    angle: n ? -LINES_SLANT : LINES_SLANT,
    align: /** @type {CanvasTextAlign} */ ("left"),
    reach: REACH,
  }));
  return { across: true, length: Math.max(width, EDGE + count * pitch + last), pitch, sides };
}

/**
 * Where a word's lines end, in pixels of the picture.
 * @param {Layout} layout
 * @param {number} side
 * @param {number} place
 * @param {number} [shift]  along the sentence
 */
export function endOf({ across, sides }, side, place, shift = 0) {
  const along = sides[side].places[place] + shift;
  return across ? { x: along, y: sides[side].lane } : { x: sides[side].lane, y: along };
}

/**
 * Which word stands under a point of the picture, if any.
 * @param {Layout} layout
 * @param {number} x
 * @param {number} y
 * @returns {{side: number, place: number} | null}
 */
export function wordAt({ across, sides, pitch }, x, y) {
  const depth = across ? y : x;
  const [queries, keys] = sides.map(({ lane }) => lane);
  const side = across ? below(depth, queries, keys) : below(-depth, -queries, -keys);
  if (side < 0) return null;
  const { places, lane, angle, align } = sides[side];
  // A slanted label leads back to the place where its lines end.
  const back = angle ? Math.max(0, Math.abs(y - lane) - BESIDE) / Math.tan(LINES_SLANT) : 0;
  const along = across ? x - back : y;
  const place = nearest(places, along);
  const reach = align === "center" ? Infinity : pitch / 2;
  return place >= 0 && Math.abs(places[place] - along) <= reach ? { side, place } : null;
}

/**
 * The side whose words reach to a depth: queries beyond the first lane, keys before the second.
 * @param {number} depth
 * @param {number} queries
 * @param {number} keys
 */
function below(depth, queries, keys) {
  if (depth > queries - PITCH / 2) return 0;
  return depth < keys + PITCH / 2 ? 1 : -1;
}

/**
 * @param {number[]} places
 * @param {number} along
 */
function nearest(places, along) {
  let best = -1;
  for (let n = 0; n < places.length; n++) {
    if (best < 0 || Math.abs(places[n] - along) < Math.abs(places[best] - along)) best = n;
  }
  return best;
}

/**
 * Where a label begins, counted from the end of its lines.
 * @param {Layout} layout
 * @param {number} side
 */
export function labelAt({ across }, side) {
  const outward = side ? 1 : -1;
  return across ? { x: 0, y: -outward * BESIDE } : { x: outward * BESIDE, y: 0 };
}
