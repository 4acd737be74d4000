// What a report says by itself, where the app would ask Python.

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
    .map((n) => `“${columns.labels[n]}” ${weights[n].toFixed(2)}`);
  if (!links.length) return `“${query}” looks at nothing: every weight of its row is 0.`;
  return `“${query}” looks most at ${links.join(", then ")}.`;
}

/**
 * What stands instead of a head whose weights are not in the file.
 * @param {number} layer
 * @param {number} head
 * @param {number} kept
 */
export function describeMissing(layer, head, kept) {
  return `The weights of L${layer} H${head} are not in this file, so only its small picture is. `
    + `To keep it small it has those of ${kept} heads: the one that was open, and the most decided.`;
}
