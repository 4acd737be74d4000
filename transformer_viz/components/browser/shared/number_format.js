// Numbers as they are written in every picture.

import { tell } from "./i18n.js";

const RAISED = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];
const NEVER = -1e30; // a mask's number that only stands for minus infinity

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

/**
 * A whole number, its thousands parted by a narrow space, which means the same in all languages.
 * @param {number} number
 */
export function counted(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

/**
 * A number with four digits behind the point; a very large or small one with a power of ten.
 * @param {number} value
 * @returns {string}
 */
export function figure(value) {
  if (Number.isNaN(value)) return tell("no number");
  if (value === Infinity) return "∞";
  if (value <= NEVER) return "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0.0000"; // without the sign of a negative zero
  if (size >= 0.001 && size < 100000) return value.toFixed(4).replace("-", "−");
  const [digits, power] = value.toExponential(3).split("e");
  const raised = [...power.replace("+", "")].map((sign) => sign === "-" ? "⁻" : RAISED[+sign]);
  return digits.replace("-", "−") + "·10" + raised.join("");
}
