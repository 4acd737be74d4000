// What a page of the app does once, whatever it shows: its links, its history, its connection.

import { followPaper } from "../shared/colour.js";
import { onReconnect } from "../shared/connection.js";
import { offerCopying } from "./copying.js";
import { mergeBareEntries } from "./history.js";
import { carryChoices } from "./links.js";
import { WordMarks } from "./words.js";

export class Page {
  /**
   * @param {HTMLElement} _place  stays empty
   * @param {import("../shared/streamlit_view.js").Say} say  "back" true: the connection is there again
   */
  constructor(_place, say) {
    this.stop = onReconnect(() => say("back", true)); // with it come the values of all controls
    mergeBareEntries();
    carryChoices();
    offerCopying();
    followPaper();
    this.words = new WordMarks();
  }

  end() {
    this.stop();
    this.words.end();
  }

  /** @param {{words?: string[]}} data  the languages of the model's source and target */
  show({ words = [] }) {
    this.words.show(words);
  }
}
