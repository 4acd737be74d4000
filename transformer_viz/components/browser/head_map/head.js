// The opened head: the one of its views that the data is for.

import { element } from "../shared/dom.js";
import { Lines } from "../lines/lines.js";
import { HeadMap } from "./map.js";
import { QK } from "../qk/qk.js";

const HEAD_VIEWS = { map: HeadMap, lines: Lines, qk: QK };

export class Head {
  /**
   * @param {HTMLElement} place
   * @param {import("../shared/streamlit_view.js").Say} say
   */
  constructor(place, say) {
    this.place = place;
    this.say = say;
    this.kind = "";
    /** @type {import("../shared/streamlit_view.js").View | null} */
    this.view = null;
  }

  end() {
    this.view?.end();
  }

  /** What the view of now shows, if it says so. */
  describe() {
    return this.view?.describe?.() ?? {};
  }

  /** @param {any} data  of a head's view; `view` names it */
  show(data) {
    if (data.view !== this.kind) {
      this.end();
      const place = element("div");
      this.place.replaceChildren(place);
      this.kind = data.view;
      this.view = new HEAD_VIEWS[/** @type {keyof typeof HEAD_VIEWS} */ (data.view)](place, this.say);
    }
    this.view?.show(data);
  }
}
