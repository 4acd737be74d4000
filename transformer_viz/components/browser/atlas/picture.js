// The picture of an atlas: a window on all tiles, which may be more than can be seen at once.

import { drawLight, drawTiles } from "./draw.js";
import {
  colouring, flat, litParts, nameOf, numberOf, placesIn, ranked, rangeOf, sortable, written,
} from "./heads.js";
import { inLayers, inRank, slotAt } from "./layout.js";
import { amountColours, fewerCells, largestCells, paintSheet, robustCells } from "./sheet.js";
import { changeColours, lookup, shade } from "../shared/colour.js";
import { brushOf, element } from "../shared/dom.js";

/** @typedef {import("./heads.js").AtlasData} AtlasData */
/** @typedef {import("./heads.js").How} How */
/** @typedef {import("./heads.js").Place} Place */
/** @typedef {import("./layout.js").Slot} Slot */
/** @typedef {import("./draw.js").Fill} Fill */
/** @typedef {import("../shared/colour.js").Palette} Palette */
/** @typedef {{slot: Slot, row: number, column: number}} Hit  a cell of a tile */
/** @typedef {{left: number, top: number, width: number, height: number}} Box */
/** @typedef {Place & Box & {row: number, column: number}} TileShown */
/** @typedef {{place: Place, colour: string, thick: number}} Chosen  a head and its frame */

const NOWHERE = { width: 0, height: 0 };

export class AtlasPicture {
  /** @param {HTMLElement} frame  what scrolls */
  constructor(frame) {
    this.frame = frame;
    this.tiles = element("canvas", "tv-cells");
    this.lights = element("canvas", "tv-lights");
    this.window = element("div", "tv-window", this.tiles, this.lights);
    this.whole = element("div", "tv-whole", this.window);
    frame.append(this.whole);
    /** @type {AtlasData | null} */
    this.data = null;
    /** @type {Palette | null} */
    this.palette = null;
    /** @type {import("./layout.js").Layout | null} */
    this.layout = null;
    /** @type {import("./sheet.js").Sheet[]} */
    this.sheets = [];
    /** @type {number[][]} */
    this.pooled = []; // tokens in a cell that is drawn
    /** Of tiles that show a number: their colours. @type {((place: Place) => Fill) | null} */
    this.fill = null;
    /** The colours from the lowest amount to the highest. @type {Uint32Array} */
    this.legend = new Uint32Array();
    this.font = "sans-serif";
    this.size = "";
  }

  /** What is seen of the whole picture. */
  get view() {
    const { frame } = this;
    return {
      left: frame.scrollLeft, top: frame.scrollTop,
      width: frame.clientWidth, height: frame.clientHeight,
    };
  }

  /** Whether there is no place to draw on now. */
  get isHidden() {
    return !this.frame.clientWidth || !this.frame.clientHeight;
  }

  /** Whether the window is another than when the tiles were arranged. */
  get resized() {
    return this.size !== this.measured();
  }

  measured() {
    return [this.frame.clientWidth, this.frame.clientHeight, devicePixelRatio].join();
  }

  /**
   * Place and colour everything; nothing is drawn yet.
   * @param {AtlasData} data
   * @param {How} how
   * @param {Palette} palette
   */
  arrange(data, how, palette) {
    Object.assign(this, { data, palette, size: this.measured() });
    const { fontSize, fontFamily } = getComputedStyle(this.frame), letters = parseFloat(fontSize) / 14;
    this.font = `${fontSize} ${fontFamily}`;
    const sort = sortable(data, how.sort), places = ranked(data, placesIn(data), sort);
    const room = this.view, titles = data.blocks.map((block) => block.title);
    this.layout = sort === "layer" ? inLayers(places, titles, room, letters)
      : inRank(places, this.widest(places), room, letters);
    // As high as the tiles can get at this width: what is higher would be a hole below them.
    const highest = inLayers(places, titles, { width: room.width, height: Infinity }, letters).height;
    this.frame.style.setProperty("--tv-highest", `${Math.ceil(highest)}px`);
    for (const [part, size] of /** @type {const} */ (
      [[this.whole, this.layout], [this.window, room]])) {
      part.style.width = size.width + "px";
      part.style.height = size.height + "px";
    }
    this.colour(data, how, palette, this.layout);
  }

  /**
   * @param {AtlasData} data
   * @param {How} how
   * @param {Palette} palette
   * @param {import("./layout.js").Layout} layout
   */
  colour(data, how, palette, { tile }) {
    const change = data.limit > 0, ramp = palette.ramps[how.ramp] ?? palette.amounts;
    const blocks = data.blocks.map((_, n) => data.arrays["tiles" + n]);
    const most = blocks.map(largestCells);
    const common = Math.max(...most.map((all) => all.reduce((a, b) => Math.max(a, b), 0)));
    const changes = change ? changeColours(palette.changes, how, data.limit) : null;
    const amounts = amountColours(ramp, how);
    const oneScale = how.scale === "common";
    const own = data.robust && !oneScale ? blocks.map(robustCells) : most;
    this.pooled = [];
    this.sheets = blocks.map((block, n) => {
      const each = [tile.height / block.shape[2], tile.width / block.shape[3]]
        .map((size) => Math.max(1, Math.ceil(1 / (size * devicePixelRatio))));
      this.pooled.push(each.map((cells, axis) => cells * data.blocks[n].stride[axis]));
      return paintSheet(this.sheets[n]?.canvas ?? element("canvas"),
        fewerCells(block, each, change), most[n].length,
        (one) => changes ?? amounts(oneScale ? common : own[n][one]));
    });
    // Per head the ends of the bar differ from head to head, and a threshold has no place on it.
    const whole = oneScale ? amounts(common).slice(0, common + 1)
      : amountColours(ramp, { ...how, threshold: 0 })(255);
    this.legend = changes ? changes.slice(1) : whole;
    this.fill = this.fills(data, how, palette, ramp);
    if (this.fill) this.legend = lookup(ramp, how);
  }

