/**
 * Where a head's tile is in the window, as {left, top, width, height}; the atlas is scrolled as far
 * as needed to see it whole.
 * @param {[layer: number, head: number]} wanted
 */
export default ([layer, head]) => {
  const host = /** @type {any} */ (document.querySelector(".st-key-atlas [data-painted]"));
  const frame = host.shadowRoot.querySelector(".tv-frame");
  const box = () => {
    /** @type {ReturnType<import("../../../transformer_viz/components/browser/atlas/atlas.js").Atlas["describe"]>} */
    const { opened, tiles, room } = host.describe().shown;
    const tile = tiles.find((one) =>
      one.block === (opened?.block ?? 0) && one.layer === layer && one.head === head);
    if (!tile) throw new Error(`The atlas has no L${layer} H${head} in the opened block.`);
    return { tile, room };
  };
  const { tile, room } = box();
  const beyond = (/** @type {number} */ from, /** @type {number} */ to) =>
    Math.min(0, from) || Math.max(0, to);
  frame.scrollLeft += beyond(tile.left - room.left - 8,
    tile.left + tile.width + 8 - room.left - room.width);
  frame.scrollTop += beyond(tile.top - room.top - 24,
    tile.top + tile.height + 8 - room.top - room.height);
  const { left, top, width, height } = box().tile;
  return { left, top, width, height };
};
