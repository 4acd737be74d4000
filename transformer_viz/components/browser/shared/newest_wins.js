// A gate for work that is asked for faster than it is done: one piece at a time, the newest next.

/** @template T */
export class Gate {
  /** @param {(wish: T) => Promise<unknown>} work  one piece; a failure counts as done */
  constructor(work) {
    this.work = work;
    this.open = true;
    /** @type {{wish: T} | null} */
    this.waiting = null;
  }

  /**
   * Do this as soon as the present piece is done, unless something newer is wanted by then.
   * @param {T} wish
   */
  want(wish) {
    this.waiting = { wish };
    if (this.open) this.run();
  }

  /** Forget what waits; the piece that is being done still ends. */
  clear() {
    this.waiting = null;
  }

  async run() {
    this.open = false;
    while (this.waiting) {
      const { wish } = this.waiting;
      this.waiting = null;
      try {
        await this.work(wish);
      } catch (error) {
        console.warn("a step of a slider could not be shown:", error);
      }
    }
    this.open = true;
  }
}
