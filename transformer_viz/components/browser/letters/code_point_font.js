// A font made here: a frame for each sign with the digits of its code point, "4E2D" for 中.

const EM = 1000, TOP = 850, BOTTOM = -150; // the frame's font units
const THICK = 60, GAP = 100;
/** The seven strokes of a digit: left, bottom, right and top, in halves of its width and height. */
const STROKES = [[0, 2, 1, 2], [1, 1, 1, 2], [1, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 2],
  [0, 1, 1, 1]];
/** Which strokes make a hexadecimal digit, a bit each, the first the lowest. */
const DIGITS = [63, 6, 91, 79, 102, 109, 125, 7, 127, 111, 119, 124, 57, 94, 121, 113];

/** @typedef {[number, number, number, number]} Box  left, bottom, right, top */

/**
 * The frame of a sign and the strokes of its digits: two rows of two, or of three beyond U+FFFF.
 * @param {number} code
 * @returns {{box: Box, hole: boolean}[]}
 */
function shapes(code) {
  const across = code > 0xffff ? 3 : 2, text = code.toString(16).padStart(2 * across, "0");
  const wide = (EM - 4 * GAP) / across, high = (TOP - BOTTOM - 5 * GAP) / 2;
  const found = [
    { box: /** @type {Box} */ ([40, BOTTOM + 40, EM - 40, TOP - 40]), hole: false },
    { box: /** @type {Box} */ ([80, BOTTOM + 80, EM - 80, TOP - 80]), hole: true },
  ];
  [...text].forEach((digit, at) => {
    const left = 2 * GAP + (at % across) * wide;
    const low = BOTTOM + 2 * GAP + (at < across ? high + GAP : 0);
    STROKES.forEach(([x0, y0, x1, y1], stroke) => {
      if (!(DIGITS[parseInt(digit, 16)] >> stroke & 1)) return;
      const [from, to] = [x0, x1].map((x) => left + x * (wide - GAP));
      const [down, up] = [y0, y1].map((y) => low + y * high / 2);
      found.push({
        box: [from - THICK / 2, down - THICK / 2, to + THICK / 2, up + THICK / 2], hole: false,
      });
    });
  });
  return found.map(({ box, hole }) => ({ box: /** @type {Box} */ (box.map(Math.round)), hole }));
}

/** @param {number[]} numbers  unsigned or not, 16 bits each */
const words = (...numbers) => numbers.flatMap((n) => [(n >> 8) & 255, n & 255]);
/** @param {number[]} numbers  32 bits each */
const longs = (...numbers) => numbers.flatMap((n) => words(n >>> 16, n & 0xffff));

/**
 * The outlines of a sign, as TrueType writes them: rectangles, a hole the other way round.
 * @param {number} code
 */
function glyph(code) {
  const all = shapes(code), xs = [], ys = [];
  for (const { box: [left, low, right, top], hole } of all) {
    xs.push(...(hole ? [left, right, right, left] : [left, left, right, right]));
    ys.push(...(hole ? [low, low, top, top] : [low, top, top, low]));
  }
  const steps = (/** @type {number[]} */ places) =>
    words(...places.map((place, n) => place - (n ? places[n - 1] : 0)));
  const bytes = [
    ...words(all.length, 40, BOTTOM + 40, EM - 40, TOP - 40),
    ...words(...all.map((_, n) => 4 * n + 3)), ...words(0),
    ...xs.map(() => 1), ...steps(xs), ...steps(ys),
  ];
  while (bytes.length % 4) bytes.push(0);
  return bytes;
}

/**
 * A TrueType font for some signs, each as wide as it is high.
 * @param {number[]} codes  code points, ascending
 * @returns {ArrayBuffer}
 */
export function codePointFont(codes) {
  const glyphs = [glyph(0), ...codes.map(glyph)], count = glyphs.length;
  /** @type {number[]} */
  const offsets = [0];
  for (const bytes of glyphs) offsets.push(/** @type {number} */ (offsets.at(-1)) + bytes.length);
  const points = Math.max(...[0, ...codes].map((code) => 4 * shapes(code).length));
  const groups = codes.flatMap((code, n) => longs(code, code, n + 1));
  /** @type {[string, number[]][]} */
  const tables = [
    ["OS/2", [...words(3, EM, 400, 5, 0), ...words(...Array(10).fill(500)), ...words(0),
      ...Array(10).fill(0), ...longs(0, 0, 0, 0), ...longs(0x20202020),
      ...words(64, Math.min(codes[0], 0xffff), Math.min(codes[codes.length - 1], 0xffff)),
      ...words(TOP, BOTTOM, 0, TOP, -BOTTOM), ...longs(0, 0), ...words(500, 700, 0, 32, 0)]],
    ["cmap", [...words(0, 1, 3, 10), ...longs(12), ...words(12, 0),
      ...longs(16 + groups.length, 0, codes.length), ...groups]],
    ["glyf", glyphs.flat()],
    ["head", [...longs(0x10000, 0x10000, 0, 0x5f0f3cf5), ...words(3, EM), ...longs(0, 0, 0, 0),
      ...words(0, BOTTOM, EM, TOP, 0, 8, 2, 1, 0)]],
    ["hhea", [...longs(0x10000), ...words(TOP, BOTTOM, 0, EM, 0, 0, EM, 1, 0, 0, 0, 0, 0, 0, 0),
      ...words(count)]],
    ["hmtx", glyphs.flatMap(() => words(EM, 40))],
    ["loca", longs(...offsets)],
    ["maxp", [...longs(0x10000),
      ...words(count, points, points / 4, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0)]],
    ["name", words(0, 0, 6)],
    ["post", [...longs(0x30000, 0), ...words(-100, 50), ...longs(0, 0, 0, 0, 0)]],
  ];
  return assembled(tables);
}

/**
 * @param {[string, number[]][]} tables  in the order of the alphabet
 * @returns {ArrayBuffer}
 */
function assembled(tables) {
  const power = Math.floor(Math.log2(tables.length)), reach = 16 * 2 ** power;
  const directory = [...longs(0x10000),
    ...words(tables.length, reach, power, 16 * tables.length - reach)];
  let at = 12 + 16 * tables.length;
  /** @type {number[][]} */
  const bodies = [];
  for (const [name, bytes] of tables) {
    const padded = [...bytes, ...Array((4 - bytes.length % 4) % 4).fill(0)];
    directory.push(...[...name].map((letter) => letter.charCodeAt(0)),
      ...longs(sum(padded), at, bytes.length));
    bodies.push(padded);
    at += padded.length;
  }
  return Uint8Array.from([directory, ...bodies].flat()).buffer;
}

/** @param {number[]} bytes */
function sum(bytes) {
  let total = 0;
  for (let at = 0; at < bytes.length; at += 4) {
    const [a, b, c, d] = bytes.slice(at, at + 4);
    total = total + ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
  }
  return total;
}
