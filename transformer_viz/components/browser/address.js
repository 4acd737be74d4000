// The address of the page, for what shows it: says when it has become another one. Nothing is drawn.

/** Milliseconds between two looks; no event tells every browser of an address that is exchanged. */
const ADDRESS_LOOK = 250;

export class Address {
  /**
   * @param {HTMLElement} _place
   * @param {import("./mount.js").Say} say  "moved": the words of the address behind its path
   */
  constructor(_place, say) {
    let known = location.search;
    this.watch = setInterval(() => {
      if (location.search === known) return;
      known = location.search;
      say("moved", known);
    }, ADDRESS_LOOK);
  }

  end() {
    clearInterval(this.watch);
  }

  /** @param {unknown} _data  nothing but the language's texts */
  show(_data) {}
}
