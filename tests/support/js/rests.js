/**
 * Whether the page rests: nothing runs, and whatever was to follow (the free sentence, the other
 * order) has followed; no slider waits for the hand to rest, or for the page to hear where it was
 * left.
 */
export default () => {
  const app = /** @type {HTMLElement | null} */ (document.querySelector('[data-testid="stApp"]'));
  const text = (/** @type {string} */ what) =>
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-what="${what}"]`))?.innerText;
  const moving = [...document.querySelectorAll("[data-painted]")].some((host) =>
    host.shadowRoot?.querySelector("[data-moving]"));
  return !moving && app?.dataset.testScriptState === "notRunning"
    && app.dataset.testConnectionState === "CONNECTED"
    && !!document.querySelector('[data-testid="stMain"]')
    && text("after") !== "…" && text("order-words") !== "…";
};
