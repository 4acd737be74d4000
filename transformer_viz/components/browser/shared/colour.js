// Colours: whether the page is dark, its palette, and lookup tables for canvases.

import { brushOf } from "./dom.js";

/** @typedef {{card: string, paper: string, ink: string, quiet: string, line: string,
 *   accent: string, warm: string, hatch: string, amounts: string[], changes: string[],
 *   heads: string[], ramps: Record<string, string[]>}} Palette */

const PAPER = globalThis.matchMedia?.("print"); // paper is light

/** Draw anew when the page goes to paper, and when it is back on the screen. */
export function followPaper() {
  PAPER?.addEventListener("change", () => window.dispatchEvent(new Event("tv-dressed")));
}

/**
 * Whether the page behind an element is dark.
 * @param {Element} place
 */
export function isDark(place) {
  if (PAPER?.matches) return false;
  const colour = getComputedStyle(place).getPropertyValue("--st-background-color").trim();
  const [red, green, blue] = rgb(colour || "#ffffff");
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}

/** @typedef {{light: Palette, dark: Palette}} Colours */

/**
 * The palette for the page behind a view; its plain colours are set as CSS variables (--ink ...).
 * @param {HTMLElement} place
 * @param {{colours: Colours}} data
 * @returns {Palette}
 */
export function paletteOf(place, data) {
  const palette = data.colours[isDark(place) ? "dark" : "light"];
  for (const [name, colour] of Object.entries(palette)) {
    if (typeof colour === "string") place.style.setProperty("--" + name, colour);
  }
  return palette;
}

/**
 * Any CSS colour as [red, green, blue], 0 to 255.
 * @param {string} colour
 * @returns {number[]}
 */
export function rgb(colour) {
  const hex = /^#([\da-f]{6})$/i.exec(colour);
  if (hex) return [0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16));
  const canvas = document.createElement("canvas");
  const brush = brushOf(canvas);
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  return [...brush.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

/**
 * A place between 0 and 1 on a ramp of colours, as [red, green, blue].
 * @param {string[]} ramp
 * @param {number} part
 * @returns {number[]}
 */
export function shade(ramp, part) {
  const place = Math.min(1, Math.max(0, part)) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  const [from, to] = [rgb(ramp[low]), rgb(ramp[low + 1])];
  return from.map((value, n) => Math.round(value + (place - low) * (to[n] - value)));
}

/**
 * `count` colours of a ramp from its first to its last stop, as a canvas stores them
 * (little-endian RGBA). Amounts below `threshold` (a part of 1) get the ramp's first colour; the
 * others are raised to the power `gamma` first.
 * @param {string[]} ramp
 * @param {{gamma?: number, threshold?: number, count?: number}} [how]
 * @returns {Uint32Array}
 */
export function lookup(ramp, { gamma = 1, threshold = 0, count = 256 } = {}) {
  const table = new Uint32Array(count);
  for (let n = 0; n < count; n++) {
    const amount = n / (count - 1);
    const [red, green, blue] = shade(ramp, amount < threshold ? 0 : amount ** gamma);
    table[n] = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }
  return table;
}

/**
 * The colour of each of 256 changes: 1 and 255 are -limit and limit, 128 is none, 0 is no colour.
 * @param {string[]} ramp
 * @param {{gamma: number, threshold: number}} how
 * @param {number} limit
 * @returns {Uint32Array}
 */
export function changeColours(ramp, { gamma, threshold }, limit) {
  const table = new Uint32Array(256);
  for (let code = 1; code < 256; code++) {
    const part = (code - 128) / 127;
    const shown = Math.abs(part) * limit < threshold ? 0 : Math.abs(part) ** gamma;
    const [red, green, blue] = shade(ramp, (1 + Math.sign(part) * shown) / 2);
    table[code] = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }
  return table;
}
