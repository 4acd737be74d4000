// Draws an atlas on its two canvases: tiles, names and frames; and above them what is lit.

import { pen } from "../shared/dom.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Slot} Slot */
/** @typedef {import("./sheet.js").Sheet} Sheet */
/** @typedef {import("../shared/colour.js").Palette} Palette */
/** @typedef {{left: number, top: number, width: number, height: number}} Window  what is seen of
 *   the whole picture */
/** @typedef {{rows: number[], columns: number[]}} Lit  parts of a tile, from 0 to 1, by block */
/** @typedef {{slot: Slot, colour: string, thick: number}} Frame */
/** @typedef {{colour: string, ink: string, text: string}} Fill  a tile of one colour: its number */

/**
 * The tiles that are seen, their names, and the frames of those that are chosen.
 * @param {HTMLCanvasElement} canvas
 * @param {Layout} layout
 * @param {Window} view
 * @param {{sheets: Sheet[], number: (slot: Slot) => number, label: (slot: Slot) => string,
 *   fill: (slot: Slot) => Fill | null, frames: Frame[], palette: Palette, font: string}} what
 */
export function drawTiles(canvas, layout, view, what) {
  const brush = pen(canvas, view.width, view.height);
  brush.font = what.font;
  const { tile } = layout;
  inside(brush, layout, view, () => {
    brush.imageSmoothingEnabled = false; // cells have sharp edges
    brush.lineWidth = 1;
    brush.strokeStyle = what.palette.line;
    for (const slot of seenIn(layout, view)) {
      const fill = what.fill(slot);
      if (fill) fillTile(brush, slot, tile, fill);
      else drawCells(brush, slot, tile, what.sheets[slot.place.block], what.number(slot));
      brush.strokeRect(slot.left - 0.5, slot.top - 0.5, tile.width + 1, tile.height + 1);
    }
    for (const { slot, colour, thick } of what.frames) {
      frame(brush, layout, slot, colour, thick);
    }
    if (layout.ranked) rankedNames(brush, layout, view, what);
  });
  sideNames(brush, layout, view, what.palette);
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {Slot} slot
 * @param {{width: number, height: number}} tile
 * @param {Sheet} sheet
 * @param {number} n  the tile's number on the sheet
 */
function drawCells(brush, slot, tile, sheet, n) {
  const x = (n % sheet.columns) * sheet.width;
  const y = Math.floor(n / sheet.columns) * sheet.height;
  brush.drawImage(sheet.canvas, x, y, sheet.width, sheet.height,
    slot.left, slot.top, tile.width, tile.height);
}

/**
 * A tile in the colour of its number, which is written where there is room.
 * @param {CanvasRenderingContext2D} brush
 * @param {Slot} slot
 * @param {{width: number, height: number}} tile
 * @param {Fill} fill
 */
function fillTile(brush, { left, top }, { width, height }, { colour, ink, text }) {
  brush.fillStyle = colour;
  brush.fillRect(left, top, width, height);
  if (brush.measureText(text).width > width - 4 || height < 16) return;
  brush.fillStyle = ink;
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  brush.fillText(text, left + width / 2, top + height / 2 + 1);
  brush.textAlign = "left";
}

/**
 * Marks and lines at the rows and columns that are lit, and frames of what is pointed at.
 * @param {HTMLCanvasElement} canvas
 * @param {Layout} layout
 * @param {Window} view
 * @param {{lit: Lit[], frames: Frame[], palette: Palette}} what  lit: for each block
 */
export function drawLight(canvas, layout, view, { lit, frames, palette }) {
  const brush = pen(canvas, view.width, view.height);
  const { tile, gap } = layout;
  const length = Math.max(2, gap - 3);
  brush.fillStyle = palette.warm;
  inside(brush, layout, view, () => {
    if (lit.some(({ rows, columns }) => rows.length + columns.length)) {
      for (const { place, left, top } of seenIn(layout, view)) {
        for (const part of lit[place.block].rows) {
          const y = Math.round(top + part * tile.height) - 1;
          brush.fillRect(left - length - 1, y, length, 2);
          litLine(brush, left, y, tile.width, 1);
        }
        for (const part of lit[place.block].columns) {
          const x = Math.round(left + part * tile.width) - 1;
          brush.fillRect(x, top - length - 1, 2, length);
          litLine(brush, x, top, 1, tile.height);
        }
      }
    }
    for (const { slot, colour, thick } of frames) frame(brush, layout, slot, colour, thick);
  });
}

/**
 * A thin line over the cells, which stay visible through it.
 * @param {CanvasRenderingContext2D} brush
 * @param {number} left
 * @param {number} top
 * @param {number} width
 * @param {number} height
 */
function litLine(brush, left, top, width, height) {
  brush.globalAlpha = 0.7;
  brush.fillRect(left, top, width, height);
  brush.globalAlpha = 1;
}

/**
 * Draw in coordinates of the whole picture, and not over the names at its sides.
 * @param {CanvasRenderingContext2D} brush
 * @param {Layout} layout
 * @param {Window} view
 * @param {() => void} draw
 */
function inside(brush, layout, view, draw) {
  const left = layout.left && layout.left - 8, top = layout.top && layout.top - 8;
  brush.save();
  brush.beginPath();
  brush.rect(left, top, view.width - left, view.height - top);
  brush.clip();
  brush.translate(-view.left, -view.top);
  draw();
  brush.restore();
}

/**
 * The tiles of which something is seen.
 * @param {Layout} layout
 * @param {Window} view
 */
function seenIn({ slots, tile }, view) {
  return slots.filter(({ left, top }) =>
    left + tile.width > view.left && left < view.left + view.width
    && top + tile.height > view.top && top < view.top + view.height);
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {Layout} layout
 * @param {Slot} slot
 * @param {string} colour
 * @param {number} thick
 */
function frame(brush, { tile }, { left, top }, colour, thick) {
  brush.strokeStyle = colour;
  brush.lineWidth = thick;
  const out = thick / 2;
  brush.strokeRect(left - out, top - out, tile.width + thick, tile.height + thick);
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {Layout} layout
 * @param {Window} view
 * @param {{label: (slot: Slot) => string, palette: Palette}} what
 */
function rankedNames(brush, layout, view, { label, palette }) {
  brush.fillStyle = palette.quiet;
  brush.textBaseline = "bottom";
  const above = { ...view, height: view.height + 20 * layout.letters }; // a name is seen before its tile
  for (const slot of seenIn(layout, above)) {
    brush.fillText(label(slot), slot.left, slot.top - 2);
  }
}

/**
 * The names of layers, heads and blocks; they stay where they are when tiles are scrolled.
 * @param {CanvasRenderingContext2D} brush
 * @param {Layout} layout
 * @param {Window} view
 * @param {Palette} palette
 */
function sideNames(brush, layout, view, palette) {
  brush.fillStyle = palette.quiet;
  brush.textBaseline = "middle";
  const line = layout.top - 8 - 11 * layout.letters; // the middle of the names of heads
  clipTo(brush, 0, layout.top, layout.left - 6, view.height, () => {
    for (const { text, at } of layout.down) brush.fillText(text, 0, at - view.top);
  });
  clipTo(brush, layout.left - 8, 0, view.width, layout.top, () => {
    brush.textAlign = "center";
    for (const { text, at } of layout.across) brush.fillText(text, at - view.left, line);
    brush.textAlign = "left";
    brush.fillStyle = palette.ink;
    for (const { text, at } of layout.titles) brush.fillText(text, at - view.left, line - 22 * layout.letters);
  });
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {number} left
 * @param {number} top
 * @param {number} right
 * @param {number} bottom
 * @param {() => void} draw
 */
function clipTo(brush, left, top, right, bottom, draw) {
  if (right <= left || bottom <= top) return;
  brush.save();
  brush.beginPath();
  brush.rect(left, top, right - left, bottom - top);
  brush.clip();
  draw();
  brush.restore();
}
