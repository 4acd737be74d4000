// The address of the page, for what shows it: says when it has become another one. Nothing is drawn.

/** Milliseconds between two looks; no event tells every browser of an address that is exchanged. */
const ADDRESS_LOOK = 250;

export class Address {
  /**
   * @param {HTMLElement} _place
   * @param {import("./streamlit_view.js").Say} say  "moved": the words of the address behind its path
   */
  constructor(_place, say) {
    this.say = say;
    this.shown = ""; // the words that Python has
    this.told = ""; // the address that it heard of last: it is told of each once
    this.watch = setInterval(() => this.look(), ADDRESS_LOOK);
  }

  end() {
    clearInterval(this.watch);
  }

  /** @param {{words: Record<string, string>}} data  the words of the address that is shown */
  show({ words }) {
    this.shown = spelled(Object.entries(words));
    this.look();
  }

  look() {
    const { search } = location;
    if (search === this.told || spelled([...new URLSearchParams(search)]) === this.shown) return;
    this.told = search;
    this.say("moved", search);
  }
}

/**
 * Words of an address in one order.
 * @param {[string, string][]} words
 */
function spelled(words) {
  return JSON.stringify(words.sort());
}
