/**
 * Tiles that a report computes, as numbers: [level, row, column] of each, of a head of a run.
 * Needs the page's own scripts around it, which name `module_report_book`.
 * @param {[run: number, place: [string, number, number], squares: [number, number, number][]]} wanted
 */
export default async ([run, place, squares]) => {
  /** @type {typeof import("../../../transformer_viz/components/browser/report/book.js")} */
  const { ReportBook, inflated } = /** @type {any} */ (globalThis).module_report_book;
  const holder = /** @type {Element} */ (document.getElementById("tv-data"));
  const book = new ReportBook(await inflated(holder)), head = book.longHead(run, place);
  if (!head) throw new Error(`${place.join(" ")} is not in this page`);
  // As bytes in base64: as numbers, the 65,536 of a tile would take seconds on their way.
  const packed = (/** @type {Float32Array | Uint8Array} */ { buffer, byteOffset, byteLength }) => {
    const bytes = new Uint8Array(buffer, byteOffset, byteLength);
    let text = "";
    for (let at = 0; at < byteLength; at += 32768) {
      text += String.fromCharCode(...bytes.subarray(at, at + 32768));
    }
    return btoa(text);
  };
  const found = [];
  for (const [level, row, column] of squares) {
    const { weights, masked } = await head.tile({ level, row, column });
    found.push({
      shape: weights.shape, weights: packed(weights.data), masked: packed(masked.data),
    });
  }
  return found;
};
