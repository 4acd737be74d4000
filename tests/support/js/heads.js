/** Layer and head of every tile of the opened block, in the atlas's order. */
export default () => {
  const host = /** @type {any} */ (document.querySelector(".st-key-atlas [data-painted]"));
  /** @type {ReturnType<import("../../../transformer_viz/components/browser/atlas/atlas.js").Atlas["describe"]>} */
  const { opened, tiles } = host.describe().shown;
  return tiles.filter(({ block }) => block === (opened?.block ?? 0))
    .map(({ layer, head }) => [layer, head]);
};
