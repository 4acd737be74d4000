// The vectors q and k and their product as bars, one a dimension; a cursor reads the numbers.

import { element, listener, modified, pen, set } from "../shared/dom.js";
import { figure } from "../shared/number_format.js";
import { tell } from "../shared/i18n.js";

const STRIP_HEIGHT = 46; // pixels
const STRIP_NAMES = ["q", "k", "q × k"];

/** @typedef {{q: Float32Array, k: Float32Array, product: Float32Array}} Vectors */

export class Strips {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {number | null} */
    this.cursor = null;
    /** @type {Vectors | null} */
    this.vectors = null;
    this.colours = { more: "", less: "", line: "", ink: "" };
    this.canvases = STRIP_NAMES.map(() => element("canvas"));
    this.words = STRIP_NAMES.map(() => element("span", "tv-qk-whose"));
    this.ranges = STRIP_NAMES.map(() => element("span", "tv-qk-range"));
    const rows = STRIP_NAMES.map((name, n) => element("div", "tv-qk-strip",
      element("span", "tv-qk-vector", element("b", "", name), " ", this.words[n]),
      this.canvases[n], this.ranges[n]));
    this.frame = element("div", "tv-qk-strips", ...rows);
    this.frame.tabIndex = 0;
    set(this.frame, "role", "group");
    this.said = element("p", "tv-qk-dimension", stripLegend());
    set(this.said, "aria-live", "polite");
    place.append(this.frame, this.said);
    this.ending = new AbortController();
    const on = listener(this.ending.signal);
    on(this.frame, "pointermove", (event) => this.move(this.under(event)));
    on(this.frame, "pointerleave", () => this.move(null));
    on(this.frame, "blur", () => this.move(null));
    on(this.frame, "keydown", (event) => this.key(event));
    this.sizes = new ResizeObserver(() => this.paint());
    this.sizes.observe(this.frame);
  }

  end() {
    this.ending.abort();
    this.sizes.disconnect();
  }

  /**
   * @param {Vectors} vectors
   * @param {{row: string, column: string}} names  whose they are
   * @param {import("../shared/colour.js").Palette} palette
   */
  show(vectors, names, palette) {
    this.vectors = vectors;
    const [less, more] = [palette.changes[0], palette.changes[palette.changes.length - 1]];
    this.colours = { more, less, line: palette.line, ink: palette.ink };
    const width = vectors.q.length;
    this.words[0].textContent = names.row;
    this.words[1].textContent = names.column;
    set(this.frame, "aria-label", tell("q of {row}, k of {column} and their products, {width} "
      + "dimensions; arrow keys read them one by one", { ...names, width }));
    if (this.cursor !== null && this.cursor >= width) this.cursor = null;
    this.paint();
    this.tell();
  }

  /** @param {number | null} cursor */
  move(cursor) {
    if (cursor === this.cursor) return;
    this.cursor = cursor;
    this.paint();
    this.tell();
  }

  /**
   * The dimension under the pointer.
   * @param {PointerEvent} event
   */
  under(event) {
    if (!this.vectors) return null;
    const box = this.canvases[0].getBoundingClientRect();
    const found = Math.floor((event.clientX - box.left) / box.width * this.vectors.q.length);
    return found >= 0 && found < this.vectors.q.length ? found : null;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.vectors || modified(event)) return;
    const last = this.vectors.q.length - 1, here = this.cursor;
    /** @type {Record<string, number | null>} */
    const ways = {
      ArrowLeft: here === null ? last : Math.max(0, here - 1),
      ArrowRight: here === null ? 0 : Math.min(last, here + 1),
      Home: 0, End: last, Escape: null,
    };
    if (!(event.key in ways)) return;
    event.preventDefault();
    this.move(ways[event.key]);
  }

  tell() {
    if (!this.vectors || this.cursor === null) {
      this.said.textContent = stripLegend();
      return;
    }
    const { q, k, product } = this.vectors, at = this.cursor;
    const read = { q: figure(q[at]), k: figure(k[at]), product: figure(product[at]) };
    this.said.textContent = tell("dimension {number} of {count}: q {q} × k {k} = {product}",
      { ...read, number: at + 1, count: q.length });
  }

  paint() {
    if (!this.vectors) return;
    const { q, k, product } = this.vectors;
    const most = Math.max(largestSize(q), largestSize(k)); // q and k are compared, so they share a scale
    [q, k, product].forEach((values, n) => {
      const range = n < 2 ? most : largestSize(values);
      this.ranges[n].textContent = "±" + range.toFixed(2);
      this.bars(this.canvases[n], values, range);
    });
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Float32Array} values
   * @param {number} most
   */
  bars(canvas, values, most) {
    const width = canvas.clientWidth, middle = STRIP_HEIGHT / 2;
    if (!width) return;
    const brush = pen(canvas, width, STRIP_HEIGHT);
    canvas.style.width = ""; // as wide as the style sheet lets it be
    const step = width / values.length, gap = step >= 3 ? 1 : 0;
    if (this.cursor !== null) {
      brush.globalAlpha = 0.14;
      brush.fillStyle = this.colours.ink;
      brush.fillRect(this.cursor * step - 1, 0, step + 2 - gap, STRIP_HEIGHT);
      brush.globalAlpha = 1;
    }
    brush.fillStyle = this.colours.line;
    brush.fillRect(0, middle - 0.5, width, 1);
    for (let n = 0; n < values.length; n++) {
      const height = most ? values[n] / most * (middle - 2) : 0;
      brush.fillStyle = height > 0 ? this.colours.more : this.colours.less;
      brush.fillRect(n * step, middle - Math.max(0, height), step - gap, Math.abs(height));
    }
  }
}

function stripLegend() {
  return tell("one bar a dimension: up is positive, down is negative");
}

/** @param {Float32Array} values */
function largestSize(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}
