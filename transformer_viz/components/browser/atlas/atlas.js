// All heads at once: every layer and head as a tile on a canvas. Point at one, click, or walk with
// the arrow keys; order, scale and colours change here without asking anybody.

import {
  cellOf, factsOf, metricsOf, placeNamed, placesIn, samePlace, sortable, spotsAt,
} from "./heads.js";
import { neighbour } from "./layout.js";
import { AtlasLegend } from "./legend.js";
import { atlasParts, tellBeside } from "./parts.js";
import { AtlasPicture } from "./picture.js";
import { fillTable } from "./table.js";
import { AtlasTools } from "./tools.js";
import { paletteOf } from "../shared/colour.js";
import { listener, modified, onEscape, rested, set } from "../shared/dom.js";
import { DARKNESS, onLight, shine } from "../shared/hover_link.js";
import { tell } from "../shared/i18n.js";
import { Pending } from "../shared/pending.js";

/** @typedef {import("./heads.js").AtlasData} AtlasData */
/** @typedef {import("./heads.js").How} How */
/** @typedef {import("./heads.js").Place} Place */
/** @typedef {[block: string, layer: number, head: number]} Opened */

const UNTIL_SAID = 400; // milliseconds after the last change until Python hears of it
const AROUND_TILES = 150;   // pixels that legend and tools take below the tiles
const MOST_LAID = 7;      // heads that can be laid over the opened one

