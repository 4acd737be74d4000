/** Where the slider is whose thumb had the keyboard last: a thumb's style cannot be asked for. */
export default () => {
  const {lastThumb} = /** @type {{lastThumb: Element}} */ (/** @type {unknown} */ (window));
  const {left, top, width, height} = lastThumb.getBoundingClientRect();
  return {x: left - 8, y: top - 8, width: width + 16, height: height + 16};
};
