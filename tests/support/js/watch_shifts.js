/** Gather the layout shifts from now on in `window.shifts`, each as the share of the screen that moved
 * (web.dev, "Cumulative Layout Shift"); what a hand caused in the last half second counts too. */
export default () => {
  /** @type {number[]} */
  const shifts = [];
  Object.assign(window, { shifts });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) shifts.push(/** @type {any} */ (entry).value);
  }).observe({ type: "layout-shift" });
};
