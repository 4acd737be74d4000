// Sentences as chips. To point at one, or to reach it with the keyboard, lights it in all pictures;
// what is lit in a picture lights its chips. A Plotly chart on the page takes part too.

import { isDark } from "../shared/colour.js";
import { activeAround, fit, listener, modified, set } from "../shared/dom.js";
import { lit, meet, onLight, shine, spotOf } from "../shared/hover_link.js";
import { tell } from "../shared/i18n.js";
import { PlotlyLight } from "./plotly_light.js";

/** @typedef {{text: string, row: string | null, column: string | null, on: boolean,
 *   gone: boolean, mark: boolean, dead: boolean}} Chip */
/** @typedef {{rows: {name: string, title: string, chips: Chip[]}[], dark: boolean,
 *   chart: import("./plotly_light.js").Chart | null}} ChipData */

export class Chips {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say  "picked" {side, token}, "theme" "dark" | "light"
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    place.classList.add("tv-tokens");
    /** @type {HTMLButtonElement[][]} */
    this.rows = [];
    this.chart = new PlotlyLight();
    /** @type {boolean | null} */
    this.told = null;
    /** @type {ChipData} */
    this.data = { rows: [], dark: false, chart: null };
    this.ending = new AbortController();
    const { signal } = this.ending, on = listener(signal);
    onLight(signal, () => this.light());
    on(document, "pointerover", () => this.chart.attach()); // it is another after each change
    on(place, "pointerover", (event) => this.point(event.target));
    on(place, "pointerleave", () => shine(null, null));
    on(place, "focusin", (event) => {
      if (event.target.matches(":focus-visible")) this.point(event.target);
    });
    on(place, "focusout", () => shine(null, null));
    on(place, "click", (event) => this.pick(event.target));
    on(place, "keydown", (event) => this.key(event));
  }

  end() {
    this.ending.abort();
    this.chart.end();
    if (lit().row || lit().column) shine(null, null);
  }

  /** @param {ChipData} data */
  show(data) {
    this.data = data;
    this.theme();
    this.chart.show(data.chart);
    while (this.rows.length > data.rows.length) {
      this.rows.pop();
      this.place.lastElementChild?.remove();
    }
    data.rows.forEach((row, number) => this.row(row, number));
    this.light();
  }

  /**
   * One sentence. Its buttons stay while words change, so that the keyboard's place is kept.
   * @param {{name: string, title: string, chips: Chip[]}} row
   * @param {number} number
   */
  row(row, number) {
    if (!this.rows[number]) {
      const line = document.createElement("div");
      line.className = "tv-row";
      line.innerHTML = '<span class="tv-name"></span><div role="toolbar"></div>';
      this.place.append(line);
      this.rows[number] = [];
    }
    const line = this.place.children[number];
    const [name, chips] = line.children;
    name.textContent = row.title;
    chips.setAttribute("aria-label", row.title);
    const buttons = this.rows[number];
    fit(buttons, row.chips.length, chips);
    row.chips.forEach((chip, n) => dress(buttons[n], chip));
    const active = activeAround(this.place);
    const current = buttons.findIndex((button) => button === active);
    const chosen = Math.max(0, row.chips.findIndex((chip) => chip.on));
    this.reach(number, current >= 0 ? current : chosen);
  }

  /**
   * The one chip of a row that the Tab key stops at.
   * @param {number} row
   * @param {number} number
   */
  reach(row, number) {
    this.rows[row].forEach((button, n) => { button.tabIndex = n === number ? 0 : -1; });
  }

  /**
   * The row and number of a button, or null for what stands between them.
   * @param {EventTarget | null} target
   */
  where(target) {
    for (const [row, buttons] of this.rows.entries()) {
      const number = buttons.findIndex((button) => button === target);
      if (number >= 0) return { row, number, chip: this.data.rows[row].chips[number] };
    }
    return null;
  }

  /** @param {EventTarget | null} target */
  point(target) {
    const found = this.where(target);
    shine(spotOf(found && found.chip.row), spotOf(found && found.chip.column));
  }

  /** @param {EventTarget | null} target */
  pick(target) {
    const found = this.where(target);
    if (!found || found.chip.dead) return;
    this.reach(found.row, found.number);
    this.say("picked", { side: this.data.rows[found.row].name, token: found.number });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const found = this.where(event.target);
    if (!found || modified(event)) return;
    const buttons = this.rows[found.row], last = buttons.length - 1, here = found.number;
    /** @type {Record<string, number>} */
    const ways = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last };
    const to = ways[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to < 0 || to > last) return;
    this.reach(found.row, to);
    buttons[to].focus();
  }

  /** Light the chips of what is lit in any picture. */
  light() {
    const { row, column } = lit();
    this.rows.forEach((buttons, r) => buttons.forEach((button, n) => {
      const chip = this.data.rows[r]?.chips[n];
      if (!chip) return; // it is about to go: a button that is taken away may say so first
      const on = meet(row, spotOf(chip.row)) || meet(column, spotOf(chip.column));
      button.classList.toggle("lit", on);
    }));
    this.chart.light(lit());
  }

  /** Tell once when the page is dark and the pictures are light, or the other way round. */
  theme() {
    const dark = isDark(this.place);
    if (dark === this.data.dark) this.told = null;
    else if (this.told !== dark) {
      this.told = dark;
      this.say("theme", dark ? "dark" : "light");
    }
  }
}

/**
 * @param {HTMLButtonElement} button
 * @param {Chip} chip
 */
function dress(button, chip) {
  if (button.textContent !== chip.text) button.textContent = chip.text;
  button.classList.add("tv-chip");
  button.translate = false;
  button.classList.toggle("tv-on", chip.on);
  button.classList.toggle("tv-gone", chip.gone);
  button.classList.toggle("tv-mark", chip.mark);
  set(button, "aria-pressed", String(chip.on));
  set(button, "aria-disabled", String(chip.dead));
  set(button, "aria-label", chip.gone ? tell("{word} (hidden)", { word: chip.text }) : chip.text);
}
