// What the colours of the strips mean, and which strips can be compared by them.

import { element } from "../shared/dom.js";
import { cellColour } from "./cells.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./station.js").StationData["panels"]} Panels */

export class Legend {
  constructor() {
    this.place = element("p", "tv-in-legend");
    this.scale = element("span", "tv-in-scale");
    this.signs = [-1, 0, 1].map((sign) => ({ sign, square: element("i"), word: element("span") }));
    this.place.append(
      ...this.signs.map(({ square, word }) => element("span", "", square, word)), this.scale);
  }

  /**
   * @param {Panels} panels  of the open stage; where none has strips, nothing is said
   * @param {import("./cells.js").CellColours} colours
   */
  show(panels, colours) {
    const scale = scaleOf(panels);
    this.place.hidden = !scale;
    if (!scale) return;
    const words = [tell("below zero"), tell("zero"), tell("above zero")];
    this.signs.forEach(({ sign, square, word }, n) => {
      square.style.background = cellColour(colours, sign, 1);
      word.textContent = words[n];
    });
    this.scale.textContent = scale;
  }
}

/**
 * Which strips have one scale for their colours, in words; nothing where there are no strips.
 * @param {Panels} panels
 */
function scaleOf(panels) {
  const rows = panels.flatMap((panel) => panel.form === "vectors" ? panel.rows : []);
  const columns = panels.flatMap((panel) => panel.form === "keys" ? panel.columns : []);
  if (columns.some(({ how }) => how === "strip")) {
    return tell("each strip has its own scale, a column of strips one together");
  }
  if (rows.some(({ scale }) => scale)) return tell("strips that are added up share one scale");
  return rows.length ? tell("each strip has its own scale") : "";
}
