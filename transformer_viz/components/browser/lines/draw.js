// Draws links as curves, and the words between which they run.

import { endOf, labelAt } from "./layout.js";
import { signed } from "../shared/number_format.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./links.js").Link} Link */
/**
 * `colours` of the heads, or of less and more where a change is drawn; `most` is the size that gets
 * the full colour, and no line beside which its weight is written is paler than `least`.
 * @typedef {{colours: string[], change: boolean, heads: number, most: number,
 *   least: number}} Brush
 */
/**
 * The words of queries and keys, and which of them are lit, chosen, reached by the keyboard, and
 * linked with those that are lit (null: none is); `unread` are keys that nobody looks at.
 * @typedef {{words: string[][], lit: Set<number>[], chosen: (number | null)[], unread: Set<number>,
 *   cursor: {side: number, place: number} | null, linked: Set<number>[] | null}} Names
 */

/** Heads differ in their dashes too, for whoever cannot tell their colours apart. */
export const DASHES = [
  [], [8, 4], [2, 3], [9, 3, 2, 3], [15, 4], [4, 7], [8, 3, 2, 3, 2, 3], [1, 6],
];

const LEVELS = 64;  // as many strengths are told apart; all lines of one are drawn at once
const CURVE = 0.45; // how long a line keeps its first direction
const THICKEST = 4; // pixels of a line of weight 1
const GAMMA = 0.7;  // lifts faint lines a little
const DASHED = 0.02; // fainter lines are too pale for dashes to be seen
const BESIDE_HEAD = 3;
const VALUE = 0.005; // less would be written as 0.00

/**
 * @param {Brush} brush
 * @param {Link} link
 */
function opacityOf({ most, least }, { weight }) {
  const size = Math.abs(weight);
  return Math.max(Math.min(1, size / most) ** GAMMA, size < VALUE ? 0 : least);
}

/**
 * The colour and the dashes of a link.
 * @param {Brush} brush
 * @param {Link} link
 */
function colourOf({ colours, change }, link) {
  return change ? colours[link.weight > 0 ? 1 : 0] : colours[link.head];
}

/**
 * Curves from queries to keys, faint ones first, so that strong ones lie on top of them.
 * @param {CanvasRenderingContext2D} pen
 * @param {Layout} layout
 * @param {Link[]} links
 * @param {Brush} brush
 * @param {{from: number, to: number}} seen  the part of the picture that is on the screen
 */
export function drawLinks(pen, layout, links, brush, seen) {
  /** @type {Map<string, {level: number, colour: string, head: number, links: Link[]}>} */
  const batches = new Map();
  const [queries, keys] = layout.sides;
  for (const link of links) {
    const ends = [queries.places[link.query], keys.places[link.key]];
    if (Math.max(...ends) < seen.from || Math.min(...ends) > seen.to) continue;
    const level = Math.max(1, Math.round(opacityOf(brush, link) * LEVELS));
    const colour = colourOf(brush, link);
    const name = `${level} ${link.head} ${colour}`;
    const batch = batches.get(name);
    if (batch) batch.links.push(link);
    else batches.set(name, { level, colour, head: link.head, links: [link] });
  }
  for (const batch of [...batches.values()].sort((a, b) => a.level - b.level)) {
    pen.globalAlpha = batch.level / LEVELS;
    pen.strokeStyle = batch.colour;
    const strength = (batch.level / LEVELS) ** (1 / GAMMA);
    pen.lineWidth = Math.max(1, THICKEST * strength); // browsers draw lines of one pixel fastest
    pen.setLineDash(strength < DASHED ? [] : DASHES[batch.head]);
    pen.beginPath();
    const shift = shiftOf(layout, batch.head, brush.heads);
    for (const link of batch.links) curve(pen, layout, link, shift);
    pen.stroke();
  }
  pen.globalAlpha = 1;
  pen.setLineDash([]);
}

