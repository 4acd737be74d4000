/**
 * Whether the page rests: nothing runs, and whatever was to follow (the free sentence, the other
 * order) has followed; no slider waits for the hand to rest, or for the page to hear where it was
 * left. With `say`: what does not rest, in a word each.
 * @param {boolean} [say]
 */
export default (say) => {
  const app = /** @type {HTMLElement | null} */ (document.querySelector('[data-testid="stApp"]'));
  const waits = (/** @type {string} */ what) => // not `innerText`: this is asked many times a second
    document.querySelector(`[data-what="${what}"]`)?.textContent?.trim() === "…";
  const running = app?.dataset.testScriptState !== "notRunning"
    || app.dataset.testConnectionState !== "CONNECTED"
    || !document.querySelector('[data-testid="stMain"]');
  const moving = () => [...document.querySelectorAll("[data-painted]")].some((host) =>
    host.shadowRoot?.querySelector("[data-moving]"));
  if (!say) return !running && !waits("after") && !waits("order-words") && !moving();
  return [
    running ? `script ${app?.dataset.testScriptState} ${app?.dataset.testConnectionState}` : "",
    waits("after") ? "translation" : "", waits("order-words") ? "word order" : "",
    moving() ? "slider" : "",
  ].filter(Boolean).join(", ");
};
