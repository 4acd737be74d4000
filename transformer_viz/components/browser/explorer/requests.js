// Wishes on their way to Python: one message at a time. Of what waits meanwhile, the newest of a
// slider's steps is kept; clicks are all kept, in their order.

import { Gate } from "../shared/newest_wins.js";

/** @typedef {[name: string, value: any]} Wish */
/** @typedef {{ask: number, view: string, wishes: Wish[]}} Message */

const STATES = ["temperature", "window", "drawn", "zoomed", "theme", "source"];
const PATIENCE = 2000; // milliseconds after which a reader is told that an answer is awaited

export class Requests {
  /**
   * @param {string} view  a name that no other view of the notebook has
   * @param {(message: Message) => void} send
   * @param {(waits: boolean) => void} waits  hears that an answer takes long, and that it came
   */
  constructor(view, send, waits) {
    this.view = view;
    this.send = send;
    this.waits = waits;
    this.asked = 0;
    /** @type {Wish[]} */
    this.waiting = [];
    this.heard = () => {};
    this.gate = new Gate(() => this.ask());
  }

  /**
   * Ask for something as soon as the present message is answered.
   * @param {string} name
   * @param {any} value
   */
  want(name, value) {
    if (STATES.includes(name)) this.waiting = this.waiting.filter(([other]) => other !== name);
    this.waiting.push([name, value]);
    this.gate.want(null);
  }

  /** Send all that waits as one message, and wait for its answer. */
  async ask() {
    const wishes = this.waiting;
    if (!wishes.length) return;
    this.waiting = [];
    this.asked += 1;
    const answer = new Promise((done) => { this.heard = () => done(null); });
    const timer = setTimeout(() => this.waits(true), PATIENCE);
    this.send({ ask: this.asked, view: this.view, wishes });
    await answer;
    clearTimeout(timer);
    this.waits(false);
  }

  /**
   * An answer came; those to other views, and to older messages, are not ours.
   * @param {{answers?: number | null, view?: string | null}} data
   */
  answered({ answers, view }) {
    if (view === this.view && answers === this.asked) this.heard();
  }

  /** Wait no longer: what is asked from now on is for a new kernel. */
  end() {
    this.waiting = [];
    this.heard();
  }
}
