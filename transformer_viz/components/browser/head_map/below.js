// What stands below a map: the chosen row in words, numbers, the colours, buttons, and a table.

import { brushOf, element, set } from "../shared/dom.js";
import { signed } from "../shared/number_format.js";
import { hatchPattern } from "./paint.js";
import { legendEnds } from "./words.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./sheet.js").MapData} MapData */

const STOPS = 16; // colours of the legend

export class MapBelow {
  /**
   * @param {{zoom: (factor: number) => void, table: () => void, far: (open: boolean) => void}} does
   *   factor 0 shows all
   * @param {AbortSignal} signal
   */
  constructor(does, signal) {
    this.said = element("p", "said");
    this.numbers = element("p", "numbers");
    this.ends = [element("span"), element("span")];
    this.ramp = element("canvas", "ramp");
    this.swatch = element("canvas", "swatch");
    this.masked = element("span", "masked", this.swatch, tell("masked"));
    const legend = element("span", "legend", this.ends[0], this.ramp, this.ends[1], this.masked);
    const press = (/** @type {string} */ text, /** @type {string} */ name,
      /** @type {() => void} */ act) => {
      const button = element("button", "", text);
      button.type = "button";
      button.title = name;
      set(button, "aria-label", name);
      button.addEventListener("click", act, { signal });
      return button;
    };
    this.smaller = press("−", tell("show more of the map"), () => does.zoom(1 / 2));
    this.larger = press("+", tell("enlarge the map"), () => does.zoom(2));
    this.all = press(tell("all"), tell("show all of the map"), () => does.zoom(0));
    this.table = press(tell("as a table"), tell("the chosen row as a table"), does.table);
    set(this.table, "aria-expanded", "false");
    this.far = press(tell("far links"), tell("the strongest links over far distances"), () => {
      const open = this.far.getAttribute("aria-expanded") !== "true";
      set(this.far, "aria-expanded", String(open));
      does.far(open);
    });
    set(this.far, "aria-expanded", "false");
    const tools = element("span", "tools", this.smaller, this.larger, this.all, this.table,
      this.far);
    this.direction = element("span", "direction");
    this.note = element("span", "note");
    this.rows = element("div", "rows");
    this.parts = [this.said, element("div", "bar", this.numbers, tools),
      element("p", "foot", legend, this.direction, this.note), this.rows];
  }

  /**
   * @param {MapData} data
   * @param {number} limit
   * @param {Uint32Array} table  the colours
   * @param {boolean} hatched
   * @param {string} hatch  its colour
   */
  show({ change, said, numbers, direction, threshold, largest, tiles }, limit, table, hatched, hatch) {
    this.said.textContent = said;
    this.numbers.textContent = numbers;
    this.direction.textContent = direction;
    const [low, high] = legendEnds(change, limit, tiles?.ahead ? Infinity : largest);
    this.ends[0].textContent = low;
    const blank = tell("blank below {weight}", { weight: Number(threshold.toFixed(4)) });
    this.ends[1].textContent = high + (threshold ? " · " + blank : "");
    paintRamp(this.ramp, table, change ? 1 : 0);
    this.masked.hidden = !hatched;
    paintSwatch(this.swatch, hatch);
  }

  /**
   * @param {string} note
   * @param {boolean} whole  whether the whole map is shown
   * @param {boolean} closest  whether it cannot be enlarged any more
   */
  view(note, whole, closest) {
    if (this.note.textContent !== note) this.note.textContent = note;
    set(this.smaller, "aria-disabled", String(whole));
    set(this.all, "aria-disabled", String(whole));
    set(this.larger, "aria-disabled", String(closest));
  }

  get open() {
    return this.table.getAttribute("aria-expanded") === "true";
  }

  /**
   * The chosen row, a line for each column.
   * @param {MapData} data
   * @param {boolean} open
   * @param {number | null} row
   * @param {{values: Float32Array, masked: Uint8Array} | null} exact
   */
  tabulate({ rows, columns, change, fixed }, open, row, exact) {
    set(this.table, "aria-expanded", String(open));
    if (!open) return this.rows.replaceChildren();
    if (row === null || !exact) {
      const why = row === null
        ? tell("Choose a row first: click into the map, or press Enter there.")
        : fixed ? tell("The exact weights of this row are not in this page.")
          : tell("The exact weights of this row are on their way.");
      return this.rows.replaceChildren(element("p", "missing", why));
    }
    const told = (/** @type {number} */ n) =>
      (exact.masked[n] && !exact.values[n] ? tell("masked")
        : Number.isNaN(exact.values[n]) ? "–" : signed(exact.values[n], 4, change));
    const lines = columns.labels.map((label, n) => {
      const name = element("th", "", label);
      name.scope = "row";
      return element("tr", "", name, element("td", "", told(n)));
    });
    const names = [tell("column"), change ? tell("change of weight") : tell("weight")];
    const heads = names.map((text) => {
      const head = element("th", "", text);
      head.scope = "col";
      return head;
    });
    this.rows.replaceChildren(element("table", "",
      element("caption", "", tell("“{word}” looks at", { word: rows.labels[row] })),
      element("thead", "", element("tr", "", ...heads)), element("tbody", "", ...lines)));
  }
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Uint32Array} table
 * @param {number} first
 */
function paintRamp(canvas, table, first) {
  canvas.width = STOPS;
  canvas.height = 1;
  const image = new ImageData(STOPS, 1), pixels = new Uint32Array(image.data.buffer);
  for (let n = 0; n < STOPS; n++) {
    pixels[n] = table[Math.round(first + (n / (STOPS - 1)) * (255 - first))];
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {string} colour
 */
function paintSwatch(canvas, colour) {
  canvas.width = 18 * devicePixelRatio;
  canvas.height = 12 * devicePixelRatio;
  const brush = brushOf(canvas);
  brush.scale(devicePixelRatio, devicePixelRatio);
  brush.fillStyle = hatchPattern(brush, colour);
  brush.fillRect(0, 0, 18, 12);
}
