// What is pointed at in one picture lights up in all of them.

/** @typedef {{sentence: string, tokens: number[]}} Spot  some of the model's own tokens */
/** @typedef {{sentence: string, labels: string[], groups: number[][]}} Ruler  one side of a map */
/** @typedef {{row: Spot | null, column: Spot | null}} Light */

export const DARKNESS = Object.freeze({ row: null, column: null });
const LIT = { now: /** @type {Light} */ (DARKNESS) };
// Each component on a page has its own copy of this module: they agree by the window's event alone.
const SKY = { target: /** @type {EventTarget} */ (window) };
SKY.target.addEventListener("tv-light", remember);

/** Light nothing but the pictures of this copy: a notebook has several widgets on one page. */
export function keepLight() {
  SKY.target.removeEventListener("tv-light", remember);
  SKY.target = new EventTarget();
  SKY.target.addEventListener("tv-light", remember);
}

/** @param {Event} event */
function remember(event) {
  LIT.now = /** @type {CustomEvent} */ (event).detail;
}

/**
 * Light a row and a column everywhere; null is none.
 * @param {Spot | null} row
 * @param {Spot | null} column
 */
export function shine(row, column) {
  SKY.target.dispatchEvent(new CustomEvent("tv-light", { detail: { row, column } }));
}

/** What is lit just now. */
export function lit() {
  return LIT.now;
}

/**
 * Hear what is lit, until the signal ends it.
 * @param {AbortSignal} signal
 * @param {(light: Light) => void} hear
 */
export function onLight(signal, hear) {
  SKY.target.addEventListener("tv-light", (event) =>
    hear(/** @type {CustomEvent} */ (event).detail), { signal });
}

/**
 * The rows or columns in which lit tokens stand; none where the side is another sentence's.
 * @param {Ruler} ruler
 * @param {Spot | null} spot
 * @returns {number[]}
 */
export function placesOn(ruler, spot) {
  if (!spot || spot.sentence !== ruler.sentence) return [];
  const wanted = new Set(spot.tokens);
  const found = [];
  for (let n = 0; n < ruler.groups.length; n++) {
    if (ruler.groups[n].some((token) => wanted.has(token))) found.push(n);
  }
  return found;
}

/**
 * The tokens that stand in a row or column.
 * @param {Ruler} ruler
 * @param {number} index
 * @returns {Spot}
 */
export function spotOn(ruler, index) {
  return { sentence: ruler.sentence, tokens: ruler.groups[index] };
}

/**
 * A spot as the attribute of an element says it: "produced:4,5".
 * @param {string | null} words
 * @returns {Spot | null}
 */
export function spotOf(words) {
  if (!words) return null;
  const [sentence, tokens] = words.split(":");
  return { sentence, tokens: tokens.split(",").map(Number) };
}

/**
 * Whether two spots share a token.
 * @param {Spot | null} one
 * @param {Spot | null} other
 */
export function meet(one, other) {
  return Boolean(one && other && one.sentence === other.sentence
    && one.tokens.some((token) => other.tokens.includes(token)));
}
