/**
 * Ask for a live frame, and list what its parts were and how many frames were painted meanwhile.
 * @param {[step: Record<string, string>, parts: number]} wanted
 */
export default async ([step, parts]) => {
  const { liveFrame } = await import(`${location.origin}/shared/live_frame.js`);
  /** @type {[string, number[]][]} */
  const heard = [];
  let frames = 0;
  const count = () => {
    frames++;
    requestAnimationFrame(count);
  };
  window.addEventListener("tv-frame", (event) => {
    const { part, data } = /** @type {CustomEvent} */ (event).detail;
    heard.push([part, [...data]]);
    if (heard.length === parts) requestAnimationFrame(count);
  });
  const outcome = await liveFrame("/live/token", step, new AbortController().signal);
  return { outcome, heard, frames };
};