/**
 * Lines of several heads lie beside, not on top of, each other.
 * @param {Layout} layout
 * @param {number} head
 * @param {number} heads
 */
function shiftOf({ pitch }, head, heads) {
  return (head - (heads - 1) / 2) * Math.min(BESIDE_HEAD, (pitch - 4) / heads);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Layout} layout
 * @param {Link} link
 * @param {number} shift
 */
function curve(pen, layout, link, shift) {
  const from = endOf(layout, 0, link.query, shift), to = endOf(layout, 1, link.key, shift);
  const turn = CURVE * (layout.across ? to.y - from.y : to.x - from.x);
  pen.moveTo(from.x, from.y);
  if (layout.across) pen.bezierCurveTo(from.x, from.y + turn, to.x, to.y - turn, to.x, to.y);
  else pen.bezierCurveTo(from.x + turn, from.y, to.x - turn, to.y, to.x, to.y);
}

/**
 * The words of both sides, as far as they are on the screen.
 * @param {CanvasRenderingContext2D} pen
 * @param {Layout} layout
 * @param {Names} names
 * @param {import("../shared/colour.js").Palette} palette
 * @param {{from: number, to: number}} seen
 */
export function drawWords(pen, layout, names, palette, seen) {
  layout.sides.forEach((side, n) => side.places.forEach((along, place) => {
    const beyond = layout.across ? side.reach : 0; // a slanted label reaches into the picture
    if (along < seen.from - layout.pitch - beyond || along > seen.to + layout.pitch) return;
    const { x, y } = endOf(layout, n, place), offset = labelAt(layout, n);
    pen.fillStyle = palette.quiet;
    pen.fillRect(x - 1.5, y - 1.5, 3, 3);
    pen.save();
    pen.translate(x + offset.x, y + offset.y);
    pen.rotate(side.angle);
    drawWord(pen, side, place, names, n, palette, layout.across && !side.angle ? (n ? -9 : 9) : 0);
    pen.restore();
  }));
}

/**
 * One word where the pen stands, with what marks it.
 * @param {CanvasRenderingContext2D} pen
 * @param {import("./layout.js").Side} side
 * @param {number} place
 * @param {Names} names
 * @param {number} n  which side
 * @param {import("../shared/colour.js").Palette} palette
 * @param {number} down
 */
