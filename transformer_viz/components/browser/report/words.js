// What a report says by itself, where the app would ask Python.

import { tell } from "../shared/i18n.js";

/**
 * A block as it is called on the screen.
 * @param {string} block
 */
export function blockName(block) {
  /** @type {Record<string, string>} */
  const names = { encoder: tell("encoder"), decoder: tell("decoder"), cross: tell("cross") };
  return names[block] ?? block;
}

/**
 * One row in a sentence: “es” looks most at “animal” 0.62, then “it” 0.21.
 * @param {any} map  the data of a map
 * @param {number} row
 */
export function describeRow({ rows, columns, arrays }, row) {
  const width = columns.labels.length, query = rows.labels[row];
  const weights = [...arrays.weights.data.slice(row * width, (row + 1) * width)];
  const order = weights.map((_, n) => n).sort((a, b) => weights[b] - weights[a] || a - b);
  const links = order.slice(0, 2).filter((n) => weights[n] > 0)
    .map((n) => tell("“{word}” {weight}",
      { word: columns.labels[n], weight: weights[n].toFixed(2) }));
  if (!links.length) {
    return tell("“{query}” looks at nothing: every weight of its row is 0.", { query });
  }
  const ranked = links.join(tell(", then "));
  return tell("“{query}” looks most at {ranked}.", { query, ranked });
}

/**
 * What stands instead of a head whose weights are not in the file.
 * @param {number} layer
 * @param {number} head
 * @param {number} kept
 */
export function describeMissing(layer, head, kept) {
  return tell("The weights of L{layer} H{head} are not in this file, so only its small picture is. "
    + "To keep it small it has those of {kept} heads: the one that was open, and the most decided.",
  { layer, head, kept });
}

/**
 * Why some of the heads that were laid over the opened one have no lines.
 * @param {boolean} long  whether the text is so long that its lines were chosen for each head
 */
export function describeLeftOut(long) {
  return long
    ? tell("In a file of so long a text lines are drawn of the opened head only; the app draws "
      + "several.")
    : tell("Heads whose weights are not in this file are left out of the lines.");
}
