/**
 * Every text that can be seen, in the page and in our pictures, whose letters are too small.
 * @param {number} least size in pixels
 */
export default (least) => {
  const found = /** @type {string[]} */ ([]);
  const look = (/** @type {Node} */ root) => {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      if (node instanceof Element) {
        if (node.shadowRoot) look(node.shadowRoot);
        continue;
      }
      const place = node.parentElement, range = document.createRange();
      const text = node.nodeValue?.trim();
      if (!text || !place || place.closest("style, script")) continue;
      if (!place.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
      range.selectNodeContents(node);
      const {width, height} = range.getBoundingClientRect();
      const size = parseFloat(getComputedStyle(place).fontSize);
      if (width > 2 && height > 2 && size < least) found.push(`${size}px ${text}`);
    }
  };
  look(document);
  return found;
};
