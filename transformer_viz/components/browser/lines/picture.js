// The picture of lines: two canvases over a frame that scrolls, drawn only where one can see them.

import { brushOf, element, listener, pen } from "../shared/dom.js";
import { drawLinks, drawValues, drawWords, fontOf } from "./draw.js";
import { layOut, wordAt } from "./layout.js";

/** @typedef {import("./links.js").Link} Link */
/** @typedef {{side: number, place: number}} Word  side 0: queries, 1: keys */
/**
 * @typedef {{data: import("./links.js").LinesData, links: Link[],
 *   brush: import("./draw.js").Brush,
 *   palette: import("../shared/colour.js").Palette}} Drawing  what there is to draw
 */
/**
 * `words` in focus, of queries and of keys, and their `links`: those `pointed` at, or else the
 * `chosen` ones. `cursor` is where the keyboard is.
 * @typedef {{words: number[][], pointed: boolean, links: Link[], chosen: (number | null)[],
 *   cursor: Word | null}} Focus
 */

const FADED = 0.1;   // the other lines, while one points at a word
const BEHIND = 0.35; // and while one is chosen only
const CLEAR = 0.18;  // opacity that lines in focus have at least

export class LinesPicture {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.all = element("canvas", "all");     // every line that is drawn
    this.words = element("canvas", "words"); // the words, and the lines of those in focus
    this.sheet = element("div", "sheet", element("div", "sticky", this.all, this.words));
    this.place = element("div", "frame", this.sheet);
    this.place.setAttribute("aria-hidden", "true"); // the live text and the two sides speak for it
    this.place.tabIndex = -1; // a frame that scrolls would be a stop of the Tab key
    /** @type {Drawing | null} */
    this.drawing = null;
    /** @type {import("./layout.js").Layout | null} */
    this.layout = null;
    this.focus = /** @type {Focus} */ ({ words: [[], []], pointed: false, links: [], chosen: [],
      cursor: null });
    this.font = "";
    this.asked = 0;
    this.watch = new ResizeObserver(() => this.later());
    this.watch.observe(this.place);
    listener(signal)(this.place, "scroll", () => this.later());
  }

  end() {
    this.watch.disconnect();
    cancelAnimationFrame(this.asked);
  }

  /**
   * @param {Drawing} drawing
   * @param {Focus} focus
   */
  show(drawing, focus) {
    this.drawing = drawing;
    this.focus = focus;
    this.draw();
  }

  /** Draw once in the next frame, however often that is asked for until then. */
  later() {
    cancelAnimationFrame(this.asked);
    this.asked = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const { drawing, place } = this;
    if (!drawing || !place.clientWidth) return;
    const brush = brushOf(this.words);
    brush.font = this.font = fontOf(place);
    const room = { width: place.clientWidth, height: place.clientHeight };
    const layout = layOut(drawing.data, room, (text) => brush.measureText(text).width);
    this.sheet.style.width = layout.across ? layout.length + "px" : "100%";
    this.sheet.style.height = layout.across ? "100%" : layout.length + "px";
    this.layout = layout;
    drawLinks(this.cleared(this.all), layout, drawing.links, drawing.brush, this.seen(layout));
    this.light(this.focus);
  }

  /**
   * The words, and the lines of those in focus; the other lines step back.
   * @param {Focus} focus
   */
  light(focus) {
    this.focus = focus;
    const { drawing, layout } = this;
    if (!drawing || !layout) return;
    const { data, brush, palette } = drawing, { links, pointed, chosen, cursor } = focus;
    const words = focus.words.map((places) => new Set(places)), none = [new Set(), new Set()];
    const ends = [new Set(links.map((link) => link.query)), new Set(links.map((link) => link.key))];
    const names = {
      words: [data.rows.labels, data.columns.labels], lit: pointed ? words : none, chosen, cursor,
      linked: pointed ? ends : null, unread: new Set(data.unread ?? []),
    };
    const surface = this.cleared(this.words), seen = this.seen(layout);
    this.all.style.opacity = String(pointed ? FADED : links.length ? BEHIND : 1);
    drawLinks(surface, layout, links, { ...brush, least: CLEAR }, seen);
    drawValues(surface, layout, links, words, brush, palette);
    drawWords(surface, layout, names, palette, seen);
  }

  /**
   * The part of the picture that is on the screen, along its words.
   * @param {import("./layout.js").Layout} layout
   */
  seen({ across }) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.place;
    const from = across ? scrollLeft : scrollTop;
    return { from, to: from + (across ? clientWidth : clientHeight) };
  }

  /**
   * An empty canvas as large as what can be seen; its pen counts from the picture's beginning.
   * @param {HTMLCanvasElement} canvas
   */
  cleared(canvas) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.place;
    const made = pen(canvas, clientWidth, clientHeight);
    made.translate(-scrollLeft, -scrollTop);
    made.font = this.font;
    return made;
  }

  /**
   * Where on the page the picture begins, scrolled as it is, and each side's words along it: `lane`
   * is where their lines end, `places` the words, `angle` how far they are slanted.
   */
  describe() {
    const { left, top } = this.place.getBoundingClientRect(), { layout } = this;
    const { scrollLeft, scrollTop } = this.place;
    return {
      left: left - scrollLeft, top: top - scrollTop, across: layout?.across ?? false,
      sides: (layout?.sides ?? []).map(({ lane, places, angle }) => ({ lane, places, angle })),
    };
  }

  /**
   * The word under the pointer, if there is one.
   * @param {MouseEvent} event
   * @returns {Word | null}
   */
  wordUnder(event) {
    if (!this.layout) return null;
    const { left, top } = this.place.getBoundingClientRect();
    const { scrollLeft, scrollTop } = this.place;
    return wordAt(this.layout, event.clientX - left + scrollLeft, event.clientY - top + scrollTop);
  }

  /**
   * Scroll so far that a word is seen.
   * @param {Word} word
   */
  uncover({ side, place }) {
    if (!this.layout) return;
    const { from, to } = this.seen(this.layout), { pitch, across, sides } = this.layout;
    const along = sides[side].places[place];
    const by = along < from + pitch ? along - from - pitch : Math.max(0, along - to + pitch);
    this.place.scrollBy(across ? by : 0, across ? 0 : by);
  }
}
