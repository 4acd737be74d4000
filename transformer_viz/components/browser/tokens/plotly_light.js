// A Plotly chart whose rows or columns are tokens: bands of light over it, and what it points at.

import { DARKNESS, placesOn, shine, spotOn } from "../shared/hover_link.js";

/** @typedef {import("../shared/hover_link.js").Ruler} Ruler */
/** @typedef {{key: string, rows: Ruler | null, columns: Ruler | null}} Chart
 *   the key of a chart on the page, and whose tokens stand along its sides */

export class PlotlyLight {
  constructor() {
    /** @type {Chart | null} */
    this.data = null;
    this.known = new WeakSet();
    /** @type {import("../shared/hover_link.js").Light} */
    this.lit = DARKNESS;
    this.bands = { row: band(), column: band() };
    this.ended = false;
    this.watch = new MutationObserver(() => { // drawn anew while lit: light the new one
      if (!this.bands.row.isConnected) this.draw();
    });
  }

  end() {
    this.watch.disconnect();
    this.lit = DARKNESS;
    this.ended = true; // listeners stay with a chart that may outlive the chips
    this.hide();
  }

  hide() {
    for (const one of Object.values(this.bands)) one.remove();
  }

  /** @param {Chart | null} data */
  show(data) {
    this.data = data;
    this.attach();
    this.draw();
  }

  /** @param {import("../shared/hover_link.js").Light} light */
  light(light) {
    this.lit = light;
    this.draw();
  }

  place() {
    return this.data && document.querySelector(`.st-key-${CSS.escape(this.data.key)}`);
  }

  /** @returns {any} */
  chart() {
    return this.place()?.querySelector(".js-plotly-plot") ?? null;
  }

  /** Hear what is pointed at in the chart: once for each, and it may have been drawn anew. */
  attach() {
    const chart = this.chart();
    if (!chart || typeof chart.on !== "function" || this.known.has(chart)) return;
    this.known.add(chart);
    chart.on("plotly_hover", (/** @type {any} */ { points }) => {
      if (this.ended || this.chart() !== chart || !points?.length || !this.data) return;
      const { rows, columns } = this.data;
      shine(at(rows, points[0].y), at(columns, points[0].x));
    });
    chart.on("plotly_unhover", () => this.ended || shine(null, null));
  }

  draw() {
    this.watch.disconnect();
    const { rows, columns } = this.data ?? { rows: null, columns: null };
    const row = rows && placesOn(rows, this.lit.row)[0];
    const column = columns && placesOn(columns, this.lit.column)[0];
    const on = row != null || column != null;
    const place = on && this.place();
    if (place) this.watch.observe(place, { childList: true, subtree: true });
    const chart = on ? this.chart() : null;
    const plot = chart?.querySelector(".svg-container");
    const across = chart?._fullLayout?.xaxis2 ?? chart?._fullLayout?.xaxis;
    const down = chart?._fullLayout?.yaxis2 ?? chart?._fullLayout?.yaxis;
    if (!plot || !across?.l2p || !down?.l2p) return this.hide();
    const left = across._offset, top = down._offset;
    lay(this.bands.row, plot, row, down, (from, size) =>
      ({ left, top: top + from, width: across._length, height: size }));
    lay(this.bands.column, plot, column, across, (from, size) =>
      ({ left: left + from, top, width: size, height: down._length }));
  }
}

/**
 * @param {Ruler | null} ruler
 * @param {number} place
 */
function at(ruler, place) {
  const index = Math.round(place);
  return ruler && ruler.groups[index] ? spotOn(ruler, index) : null;
}

function band() {
  const made = document.createElement("div");
  made.className = "tv-band";
  made.setAttribute("aria-hidden", "true");
  return made;
}

/**
 * Put a band over one cell's breadth of an axis, or hide it.
 * @param {HTMLElement} strip
 * @param {Element} plot
 * @param {number | null | undefined} index
 * @param {any} axis
 * @param {(from: number, size: number) => Record<string, number>} box
 */
function lay(strip, plot, index, axis, box) {
  const ends = index == null ? [0, 0] : [axis.l2p(index - 0.5), axis.l2p(index + 0.5)];
  const from = Math.min(...ends), size = Math.abs(ends[1] - ends[0]);
  const outside = index == null || from < -1 || from + size > axis._length + 1;
  const style = Object.entries(box(from, size)).map(([name, value]) => `${name}:${value}px`);
  const warm = "var(--tv-warm, #B4560F)";
  strip.style.cssText = [
    "position:absolute;pointer-events:none;z-index:5;box-sizing:border-box",
    `background:color-mix(in srgb, ${warm} 7%, transparent)`,
    `border:1px solid color-mix(in srgb, ${warm} 80%, transparent)`,
    outside ? "display:none" : "", ...style,
  ].join(";");
  if (strip.parentElement !== plot) plot.append(strip);
}
