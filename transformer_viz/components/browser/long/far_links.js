// The strongest links of a head over far distances: a list that is asked of the server, of which
// each line leads to its cell.

import { read } from "../shared/blob.js";
import { element, rested, set } from "../shared/dom.js";
import { signed } from "../shared/number_format.js";
import { tell } from "../shared/i18n.js";

/** @typedef {{row: number, column: number}} Place */
/** @typedef {Place & {weight: number}} Link */

const REST = 400; // milliseconds after which a distance that is typed is asked for
const NEAR = 64;  // tokens: the distance at first

export class FarLinks {
  /**
   * @param {(place: Place) => void} go
   * @param {AbortSignal} signal
   */
  constructor(go, signal) {
    this.go = go;
    this.open = false;
    this.of = ""; // what was asked for last
    /** @type {Link[]} */
    this.links = [];
    this.said = "";
    this.waits = false;
    this.asking = new AbortController();
    /** @type {import("../head_map/sheet.js").MapData | null} */
    this.data = null;
    this.distance = element("input");
    Object.assign(this.distance, { type: "number", min: "1", step: "1", value: String(NEAR) });
    this.first = element("input");
    this.first.type = "checkbox";
    this.once = element("input");
    this.once.type = "checkbox";
    this.told = element("p", "told");
    set(this.told, "role", "status");
    this.list = element("div", "links");
    this.place = element("div", "far",
      element("div", "asked",
        element("label", "", tell("at least so many tokens apart"), " ", this.distance),
        element("label", "", this.first, " ", tell("also links to the first token")),
        element("label", "", this.once, " ", tell("each word looked at only once"))),
      this.told, this.list);
    this.place.hidden = true;
    const rest = rested(REST, () => this.ask());
    this.distance.addEventListener("input", () => rest.ask(), { signal });
    for (const box of [this.first, this.once]) {
      box.addEventListener("change", () => this.ask(), { signal });
    }
    signal.addEventListener("abort", () => {
      rest.end();
      this.asking.abort();
    });
  }

  /** @param {boolean} open */
  unfold(open) {
    this.open = open;
    this.place.hidden = !open;
    this.ask();
  }

  /**
   * The map that is shown; the list of another one goes.
   * @param {import("../head_map/sheet.js").MapData} data
   */
  show(data) {
    this.data = data;
    this.distance.max = String(data.rows.labels.length - 1);
    this.ask();
    this.draw();
  }

  async ask() {
    const { data, open } = this, line = data?.tiles;
    if (!open || !line) return;
    const chosen = (/** @type {HTMLInputElement} */ { checked }) => (checked ? "on" : "off");
    const distance = this.distance.value, first = chosen(this.first), once = chosen(this.once);
    const words = new URLSearchParams({ of: line.of, distance, first, once }), of = words.toString();
    if (of === this.of) return;
    this.of = of;
    this.asking.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    Object.assign(this, { waits: true, links: [] });
    this.said = line.ahead ? tell("The list follows when the model has run.")
      : line.far ? tell("Looking through all cells ...")
        : tell("The cells of long maps come from a server: start the app with transformer-viz app.");
    this.draw();
    if (line.ahead || !line.far) {
      this.of = ""; // under the same name the run will come
      this.waits = false;
      return;
    }
    try {
      const answer = await fetch(`${line.far}?${words}`, { cache: "no-store", signal });
      if (answer.status !== 200) throw new Error(await answer.text());
      const found = /** @type {any} */ (read(new Uint8Array(await answer.arrayBuffer())));
      const { row, column, weight } = found.arrays;
      this.links = [...row.data].map((/** @type {number} */ place, n) =>
        ({ row: place, column: column.data[n], weight: weight.data[n] }));
      this.said = summary(this.links.length, first === "on", found.first);
    } catch (error) {
      if (signal.aborted) return;
      this.of = ""; // the next look asks again
      this.said = error instanceof TypeError ? tell("The server does not answer.")
        : tell("There is no list: {why}", { why: /** @type {Error} */ (error).message });
    }
    this.waits = false;
    this.draw();
  }

  draw() {
    const { data, links } = this;
    if (!data || !this.open) return;
    if (this.told.textContent !== this.said) this.told.textContent = this.said;
    if (!links.length) return this.list.replaceChildren();
    const { rows: { labels: rows }, columns: { labels: columns } } = data;
    const lines = links.map(({ row, column, weight }) => {
      const button = element("button", "", `${rows[row]} → ${columns[column]}`);
      button.type = "button";
      button.addEventListener("click", () => this.go({ row, column }));
      const name = element("th", "", button);
      name.scope = "row";
      const told = [`${row + 1} → ${column + 1}`, String(Math.abs(row - column)),
        signed(weight, 4, false)];
      return element("tr", "", name, ...told.map((text) => element("td", "", text)));
    });
    const heads = [tell("link"), tell("row → column"), tell("distance"), tell("weight")]
      .map((text) => {
        const head = element("th", "", text);
        head.scope = "col";
        return head;
      });
    this.list.replaceChildren(element("table", "",
      element("thead", "", element("tr", "", ...heads)), element("tbody", "", ...lines)));
  }
}

/**
 * What the list leaves out.
 * @param {number} count
 * @param {boolean} first
 * @param {number} share  of the weight that the first token gets
 */
function summary(count, first, share) {
  if (!count) return tell("No weight reaches so far.");
  const weight = share.toFixed(4);
  return first
    ? tell("Left out: masked cells. The first token gets {weight} of the weight of rows so far "
      + "from it, on average.", { weight })
    : tell("Left out: masked cells, and the first token, which gets {weight} of the weight of "
      + "rows so far from it, on average.", { weight });
}
