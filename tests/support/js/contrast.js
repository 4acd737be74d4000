/**
 * The contrast of an element's words with what they stand on (WCAG 2.2, relative luminance).
 * @param {Element} place
 */
export default (place) => {
  const light = (/** @type {string} */ colour) => {
    const [red, green, blue] = (colour.match(/[\d.]+/g) ?? []).slice(0, 3)
      .map((one) => Number(one) / 255)
      .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const {color, backgroundColor} = getComputedStyle(place);
  const [dark, bright] = [light(color), light(backgroundColor)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
