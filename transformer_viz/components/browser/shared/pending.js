// What the hand chose and Python has not answered yet: while a choice is on its way, an answer to an
// older one must not take the newer one back.

/**
 * Whether two plain values hold the same.
 * @param {unknown} one
 * @param {unknown} other
 */
export function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

export class Pending {
  /**
   * @param {number} [patience]  after so many values in a row that answer nothing, the choices that
   *   wait are forgotten; what comes next may count again
   */
  constructor(patience = Infinity) {
    this.patience = patience;
    this.unsaid = false; // whether Python has still to be told of the newest choice
    /** @type {string[]} */
    this.told = []; // it was told of these, the oldest first, no answer yet
    this.given = ""; // what it said last
    this.unanswered = 0; // values in a row that answered nothing
  }

  /** As if nothing had been chosen or heard: whatever is heard next counts. */
  forget() {
    Object.assign(this, new Pending(this.patience));
  }

  /** Whether a choice is not told yet, or not answered. */
  get waits() {
    return this.unsaid || this.told.length > 0;
  }

  /** The hand has chosen, and Python hears of it when the hand rests. */
  choose() {
    this.unsaid = true;
  }

  /**
   * Python is told of the newest choice.
   * @param {unknown} choice
   */
  tell(choice) {
    this.unsaid = false;
    this.told.push(JSON.stringify(choice ?? null));
  }

  /**
   * Whether Python's value counts: it is another one than before, answers no choice of the hand, and
   * no newer choice is still untold. News ends the wait for answers.
   * @param {unknown} value
   */
  hear(value) {
    const given = JSON.stringify(value ?? null), answered = this.told.indexOf(given);
    const isNews = answered < 0 && !this.unsaid && given !== this.given;
    this.given = given;
    this.told.splice(0, isNews ? this.told.length : answered + 1);
    this.unanswered = answered < 0 && this.told.length ? this.unanswered + 1 : 0;
    if (this.unanswered >= this.patience) this.told = [];
    return isNews;
  }

  /**
   * All choices up to this number are answered; for those that are told as rising numbers.
   * @param {number} number
   */
  reach(number) {
    this.told = this.told.filter((choice) => Number(choice) > number);
  }
}
