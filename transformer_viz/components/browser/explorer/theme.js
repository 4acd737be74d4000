// Whether the notebook around a widget is dark, whatever notebook it is.

import { rgb } from "../shared/colour.js";

const DARKER = 128; // of 255

/**
 * By the first background that is seen behind an element; where all are clear, as in the frames of
 * some notebooks, by the colour of its words.
 * @param {Element} place
 */
export function isNotebookDark(place) {
  /** @type {Element | null} */
  let here = place;
  while (here) {
    const colour = getComputedStyle(here).backgroundColor;
    if (!/^(transparent|rgba\(.*,\s*0\))$/.test(colour)) return light(colour) < DARKER;
    const root = here.getRootNode();
    here = here.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
  }
  return light(getComputedStyle(place).color) >= DARKER;
}

/** @param {string} colour */
function light(colour) {
  const [red, green, blue] = rgb(colour);
  return 0.299 * red + 0.587 * green + 0.114 * blue;
}

/**
 * Hear when the notebook changes its clothes, until the signal ends it.
 * @param {AbortSignal} signal
 * @param {() => void} act
 */
export function onNotebookTheme(signal, act) {
  const watcher = new MutationObserver(() => act());
  for (const place of [document.documentElement, document.body]) {
    watcher.observe(place, { attributes: true });
  }
  const asked = matchMedia("(prefers-color-scheme: dark)");
  asked.addEventListener("change", () => act(), { signal });
  signal.addEventListener("abort", () => watcher.disconnect());
}
