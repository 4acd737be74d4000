// Where a word stands in a long text: plain data, for the search and for tests.

/** @typedef {import("./map_words.js").Words} Words */
/** @typedef {{rows: number[], columns: number[]}} Find  of one word: its rows and its columns */

/**
 * A text as it is compared: case and forms of the same letter do not matter.
 * @param {string} text
 */
function folded(text) {
  return text.normalize("NFKC").toLowerCase();
}

/**
 * The words of a text that contain what is looked for, in the order of the text.
 * @param {Words} words
 * @param {string} wanted
 * @returns {Find[]}
 */
export function findsOf({ spelled, rowWords, columnWords }, wanted) {
  const needle = folded(wanted.trim());
  if (!needle) return [];
  /** @type {Map<number, Find>} */
  const found = new Map();
  spelled.forEach((word, n) => {
    if (folded(word).includes(needle)) found.set(n, { rows: [], columns: [] });
  });
  rowWords.forEach((word, row) => found.get(word)?.rows.push(row));
  columnWords.forEach((word, column) => found.get(word)?.columns.push(column));
  return [...found.values()];
}

/**
 * The find to begin with: the first one in or behind the part that is shown.
 * @param {Find[]} finds
 * @param {number} from  the first row or column that is shown
 */
export function firstFrom(finds, from) {
  const next = finds.findIndex((find) => placeOf(find).column >= from);
  return next < 0 ? 0 : next;
}

/**
 * The cell of a find to which the map goes: its first row, and its first column.
 * @param {Find} find
 */
export function placeOf({ rows, columns }) {
  const column = columns[0] ?? rows[0];
  return { row: rows[0] ?? column, column };
}
