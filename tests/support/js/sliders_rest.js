/** Whether Python has answered both sliders: none of them waits for the hand or for the page. */
export default () => ["temperature", "window"].every((name) => {
  const host = document.querySelector(`.st-key-${name} [data-painted]`);
  const {mounted} = /** @type {{mounted: {view: {place: Element}}}} */ (/** @type {unknown} */ (host));
  return !mounted.view.place.hasAttribute("data-moving");
});
