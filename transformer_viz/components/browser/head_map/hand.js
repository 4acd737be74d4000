// The hand at a map: pointing, choosing, dragging, zooming, and the same from the keyboard.

import { modified } from "../shared/dom.js";
import { cellUnder } from "./frame.js";
import { isWhole, moved, pinched, uncovering } from "./zoom.js";

/** @typedef {{row: number, column: number}} Place */

const DRAGGED = 4;  // pixels from which on a press is no click
const NOTCH = 1.25; // how much a step of the wheel enlarges
const PAGE = 10;    // cells that a page key goes

/**
 * Let the pointer and the keyboard act on a map.
 * @param {HTMLElement} picture
 * @param {ReturnType<typeof import("../shared/dom.js").listener>} on
 * @param {import("./map.js").HeadMap} map
 */
export function handleMap(picture, on, map) {
  const drag = { from: /** @type {PointerEvent | null} */ (null), view: map.view, on: false };
  const under = (/** @type {{x: number, y: number}} */ { x, y }, nearest = false) => {
    const { left, top } = picture.getBoundingClientRect();
    const { frame } = map.picture;
    return frame && cellUnder(frame, x - left, y - top, nearest);
  };
  /** @type {Map<number, PointerEvent>} */
  const fingers = new Map();
  const pinch = {
    apart: 0, view: map.view, at: /** @type {Place | null} */ (null), middle: { x: 0, y: 0 },
    cell: { width: 1, height: 1 },
  };
  on(picture, "pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const { apart, middle } = between(fingers), { frame } = map.picture;
      Object.assign(pinch, { apart, view: map.view, at: under(middle, true), middle });
      if (frame) pinch.cell = frame.cell;
      Object.assign(drag, { from: null, on: true }); // what follows is no click
      map.point(null);
      return;
    }
    if (event.button === 0) Object.assign(drag, { from: event, view: map.view, on: false });
  });
  on(picture, "pointermove", (event) => {
    const { frame } = map.picture;
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const { apart, middle } = between(fingers), { at, cell } = pinch;
      const shift = {
        down: (middle.y - pinch.middle.y) / cell.height, right: (middle.x - pinch.middle.x) / cell.width,
      };
      if (at) map.look(pinched(pinch.view, map.size, apart / Math.max(1, pinch.apart), at, shift));
      return;
    }
    if (!event.buttons) drag.from = null; // let go of outside of the picture
    if (frame && drag.from && !isWhole(drag.view, map.size)) {
      const right = event.clientX - drag.from.clientX, down = event.clientY - drag.from.clientY;
      if (!drag.on && Math.hypot(right, down) < DRAGGED) return;
      if (!drag.on) picture.setPointerCapture(event.pointerId);
      drag.on = true;
      const { width, height } = frame.cell;
      map.look(moved(drag.view, map.size, Math.round(-down / height), Math.round(-right / width)));
    }
    map.point(under(event));
  });
  for (const what of ["pointerup", "pointercancel"]) {
    on(picture, what, (event) => {
      drag.from = null;
      fingers.delete(event.pointerId);
      const [left] = fingers.values(); // the finger that stays drags on
      if (left) Object.assign(drag, { from: left, view: map.view });
    });
  }
  for (const what of ["touchstart", "touchmove"]) { // two fingers do not scroll the page
    on(picture, what, (event) => {
      if (event.touches.length > 1 && event.cancelable) event.preventDefault();
    }, { passive: false });
  }
  on(picture, "pointerleave", (event) => {
    fingers.delete(event.pointerId);
    map.point(null);
  });
  on(picture, "click", (event) => {
    const at = under(event);
    if (at && !drag.on && event.detail < 2) map.pick(at); // the second click of two shows all
    drag.on = false;
  });
  on(picture, "dblclick", () => map.zoom(0));
  on(picture, "wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // without a key the page scrolls
    event.preventDefault();
    map.zoom(event.deltaY < 0 ? NOTCH : 1 / NOTCH, under(event));
  }, { passive: false });
  on(picture, "focus", () => {
    if (picture.matches(":focus-visible")) map.point(map.start(), true);
  });
  on(picture, "blur", () => map.point(null));
  on(picture, "keydown", (event) => pressKey(map, event));
}

/**
 * How far two fingers are apart, and the point half-way between them.
 * @param {Map<number, PointerEvent>} fingers
 */
function between(fingers) {
  const [one, other] = [...fingers.values()];
  const apart = Math.hypot(one.x - other.x, one.y - other.y);
  return { apart, middle: { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 } };
}

/**
 * @param {import("./map.js").HeadMap} map
 * @param {KeyboardEvent} event
 */
function pressKey(map, event) {
  if (modified(event) || !map.picture.frame) return;
  const here = map.start();
  const zooms = /** @type {Record<string, number>} */ ({ "+": 2, "=": 2, "-": 0.5, "0": 0 });
  if (event.key in zooms) {
    map.zoom(zooms[event.key], here);
  } else if (event.key === "Enter" || event.key === " ") {
    map.pick(here);
  } else {
    const to = neighbourPlace(map, here, event.key);
    if (!to) return;
    map.look(uncovering(map.view, map.size, to));
    map.point(to, true);
  }
  event.preventDefault();
}

/**
 * Where a key leads; pooled cells are passed in one step.
 * @param {import("./map.js").HeadMap} map
 * @param {Place} here
 * @param {string} key
 * @returns {Place | null}
 */
function neighbourPlace({ picture, size }, { row, column }, key) {
  const { down, across } = picture.sheet;
  /** @type {Record<string, [number, number]>} */
  const ways = {
    ArrowUp: [row - down, column], ArrowDown: [row + down, column],
    ArrowLeft: [row, column - across], ArrowRight: [row, column + across],
    PageUp: [row - PAGE * down, column], PageDown: [row + PAGE * down, column],
    Home: [row, 0], End: [row, size.columns - 1],
  };
  const to = ways[key];
  if (!to) return null;
  const within = (/** @type {number} */ place, /** @type {number} */ count) =>
    Math.max(0, Math.min(count - 1, place));
  return { row: within(to[0], size.rows), column: within(to[1], size.columns) };
}
