/**
 * Whether the page rests: nothing runs, and whatever was to follow (the free sentence, the other
 * order) has followed; no slider waits for the hand to rest, or for the page to hear where it was
 * left.
 */
export default () => {
  const app = /** @type {HTMLElement | null} */ (document.querySelector('[data-testid="stApp"]'));
  const waits = (/** @type {string} */ what) => // not `innerText`: this is asked many times a second
    document.querySelector(`[data-what="${what}"]`)?.textContent?.trim() === "…";
  return app?.dataset.testScriptState === "notRunning"
    && app.dataset.testConnectionState === "CONNECTED"
    && !!document.querySelector('[data-testid="stMain"]')
    && !waits("after") && !waits("order-words")
    && ![...document.querySelectorAll("[data-painted]")].some((host) =>
      host.shadowRoot?.querySelector("[data-moving]"));
};