export class Atlas {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say  "opened" [block, layer, head], "overlaid" all [layer, head]
   *   that are laid over it, "drawn" {sort, scale, ramp, gamma, threshold}
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    /** @type {AtlasData | null} */
    this.data = null;
    /** @type {import("../shared/colour.js").Palette | null} */
    this.palette = null;
    this.how = /** @type {How} */ ({});
    /** @type {Opened | null} */
    this.opened = null;
    /** @type {AtlasData["overlaid"]} */
    this.overlaid = [];
    this.pending = { how: new Pending(), opened: new Pending(), overlaid: new Pending() };
    /** @type {Place} */
    this.cursor = { block: 0, layer: 0, head: 0 }; // where the keyboard is
    this.walking = false; // the keyboard is on the tiles
    /** @type {import("./picture.js").Hit | null} */
    this.hit = null;
    /** @type {PointerEvent | null} */
    this.pointer = null;
    this.quiet = false; // the tip was put away, until another cell is gone to
    /** @type {import("../shared/hover_link.js").Light} */
    this.lit = DARKNESS;
    this.waiting = 0;
    this.ending = new AbortController();
    this.drawn = rested(UNTIL_SAID, () => {
      this.pending.how.tell(this.how);
      say("drawn", this.how);
    });
    this.parts = atlasParts(place);
    this.picture = new AtlasPicture(this.parts.frame);
    const { signal } = this.ending, { tools, legend, frame } = this.parts;
    this.tools = new AtlasTools(tools, signal, (part) => this.choose(part), (on) => this.swap(on));
    this.legend = new AtlasLegend(legend);
    this.listen(signal);
    this.watch = new ResizeObserver(() => this.later());
    this.watch.observe(frame);
  }

  end() {
    this.ending.abort();
    this.drawn.end();
    this.watch.disconnect();
    cancelAnimationFrame(this.waiting);
    if (this.hit) shine(null, null);
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const on = listener(signal), { frame } = this.parts;
    onEscape(signal, () => this.putAway());
    onLight(signal, (light) => {
      this.lit = light;
      this.light();
    });
    on(frame, "pointermove", (event) => this.point(event));
    on(frame, "pointerleave", () => this.point(null));
    on(frame, "click", (event) => this.click(event));
    on(frame, "scroll", () => this.later(true));
    on(frame, "keydown", (event) => this.key(event));
    on(frame, "focus", () => this.walk(frame.matches(":focus-visible")));
    on(frame, "blur", () => this.walk(false));
  }

  // ---- what is shown

  /**
   * The heads in their order, each with the box of its tile, in CSS pixels of the page.
   * @returns {{opened: Place | null, room: import("./picture.js").Box,
   *   tiles: import("./picture.js").TileShown[], pooled: number[][]}}  room: where tiles are seen;
   *   pooled: rows and columns of weights in a cell that is drawn, of each block
   */
  describe() {
    const opened = this.data && placeNamed(this.data, this.opened);
    return { opened: opened ?? null, ...this.picture.describe() };
  }

  /** @param {AtlasData} data */
  show(data) {
    const { how, opened, overlaid } = this.pending;
    // What was changed here stays until Python says otherwise; live frames know nothing of it.
    if (how.hear(data.how)) this.how = { ...data.how };
    if (opened.hear(data.opened)) this.opened = data.opened;
    if (overlaid.hear(data.overlaid)) this.overlaid = data.overlaid;
    this.data = data;
    this.palette = paletteOf(this.place, data);
    this.place.style.minHeight = `var(--tv-taller, min(${data.height}px, calc(var(--tv-most, ${data.height}px) + ${AROUND_TILES}px)))`; // more where its controls need more lines
    if (!this.walking || !placesIn(data).some((place) => samePlace(place, this.cursor))) {
      this.cursor = placeNamed(data, this.opened) ?? { block: 0, layer: 0, head: 0 };
    }
    this.paint();
  }

  /**
   * Draw once the size, or the place that is scrolled to, has settled for this frame.
   * @param {boolean} [scrolled]
   */
  later(scrolled = false) {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => {
      if (this.picture.resized) this.paint();
      else if (scrolled) this.draw();
    });
  }

  /** Everything anew, from the data and from how it is drawn. */
  paint() {
    const { data, palette, how } = this;
    if (!data || !palette) return;
    this.tools.show(how, Object.keys(palette.ramps), data.limit > 0, metricsOf(data));
    if (this.picture.isHidden) return this.fill(data);
    this.picture.arrange(data, how, palette);
    this.legend.show(data, how, this.picture);
    this.name(data);
    this.draw();
  }

  draw() {
    const { data, palette } = this;
    if (!data || !palette) return;
    const block = data.blocks.findIndex(({ name }) => name === this.opened?.[0]);
    const laid = this.overlaid.map(([layer, head], n) =>
      ({ place: { block, layer, head }, colour: palette.heads[n + 1], thick: 3 }));
    const opened = placeNamed(data, this.opened);
    if (opened) laid.push({ place: opened, colour: palette.accent, thick: 3 });
    this.picture.draw(laid);
    if (this.pointer) this.hit = this.picture.at(this.pointer);
    this.light();
    this.tell();
  }

  light() {
    if (!this.palette) return;
    const { ink } = this.palette, chosen = [];
    if (this.hit) chosen.push({ place: this.hit.slot.place, colour: ink, thick: 1 });
    if (this.walking) chosen.push({ place: this.cursor, colour: ink, thick: 2 });
    this.picture.light(this.lit, chosen);
  }

  /** What is known of the tile that is pointed at, or that the keyboard is on, beside it. */
  tell() {
    const { data, hit, picture, parts } = this;
    const place = hit?.slot.place ?? (this.walking ? this.cursor : null);
    const around = place && picture.boxOf(place);
    parts.tip.hidden = true;
    if (!data || !place || !around || this.quiet) return;
    const lines = [picture.name(place), ...factsOf(data, place)];
    if (hit) lines.push(tell("here {link}", { link: cellOf(data, place, hit.row, hit.column) }));
    tellBeside(parts.tip, lines, around, this.place);
  }

  /** Put the tip away; false where there is none. */
  putAway() {
    const { tip } = this.parts;
    if (tip.hidden) return false;
    return (this.quiet = tip.hidden = true);
  }

  // ---- what a person does

  /** @param {PointerEvent | null} event */
  point(event) {
    const last = this.hit;
    this.pointer = event;
    this.hit = event && this.picture.at(event);
    if (!this.hit && !last) return;
    if (this.hit && samePlace(this.hit.slot.place, last?.slot.place)
      && this.hit.row === last?.row && this.hit.column === last?.column) return;
    this.parts.frame.style.cursor = this.hit ? "pointer" : "";
    this.quiet = false;
    this.tell();
    const spots = this.hit && this.data && spotsAt(this.data, this.hit);
    shine(spots && spots.row, spots && spots.column);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const place = this.picture.at(event)?.slot.place;
    if (!place) return;
    this.cursor = place;
    if (event.shiftKey) this.overlay(place);
    else this.open(place);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { layout } = this.picture, from = this.picture.slotOf(this.cursor);
    if (modified(event) || !layout || !from) return;
    const to = neighbour(layout, from, event.key);
    if (to) this.go(to);
    else if (event.key === "Enter" || event.key === " ") this.open(this.cursor);
    else if (event.key === "o") this.overlay(this.cursor);
    if (to || /^(Arrow|Enter$| $|Home$|End$)/.test(event.key)) event.preventDefault();
  }

  /** @param {import("./layout.js").Slot} slot */
  go(slot) {
    this.cursor = slot.place;
    this.walking = true;
    this.quiet = false;
    this.picture.reveal(slot);
    this.draw();
    if (!this.data) return;
    this.name(this.data);
    this.parts.live.textContent = this.parts.cell.textContent;
  }

  /** @param {boolean} on */
  walk(on) {
    this.walking = on;
    this.quiet = false;
    this.light();
    this.tell();
  }

  /** @param {Place} place */
  open(place) {
    if (!this.data) return;
    const { block, layer, head } = place;
    this.opened = [this.data.blocks[block].name, layer, head];
    this.draw();
    this.name(this.data);
    this.pending.opened.tell(this.opened);
    this.say("opened", this.opened);
  }

  /**
   * Lay a head over the opened one as lines, or take it away again.
   * @param {Place} place
   */
  overlay({ block, layer, head }) {
    if (!this.data) return;
    const known = this.overlaid.filter(([l, h]) => l !== layer || h !== head);
    const opened = placeNamed(this.data, this.opened);
    const problem = opened?.block !== block
      ? tell("Only heads of the opened block can be laid over it.")
      : samePlace(opened, { block, layer, head }) ? tell("This head is the opened one.")
        : known.length >= MOST_LAID ? tell("Eight heads are as many as can be told apart.") : "";
    if (problem) {
      this.parts.live.textContent = problem;
      return;
    }
    const added = known.length === this.overlaid.length;
    this.overlaid = added ? [...known, [layer, head]] : known;
    this.draw();
    this.parts.live.textContent = added ? tell("L{layer} H{head} added to the lines", { layer, head })
      : tell("L{layer} H{head} taken from the lines", { layer, head });
    this.pending.overlaid.tell(this.overlaid);
    this.say("overlaid", this.overlaid); // all of them: of two quick presses the last is heard
  }

  /** @param {Partial<How>} part */
  choose(part) {
    this.how = { ...this.how, ...part };
    this.pending.how.choose();
    this.paint();
    this.drawn.ask();
  }

  /** @param {boolean} asTable */
  swap(asTable) {
    const { frame, legend, table } = this.parts;
    table.hidden = !asTable;
    frame.hidden = legend.hidden = asTable;
    if (!asTable) table.replaceChildren();
    this.tell();
    this.paint();
  }

  /**
   * The table, if it stands instead of the tiles.
   * @param {AtlasData} data
   */
  fill(data) {
    if (this.parts.table.hidden) return;
    fillTable(this.parts.table, data, sortable(data, this.how.sort), {
      sorted: (sort) => this.choose({ sort }), open: (place) => this.open(place),
    });
  }

  /**
   * The words of the tile that the keyboard is on.
   * @param {AtlasData} data
   */
  name(data) {
    const titles = data.blocks.map((block) => block.title).join(", ");
    set(this.parts.frame, "aria-label", tell("Every head: {blocks}. Arrow keys move, Enter opens a "
      + "head, o lays it over the opened one as lines.", { blocks: titles }));
    const { cursor, picture } = this;
    this.parts.cell.textContent = [picture.name(cursor), ...factsOf(data, cursor)].join(", ");
    set(this.parts.cell, "aria-selected", String(samePlace(cursor, placeNamed(data, this.opened))));
  }
}
