// Numbers as they are written in every picture.

import { tell } from "./i18n.js";

/**
 * A weight as it is written, "unknown" where it is none; a change with its sign.
 * @param {number} weight
 * @param {number} digits
 * @param {boolean} change
 */
export function signed(weight, digits, change) {
  if (Number.isNaN(weight)) return tell("unknown");
  const size = Math.abs(weight).toFixed(digits);
  const sign = Number(size) === 0 ? "" : weight < 0 ? "−" : change ? "+" : "";
  return sign + size;
}
