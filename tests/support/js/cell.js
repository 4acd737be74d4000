/**
 * Where a cell of the opened head's map is in the window, as {left, top, width, height}.
 * @param {[row: number, column: number]} wanted
 */
export default ([row, column]) => {
  const host = /** @type {any} */ (document.querySelector(".st-key-head-view [data-painted]"));
  /** @type {ReturnType<import("../../../transformer_viz/components/browser/head_map/map.js").HeadMap["describe"]>} */
  const { rows, columns, cells } = host.describe().shown;
  if (!cells) throw new Error("The map is not drawn yet.");
  const width = cells.width / (columns[1] - columns[0]), height = cells.height / (rows[1] - rows[0]);
  return {
    left: cells.left + (column - columns[0]) * width, top: cells.top + (row - rows[0]) * height,
    width, height,
  };
};