  /**
   * What tiles look like whose colour is a number, from the least to the largest that is known.
   * @param {AtlasData} data
   * @param {How} how
   * @param {Palette} palette
   * @param {string[]} ramp
   * @returns {((place: Place) => Fill) | null}
   */
  fills(data, { scale, gamma }, palette, ramp) {
    const metric = colouring(data, scale), range = metric && rangeOf(data, metric);
    if (!metric || !range) return null;
    const [least, most] = range, wide = most - least || 1;
    return (place) => {
      const number = numberOf(data, place, metric.name), text = written(data, place, metric);
      if (Number.isNaN(number)) return { colour: palette.paper, ink: palette.quiet, text };
      const [red, green, blue] = shade(ramp, ((number - least) / wide) ** gamma);
      const bright = 0.299 * red + 0.587 * green + 0.114 * blue > 140;
      return { colour: `rgb(${red} ${green} ${blue})`, ink: bright ? "#14171c" : "#fbfaf7", text };
    };
  }

  /**
   * @param {Chosen[]} chosen  heads with frames, the last on top
   */
  draw(chosen) {
    const { data, palette, layout } = this;
    if (!data || !palette || !layout || this.isHidden) return;
    drawTiles(this.tiles, layout, this.view, {
      sheets: this.sheets, palette, font: this.font,
      number: ({ place }) => flat(data, place),
      label: ({ place }) => this.name(place),
      fill: ({ place }) => this.fill?.(place) ?? null,
      frames: this.frames(chosen),
    });
  }

  /**
   * @param {import("../shared/hover_link.js").Light} light
   * @param {Chosen[]} chosen
   */
  light({ row, column }, chosen) {
    const { data, palette, layout } = this;
    if (!data || !palette || !layout || this.isHidden) return;
    const lit = data.blocks.map((_, block) => ({
      rows: litParts(data, block, "rows", row), columns: litParts(data, block, "columns", column),
    }));
    drawLight(this.lights, layout, this.view, { lit, palette, frames: this.frames(chosen) });
  }

  /** @param {Chosen[]} chosen */
  frames(chosen) {
    return chosen.flatMap(({ place, colour, thick }) => {
      const slot = this.slotOf(place);
      return slot ? [{ slot, colour, thick }] : [];
    });
  }

  /** @param {Place} place */
  slotOf({ block, layer, head }) {
    return this.layout?.slots.find(({ place }) =>
      place.block === block && place.layer === layer && place.head === head);
  }

  /**
   * Where a head's tile is seen in the frame; null where it is not.
   * @param {Place} place
   */
  boxOf(place) {
    const slot = this.slotOf(place), { left, top } = this.view;
    if (!slot || !this.layout || this.isHidden) return null;
    return { left: slot.left - left, top: slot.top - top, ...this.layout.tile };
  }

  /** Where on the page the tiles are, those out of sight too; see `Atlas.describe`. */
  describe() {
    const { layout, view, pooled } = this, { left, top } = this.frame.getBoundingClientRect();
    const { left: aside = 0, top: above = 0, slots = [] } = layout ?? {};
    return {
      room: {
        left: left + aside, top: top + above,
        width: view.width - aside, height: view.height - above,
      },
      tiles: slots.map(({ place, row, column, ...slot }) => ({
        ...place, row, column, ...(layout?.tile ?? NOWHERE),
        left: left + slot.left - view.left, top: top + slot.top - view.top,
      })),
      pooled,
    };
  }

  /**
   * A head's name, with its block's where there are several.
   * @param {Place} place
   */
  name(place) {
    const blocks = this.data?.blocks ?? [];
    return (blocks.length > 1 ? blocks[place.block].title + " " : "") + nameOf(place);
  }

  /** @param {Place[]} places */
  widest(places) {
    const brush = brushOf(this.tiles);
    brush.font = this.font;
    const longest = places.map((place) => this.name(place))
      .reduce((a, b) => (b.length > a.length ? b : a), "");
    return brush.measureText(longest).width;
  }

  /**
   * The cell under a point of the page.
   * @param {{clientX: number, clientY: number}} point
   * @returns {Hit | null}
   */
  at({ clientX, clientY }) {
    if (!this.layout || !this.data) return null;
    const box = this.frame.getBoundingClientRect(), { left, top } = this.view;
    const [x, y] = [clientX - box.left, clientY - box.top];
    if (x < this.layout.left - 8 || y < this.layout.top - 8) return null; // names stand there
    const hit = slotAt(this.layout, x + left, y + top);
    if (!hit) return null;
    const [, , rows, columns] = this.data.arrays["tiles" + hit.slot.place.block].shape;
    return {
      slot: hit.slot, row: Math.floor(hit.down * rows), column: Math.floor(hit.right * columns),
    };
  }

  /**
   * Scroll as little as needed to see a tile whole.
   * @param {Slot} slot
   */
  reveal({ left, top }) {
    const { layout, frame, view } = this;
    if (!layout) return;
    const { width, height } = layout.tile;
    frame.scrollLeft = between(left + width + 8 - view.width, view.left, left - layout.left - 8);
    frame.scrollTop = between(top + height + 8 - view.height, view.top, top - layout.top - 24);
  }
}

/**
 * @param {number} least
 * @param {number} value
 * @param {number} most
 */
function between(least, value, most) {
  return Math.max(least, Math.min(value, most));
}