function drawWord(pen, side, place, names, n, palette, down) {
  const text = cut(pen, names.words[n][place], side.reach), width = pen.measureText(text).width;
  const left = side.align === "right" ? -width : side.align === "center" ? -width / 2 : 0;
  const lit = names.lit[n].has(place), chosen = names.chosen[n] === place;
  const reached = names.cursor?.side === n && names.cursor.place === place;
  if (lit) {
    pen.globalAlpha = 0.16;
    box(pen, left, down, width);
    pen.fillStyle = palette.warm;
    pen.fill();
    pen.globalAlpha = 1;
  }
  if (chosen || lit || reached) {
    box(pen, left, down, width);
    pen.lineWidth = chosen || reached ? 2 : 1;
    pen.strokeStyle = chosen || reached ? palette.accent : palette.warm;
    pen.stroke();
  }
  if (reached) {
    box(pen, left - 3, down, width + 6, 3); // the keyboard's place has a second frame
    pen.stroke();
  }
  const linked = !names.linked || names.linked[n].has(place);
  const unread = n === 1 && names.unread.has(place);
  if (unread && !chosen && !reached) {
    pen.setLineDash([3, 3]);
    box(pen, left, down, width);
    pen.lineWidth = 1.5;
    pen.strokeStyle = palette.warm;
    pen.stroke();
    pen.setLineDash([]);
  }
  pen.fillStyle = (linked && !unread) || lit || chosen ? palette.ink : palette.quiet;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillText(text, left, down + 1);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {number} left
 * @param {number} middle
 * @param {number} width
 * @param {number} [more]
 */
function box(pen, left, middle, width, more = 0) {
  pen.beginPath();
  pen.roundRect(left - 4, middle - 10 - more, width + 8, 20 + 2 * more, 4);
}

/**
 * A word, or its beginning where it is too long.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} text
 * @param {number} reach
 */
function cut(pen, text, reach) {
  const width = pen.measureText(text).width;
  if (width <= reach) return text;
  return text.slice(0, Math.max(1, Math.floor((text.length * reach) / width) - 1)) + "…";
}

/**
 * At the far ends of lines how much each carries; where several end, the strongest of them, and
 * where numbers would lie on each other, those of the strongest lines.
 * @param {CanvasRenderingContext2D} pen
 * @param {Layout} layout
 * @param {Link[]} links
 * @param {Set<number>[]} lit  the queries and keys that are pointed at
 * @param {Brush} brush
 * @param {import("../shared/colour.js").Palette} palette
 */
export function drawValues(pen, layout, links, lit, brush, palette) {
  /** @type {Map<number, Link>[]} */
  const ends = [new Map(), new Map()];
  for (const link of links) {
    if (Math.abs(link.weight) < VALUE) continue;
    if (lit[0].has(link.query)) keepStronger(ends[1], link.key, link);
    if (lit[1].has(link.key)) keepStronger(ends[0], link.query, link);
  }
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  const mark = brush.heads > 1 && !brush.change ? 10 : 0;
  ends.forEach((side, n) => {
    /** @type {{left: number, middle: number, width: number}[]} */
    const written = [];
    const strongest = [...side].sort(([, a], [, b]) => Math.abs(b.weight) - Math.abs(a.weight));
    for (const [place, link] of strongest) {
      const text = signed(link.weight, 2, brush.change), width = pen.measureText(text).width + mark;
      const free = roomsAt(layout, n, place, width)
        .find((room) => !written.some((other) => overlap(room, other)));
      if (!free) continue;
      written.push(free);
      drawValue(pen, text, free, mark ? colourOf(brush, link) : null, palette);
    }
  });
}

/**
 * Where a number may stand at the end of a line, best first.
 * @param {Layout} layout
 * @param {number} n  which side
 * @param {number} place
 * @param {number} width
 */
function roomsAt(layout, n, place, width) {
  const { x, y } = endOf(layout, n, place);
  if (!layout.across) return [{ left: n ? x - 8 - width : x + 8, middle: y, width }];
  return [12, 30].map((off) => ({ left: x - width / 2, middle: y + (n ? off : -off), width }));
}

/**
 * @param {{left: number, middle: number, width: number}} one
 * @param {{left: number, middle: number, width: number}} other
 */
function overlap(one, other) {
  return one.left < other.left + other.width + 4 && other.left < one.left + one.width + 4
    && Math.abs(one.middle - other.middle) < 14;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {string} text
 * @param {{left: number, middle: number, width: number}} room
 * @param {string | null} colour  of the head, null where there is only one
 * @param {import("../shared/colour.js").Palette} palette
 */
function drawValue(pen, text, { left, middle, width }, colour, palette) {
  pen.fillStyle = palette.card;
  pen.globalAlpha = 0.85;
  pen.fillRect(left - 2, middle - 8, width + 4, 16);
  pen.globalAlpha = 1;
  if (colour) {
    pen.fillStyle = colour;
    pen.fillRect(left, middle - 4, 7, 7);
  }
  pen.fillStyle = palette.ink;
  pen.fillText(text, left + (colour ? 10 : 0), middle + 1);
}

/**
 * @param {Map<number, Link>} side
 * @param {number} place
 * @param {Link} link
 */
function keepStronger(side, place, link) {
  const known = side.get(place);
  if (!known || Math.abs(link.weight) > Math.abs(known.weight)) side.set(place, link);
}

/**
 * The font that words are drawn in, as the page around them.
 * @param {Element} place
 */
export function fontOf(place) {
  const { fontSize, fontFamily } = getComputedStyle(place);
  return `${fontSize} ${fontFamily}`;
}
