/** Whether Python has answered both sliders: none of them waits for the hand or for the page. */
export default () => ["temperature", "window"].every((name) => {
  const host = /** @type {any} */ (document.querySelector(`.st-key-${name} [data-painted]`));
  return host !== null && !host.describe().shown.moving;
});
