/**
 * Where the keyboard is, and whether the place where it was before looks otherwise now. The place
 * and its slider are kept in the window for the next call and for thumb.js.
 */
export default () => {
  const kept = /** @type {{lastFocus?: [Element, string][], lastThumb?: Element}} */ (
    /** @type {unknown} */ (window));
  let place = /** @type {Element} */ (document.activeElement);
  while (place.shadowRoot?.activeElement) place = place.shadowRoot.activeElement;
  const around = /** @type {Element[]} */ ([]);
  for (let at = /** @type {Element | undefined} */ (place); at && around.length < 6;) {
    around.push(at, ...at.children);
    at = at.parentElement ?? /** @type {ShadowRoot} */ (at.getRootNode()).host;
  }
  const seen = (/** @type {Element} */ element) => {
    const style = getComputedStyle(element);
    return [style.outlineStyle === "none" ? "" : style.outline, style.boxShadow,
      style.borderColor, style.backgroundColor, style.textDecoration].join();
  };
  const before = kept.lastFocus;
  kept.lastFocus = around.map((element) => [element, seen(element)]);
  const input = /** @type {HTMLInputElement} */ (place), range = input.type === "range";
  if (range) kept.lastThumb = place;
  return {
    name: place.getAttribute("aria-label") ?? input.labels?.[0]?.innerText ?? input.innerText,
    role: place.getAttribute("role") ?? place.tagName.toLowerCase(),
    thumb: range,
    left: before ? before.some(([element, style]) => seen(element) !== style) : null,
  };
};
