// A slider whose pictures follow while it is dragged. Each step is shown through a gate; when the
// hand rests or lets go Python hears of it, and the link, the undo list and the rest follow.

import { paletteOf } from "../shared/colour.js";
import { listener, modified, onEscape, rested } from "../shared/dom.js";
import { Gate } from "../shared/newest_wins.js";
import { Pending } from "../shared/pending.js";
import { liveFrame } from "../shared/live_frame.js";
import { afterPainting } from "../shared/streamlit_view.js";
import { SliderFace } from "./face.js";
import { offerFirstTry, tried } from "./first_try.js";

/** @typedef {import("./face.js").SliderData} SliderData */
/** @typedef {{value: string, seq: number, since: number}} Step */

const SLIDER_REST = 300; // milliseconds without a step after which the hand rests
const TWICE = 500; // milliseconds between two presses that belong together
const ANSWER_TIME = 10000; // milliseconds after which an answer of Python is no longer waited for
// Both sliders of a page count together: a picture is of one step or another, whichever moved.
const STEPS = { newest: 0 };

export class Slider {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say  "moved" {value, seq, stroke}: where the slider stands;
   *   steps of one stroke of the hand are one step to undo
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    this.face = new SliderFace(place);
    /** @type {SliderData | null} */
    this.data = null;
    /** @type {SliderData | null} */
    this.later = null; // came while the hand was ahead
    this.value = "";
    this.seq = 0; // of the last step that was made here
    this.stroke = 0;
    this.pressed = -Infinity; // when the hand last came down
    this.held = false;
    this.pending = new Pending(); // the numbers of what Python was told
    this.heard = () => {};
    this.gone = false; // whether nobody answers at the line any more
    this.gate = new Gate((/** @type {Step} */ step) => this.paint(step));
    this.rest = rested(SLIDER_REST, () => this.tell());
    this.ending = new AbortController();
    offerFirstTry();
    const { input } = this.face, on = listener(this.ending.signal);
    on(input, "input", (event) => this.step(input.valueAsNumber, event.timeStamp));
    on(input, "change", (event) => this.step(input.valueAsNumber, event.timeStamp));
    on(input, "pointerdown", (event) => this.press(event.timeStamp));
    for (const what of ["pointerup", "pointercancel"]) on(window, what, () => this.letGo());
    on(input, "blur", () => this.letGo());
    on(input, "dblclick", (event) => this.back(event));
    on(input, "keydown", (event) => {
      if (event.key === "Backspace" && !modified(event)) this.back(event);
    });
    onEscape(this.ending.signal, () => this.face.putTipAway());
  }

  end() {
    this.tell();
    this.gate.clear();
    this.rest.end();
    this.ending.abort();
    this.heard();
  }

  /**
   * The number of the hand's last step, and whether something is still to come.
   * @returns {{seq: number, moving: boolean}}
   */
  describe() {
    return { seq: this.seq, moving: this.pending.waits };
  }

  /** @param {SliderData} data */
  show(data) {
    paletteOf(this.place, data);
    this.gone = false;
    if (this.isUnheard(data)) {
      this.data = data; // its line, while the hand stays where it is
      this.tell();
      this.mark();
      return;
    }
    this.pending.reach(data.seq);
    STEPS.newest = Math.max(STEPS.newest, data.seq);
    // Where the hand is ahead, nothing may pull the slider back.
    if (this.data && (this.held || data.seq < this.seq)) this.later = data;
    else this.take(data);
    if (!this.pending.told.length) this.heard();
    this.mark();
  }

  /**
   * Whether the server was killed, and the one that goes on has not heard where the hand was last:
   * its line is another one. It is told then, by `tell`.
   * @param {SliderData} data
   */
  isUnheard(data) {
    const line = this.data?.line;
    if (!line || !data.line || line === data.line || !this.pending.waits) return false;
    STEPS.newest = Math.max(STEPS.newest, data.seq);
    this.pending.forget();
    this.pending.choose();
    return true;
  }

  /** @param {SliderData} data */
  take(data) {
    this.data = data;
    this.later = null;
    this.value = data.values[data.chosen];
    this.face.dress(data);
    this.face.stand(data, this.value);
  }

  /** @param {number} now */
  press(now) {
    this.tell();
    this.held = true;
    if (!this.pressedLately(now)) this.stroke = 0;
    this.pressed = now;
  }

  /** @param {number} now */
  pressedLately(now) {
    return now - this.pressed < TWICE;
  }

  letGo() {
    this.held = false;
    this.tell();
    if (this.later && this.later.seq >= this.seq) this.take(this.later);
  }

  /**
   * To the model's own value.
   * @param {UIEvent} event
   */
  back(event) {
    event.preventDefault();
    if (this.data && !this.data.disabled) this.step(this.data.own, event.timeStamp);
  }

  /**
   * The hand has moved to a stop.
   * @param {number} index
   * @param {number} since  when, in milliseconds of the page
   */
  step(index, since) {
    const { data } = this, value = data?.values[index];
    if (!data || value === undefined || value === this.value) return;
    if (!this.pending.unsaid && !this.held && !this.pressedLately(since)) this.stroke = 0;
    this.value = value;
    this.seq = STEPS.newest += 1;
    this.stroke ||= this.seq;
    this.pending.choose();
    tried();
    this.mark();
    this.face.stand(data, value);
    this.gate.want({ value, seq: this.seq, since });
    this.rest.ask();
  }

  /** Tell Python where it stands, if it does not know. */
  tell() {
    if (!this.pending.unsaid) return;
    this.seq = STEPS.newest += 1;
    this.pending.tell(this.seq);
    this.say("moved", { value: this.value, seq: this.seq, stroke: this.stroke });
  }

  /** Say on the element whether something is still to come: Python has not heard, or answered. */
  mark() {
    this.place.toggleAttribute("data-moving", this.pending.waits);
  }

  /**
   * One step until its pictures stand: a live frame, or else a run of the page.
   * @param {Step} step
   */
  async paint(step) {
    if (!this.data) return;
    const { line, name } = this.data;
    if (line && !this.gone) {
      const words = { [name]: step.value, seq: String(step.seq) };
      const late = (/** @type {number} */ seconds) => this.face.late(seconds);
      const outcome = await liveFrame(line, words, this.ending.signal, late);
      this.gone = outcome === "gone";
      if (outcome === "painted") this.face.time(step.since);
    } else if (step.value === this.value) {
      this.tell();
      await this.answered();
      this.face.time(step.since);
    }
  }

  /** Until Python's answer to what it was told last is painted. */
  async answered() {
    if (this.pending.told.length) await this.hearing();
    await new Promise((done) => afterPainting(() => done(null)));
  }

  /** Until Python answers, or has had its time. */
  hearing() {
    return new Promise((done) => {
      const timer = setTimeout(done, ANSWER_TIME);
      this.heard = () => {
        clearTimeout(timer);
        this.heard = () => {};
        done(null);
      };
    });
  }
}
