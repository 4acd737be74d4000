/** Where the tiles of all heads and the cells of the opened head's map are, in pixels of the page. */
export default () => {
  const shown = (/** @type {string} */ name) =>
    /** @type {any} */ (document.querySelector(`.st-key-${name} [data-painted]`)).describe().shown;
  const { tiles, room } = shown("atlas"), { cells } = shown("head-view");
  return { tiles, room, cells };
};
