// The sum behind one number: its factors as strips, and every product in a table that adds up.

import { largestOf, paintStrip } from "./cells.js";
import { element, listener, set } from "../shared/dom.js";
import { symbolName } from "./formula.js";
import { figure } from "../shared/number_format.js";
import { tell } from "../shared/i18n.js";

/** @typedef {{address: string, text: string, whose: string, aName: string, bName: string,
 *   axis: string, few: boolean, labels: string[], bias: number | null, divisor: number,
 *   then: string, sum: number, total: number, digits: number}} SumData  components/inside_sum.py says what each is */

export class SumSheet {
  /**
   * @param {HTMLElement} place
   * @param {() => void} close
   */
  constructor(place, close) {
    this.place = place;
    /** @type {SumData | null} */
    this.data = null;
    /** @type {Float32Array} */
    this.a = new Float32Array();
    /** @type {Float32Array} */
    this.b = new Float32Array();
    this.ordered = false;
    /** @type {import("./cells.js").CellColours | null} */
    this.colours = null;
    this.title = element("h4");
    this.formula = element("p", "tv-in-sum-formula");
    this.canvases = [element("canvas"), element("canvas"), element("canvas")];
    this.names = this.canvases.map(() => element("span", "tv-in-head"));
    this.strips = element("div", "tv-in-sum-strips",
      ...this.canvases.flatMap((canvas, n) => [this.names[n], canvas]));
    set(this.strips, "aria-hidden", "true"); // the table says the same in numbers
    this.table = element("div", "tv-in-sum-table");
    this.table.tabIndex = 0;
    this.closer = this.button("tv-in-close");
    this.order = this.button("tv-in-order");
    this.take = this.button("tv-in-take");
    place.append(element("div", "tv-in-sum-top", this.title, this.order, this.take, this.closer),
      this.formula, this.strips, this.table);
    this.ending = new AbortController();
    const on = listener(this.ending.signal);
    on(this.closer, "click", close);
    on(this.order, "click", () => {
      this.ordered = !this.ordered;
      this.tabulate();
    });
    on(this.take, "click", () => this.save());
    on(place, "keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      close();
    });
    this.sizes = new ResizeObserver(() => this.paint());
    this.sizes.observe(this.strips);
  }

  end() {
    this.ending.abort();
    this.sizes.disconnect();
  }

  /** @param {string} className */
  button(className) {
    const made = element("button", "tv-in-button " + className);
    made.type = "button";
    return made;
  }

  /**
   * @param {SumData | null} data
   * @param {Record<string, import("../shared/blob.js").Block>} arrays
   * @param {import("./cells.js").CellColours} colours
   */
  show(data, arrays, colours) {
    this.place.hidden = !data;
    this.data = data;
    this.colours = colours;
    if (!data) return;
    this.a = arrays.sum_a.data;
    this.b = arrays.sum_b.data;
    this.closer.textContent = tell("close");
    this.take.textContent = tell("take the numbers (CSV)");
    this.title.replaceChildren(symbolName(data.text), ` ${data.whose} = `,
      element("b", "", figure(data.total)));
    this.formula.textContent = this.written(data);
    [this.factor(0), this.factor(1), this.product].forEach((name, n) => {
      this.names[n].replaceChildren(...name);
    });
    set(this.table, "aria-label", tell("the terms of the sum"));
    this.tabulate();
    this.paint();
  }

  /**
   * How one of the two factors is written; none has no name.
   * @param {0 | 1} which
   * @returns {(Node | string)[]}
   */
  factor(which) {
    const name = which ? this.data?.bName : this.data?.aName;
    return name ? [symbolName(name)] : [];
  }

  /** @returns {(Node | string)[]} */
  get product() {
    return this.plain ? this.factor(0) : [...this.factor(0), " · ", ...this.factor(1)];
  }

  /** Whether there is nothing to multiply. */
  get plain() {
    return !this.data?.bName;
  }

  /**
   * The whole sum in one line.
   * @param {SumData} data
   */
  written(data) {
    const { bias, divisor, then, sum, total } = data;
    let value = this.products.reduce((all, term) => all + term, 0);
    const parts = [this.begun(data, value)];
    if (bias !== null) {
      value += bias;
      parts.push(tell("plus {bias}: {value}", { bias: figure(bias), value: figure(value) }));
    }
    if (divisor !== 1) {
      value /= divisor;
      parts.push(tell("divided by {divisor}: {value}",
        { divisor: plainNumber(divisor), value: figure(value) }));
    }
    if (then) parts.push(`${then}(${figure(sum)}) = ${figure(total)}`);
    return parts.join(" → ");
  }

  /**
   * The terms themselves where they are few, else how many they are.
   * @param {SumData} data
   * @param {number} value  what they add up to
   */
  begun({ few, digits }, value) {
    if (!few) {
      return tell("{count} terms add up to {value}",
        { count: this.a.length, value: figure(value) });
    }
    const terms = Array.from(this.a, (a, n) => this.plain ? fixed(this.products[n], digits)
      : `${fixed(a, digits)} · ${fixed(this.b[n], digits)}`);
    return terms.length === 1 && this.plain ? terms[0] : `${terms.join(" + ")} = ${figure(value)}`;
  }

  /** Each term in double precision. */
  get products() {
    return Array.from(this.a, (value, n) => value * this.b[n]);
  }

  paint() {
    const { colours, data } = this;
    if (!colours || !data) return;
    this.strips.hidden = this.order.hidden = data.few;
    this.table.hidden = data.few && this.a.length === 1;
    [this.a, this.b, this.products].forEach((values, n) => {
      this.canvases[n].hidden = this.names[n].hidden = n > 0 && this.plain;
      if (!this.canvases[n].hidden) {
        paintStrip(this.canvases[n], values, colours, { most: largestOf(values) });
      }
    });
  }

  tabulate() {
    const { data, products } = this;
    if (!data) return;
    this.order.textContent = this.ordered ? tell("in their own order") : tell("largest first");
    set(this.order, "aria-pressed", String(this.ordered));
    const order = products.map((_, n) => n);
    if (this.ordered) order.sort((one, other) => Math.abs(products[other]) - Math.abs(products[one]));
    const more = termDecimals(products.length);
    let running = 0;
    const rows = order.map((n) => {
      running += products[n];
      const label = data.labels[n] ?? String(n + 1);
      const name = data.few ? [symbolName(label)] : label;
      const factors = this.plain ? [] : [fixed(this.a[n], data.digits), fixed(this.b[n], data.digits)];
      const soFar = data.few ? [] : [fixed(running, 4)];
      return sumRow("td", name, ...factors, fixed(products[n], more), ...soFar);
    });
    const heads = this.plain ? [] : [this.factor(0), this.factor(1)];
    const soFar = data.few ? [] : [tell("sum so far")];
    const head = sumRow("th", data.axis, ...heads, this.product, ...soFar);
    this.table.replaceChildren(element("table", "",
      element("thead", "", head), element("tbody", "", ...rows)));
  }

  /** The numbers as a file, with all their digits. */
  save() {
    if (!this.data) return;
    const { address, labels, bias } = this.data;
    const lines = ["term,a,b,product", ...this.products.map((product, n) =>
      [`"${(labels[n] ?? String(n + 1)).replaceAll('"', '""')}"`, this.a[n], this.b[n], product]
        .join(","))];
    if (bias !== null) lines.push(`bias,,,${bias}`);
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = address.replaceAll(/[^\w.]+/g, "-") + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

/**
 * How many decimals so many terms need so that what stands there adds up to four of them.
 * @param {number} count
 */
export function termDecimals(count) {
  return Math.min(9, 4 + Math.ceil(Math.log10(Math.max(count, 1))));
}

/**
 * A whole number without decimals, any other with four.
 * @param {number} value
 */
function plainNumber(value) {
  return Number.isInteger(value) ? String(value) : figure(value);
}

/**
 * @param {number} value
 * @param {number} digits
 */
function fixed(value, digits) {
  if (!Number.isFinite(value) || Math.abs(value) >= 1e6) return figure(value);
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/**
 * @param {"td" | "th"} kind
 * @param {...(string | (Node | string)[])} cells
 */
function sumRow(kind, ...cells) {
  return element("tr", "", ...cells.map((content, n) => {
    const made = element(n ? kind : "th", "", ...(Array.isArray(content) ? content : [content]));
    set(made, "scope", kind === "th" ? "col" : n ? "" : "row");
    return made;
  }));
}
