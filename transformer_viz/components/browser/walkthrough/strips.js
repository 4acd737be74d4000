// What the pictures of a stage have in common: they are drawn anew in every width, and keys go
// along their strips.

import { listener } from "../shared/dom.js";

/**
 * Hear what is done in a picture, and paint it when its size changes.
 * @param {HTMLElement} frame
 * @param {() => void} paint
 * @param {Record<string, (event: any) => void>} hears  by the names of events
 * @returns {() => void} the end of it
 */
export function watched(frame, paint, hears) {
  const ending = new AbortController(), on = listener(ending.signal);
  for (const [what, does] of Object.entries(hears)) on(frame, what, does);
  const sizes = new ResizeObserver(paint);
  sizes.observe(frame);
  return () => {
    ending.abort();
    sizes.disconnect();
  };
}

/**
 * Where a key leads along a strip: a dimension; undefined where it leads nowhere.
 * @param {KeyboardEvent} event
 * @param {number} here
 * @param {number} last
 * @returns {number | undefined}
 */
export function stepAlong(event, here, last) {
  /** @type {Record<string, number>} */
  const ways = {
    ArrowLeft: Math.max(0, here - 1), ArrowRight: Math.min(last, here + 1), Home: 0, End: last,
  };
  if (event.key in ways) event.preventDefault(); // the stepper hears that it was meant for here
  return ways[event.key];
}
