// Step inside a head: the chain of one word, one station at a time, with every number of it.

import { paletteOf } from "../shared/colour.js";
import { element, elementsIn, listener, modified, rested, set } from "../shared/dom.js";
import { cellColours } from "./cells.js";
import { Rail } from "./rail.js";
import { Station } from "./station.js";
import { SumSheet } from "./sum.js";
import { Pending } from "../shared/pending.js";
import { onLight, shine, spotOn } from "../shared/hover_link.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("../shared/hover_link.js").Ruler} Ruler */
/** @typedef {{label: string, row: string, reads: string,
 *   token: number, rows: Ruler, columns: Ruler, problem: string, step: number, present: boolean,
 *   stations: import("./station.js").StationData[],
 *   sum: import("./sum.js").SumData | null, arrays: Record<string, import("../shared/blob.js").Block>,
 *   colours: import("../shared/colour.js").Colours}} InsideData  components/inside.py says what each is */

const TOLD_AFTER = 250; // milliseconds without a step after which Python hears where we are
const FIELDS = "input, textarea, select, [contenteditable], [role=slider], [role=radiogroup], [role=radio]";

export class Inside {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say  "stepped" {step}; "opened" {number, step}: the number,
   *   or "" to close, and the station it stands in
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    /** @type {InsideData | null} */
    this.data = null;
    this.step = 0;
    this.pending = new Pending(); // steps
    place.classList.add("tv-in");
    this.problem = element("p", "tv-in-problem");
    const rail = element("nav", "tv-in-rail"), station = element("section", "tv-in-station");
    this.sheet = element("section", "tv-in-sum");
    this.count = element("span", "tv-in-count");
    this.back = this.button(-1);
    this.next = this.button(1);
    set(this.back, "data-step", "back"); // the keys of presenter mode press them too
    set(this.next, "data-step", "on");
    const steps = element("div", "tv-in-steps", this.back, this.count, this.next);
    this.body = element("div", "tv-in-body", rail,
      element("div", "tv-in-open", steps, station, this.sheet));
    place.replaceChildren(this.problem, this.body);
    this.rail = new Rail(rail, (step) => this.go(step));
    this.station = new Station(station, (address) => this.open(address), (key) => this.light(key));
    this.sum = new SumSheet(this.sheet, () => this.open(""));
    this.told = rested(TOLD_AFTER, (/** @type {number} */ step) => {
      this.pending.tell(step);
      say("stepped", { step });
    });
    this.ending = new AbortController();
    const { signal } = this.ending;
    listener(signal)(window, "keydown", (event) => this.key(event));
    onLight(signal, ({ column }) => this.lit(column));
  }

  end() {
    this.ending.abort();
    this.told.end();
    for (const part of [this.rail, this.station, this.sum]) part.end();
  }

  /** @param {number} way */
  button(way) {
    const made = element("button", "tv-in-button");
    made.type = "button";
    made.addEventListener("click", () => this.go(this.step + way));
    return made;
  }

  /** @param {InsideData} data */
  show(data) {
    const opened = this.data?.sum?.address;
    this.data = data;
    this.problem.textContent = data.problem;
    this.problem.hidden = !data.problem;
    this.place.classList.toggle("tv-in-present", data.present);
    if (this.step >= data.stations.length) this.pending.forget();
    if (this.pending.hear(data.step)) this.step = data.step;
    this.draw();
    if (data.sum && data.sum.address !== opened) this.uncover();
  }

  draw() {
    const { data, step } = this;
    if (!data) return;
    const last = data.stations.length - 1;
    this.body.hidden = last < 0;
    if (last < 0) return;
    const colours = cellColours(paletteOf(this.place, data));
    const station = data.stations[step], { sum } = data;
    const shown = sum && sum.address.startsWith(station.name + "/") ? sum : null;
    this.place.classList.toggle("tv-in-summing", Boolean(shown));
    this.back.textContent = "‹ " + tell("step back");
    this.next.textContent = tell("next step") + " ›";
    this.back.disabled = step === 0;
    this.next.disabled = step === last;
    this.count.textContent = tell("{at} of {count}", { at: step + 1, count: last + 1 });
    this.rail.show(data, data.stations, step);
    this.station.show(station, data.arrays, colours, shown ? shown.address : "");
    this.sum.show(shown, data.arrays, colours);
  }

  /** Let the opened sum be seen. */
  uncover() {
    if (!this.sheet.hidden) this.sheet.scrollIntoView({ block: "nearest" });
  }

  /**
   * To another station; Python hears of it when the hand rests.
   * @param {number} step
   */
  go(step) {
    const last = (this.data?.stations.length ?? 0) - 1, to = Math.max(0, Math.min(last, step));
    if (to === this.step) return;
    this.step = to;
    this.pending.choose();
    this.draw();
    this.told.ask(to);
  }

  /**
   * Ask for the sum behind a number. Python may not have heard yet in which station it stands.
   * @param {string} number
   */
  open(number) {
    this.told.end();
    if (this.pending.unsaid) this.pending.tell(this.step);
    this.say("opened", { number, step: this.step });
  }

  /**
   * Light the row of a key in the other pictures of the page.
   * @param {number | null} key
   */
  light(key) {
    if (!this.data) return;
    const { rows, columns, token } = this.data;
    if (key === null) shine(null, null);
    else shine(spotOn(rows, token), spotOn(columns, key));
  }

  /**
   * What is lit elsewhere is lit here.
   * @param {import("../shared/hover_link.js").Spot | null} column
   */
  lit(column) {
    const same = column && column.sentence === this.data?.columns.sentence ? column.tokens : [];
    for (const line of elementsIn(this.place, "[data-key]")) {
      line.classList.toggle("tv-in-lit-key", same.includes(Number(line.dataset.key)));
    }
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const [target] = event.composedPath();
    if (event.defaultPrevented || modified(event) || !this.data) return;
    const ours = event.composedPath().includes(this.place);
    if (!ours && target !== document.body && target !== document.documentElement) return;
    if (target instanceof Element && target.closest(FIELDS)) return;
    /** @type {Record<string, number>} */
    const ways = { ArrowLeft: -1, ArrowRight: 1 };
    if (!(event.key in ways)) return;
    event.preventDefault();
    this.go(this.step + ways[event.key]);
  }
}
