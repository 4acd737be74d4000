// The heads of an atlas as a table: the same numbers for those who read instead of look.

import { metricsOf, nameOf, placesIn, ranked, strongestLink, written } from "./heads.js";
import { activeAround, element, set } from "../shared/dom.js";
import { tell } from "../shared/i18n.js";

/** @typedef {import("./heads.js").AtlasData} AtlasData */
/** @typedef {import("./heads.js").Place} Place */

/**
 * Fill a place with the table; the keyboard stays where it was.
 * @param {HTMLElement} place
 * @param {AtlasData} data
 * @param {string} sort
 * @param {{sorted: (sort: string) => void, open: (place: Place) => void}} does
 */
export function fillTable(place, data, sort, does) {
  const metrics = metricsOf(data);
  const shown = [["layer", tell("head")], ...metrics.map(({ name, heading }) => [name, heading])];
  const top = element("tr", "", ...shown.map(([name, words]) => {
    const button = pressed(words, () => does.sorted(name));
    const cell = element("th", "", button);
    cell.scope = "col";
    set(cell, "aria-sort", name !== sort ? "none" : name === "layer" ? "ascending" : "descending");
    return cell;
  }), element("th", "", data.limit ? tell("where it changed most") : tell("strongest link")));
  const places = ranked(data, placesIn(data), sort);
  const lines = places.map((place) => headLine(data, place, metrics, does.open));
  const heading = element("caption", "", tell("Every head and its numbers"));
  const active = activeAround(place);
  const focused = place.contains(active) ? active?.textContent : null;
  place.replaceChildren(element("table", "", heading, element("thead", "", top),
    element("tbody", "", ...lines)));
  const again = [...place.querySelectorAll("button")].find((b) => b.textContent === focused);
  again?.focus({ preventScroll: true });
}

/**
 * @param {AtlasData} data
 * @param {Place} place
 * @param {import("./heads.js").Metric[]} metrics
 * @param {(place: Place) => void} open
 */
function headLine(data, place, metrics, open) {
  const name = (data.blocks.length > 1 ? data.blocks[place.block].title + " " : "") + nameOf(place);
  const first = element("th", "", pressed(name, () => open(place)));
  first.scope = "row";
  const numbers = metrics.map((metric) =>
    element("td", "tv-number", written(data, place, metric)));
  return element("tr", "", first, ...numbers, element("td", "", strongestLink(data, place)));
}

/**
 * @param {string} words
 * @param {() => void} does
 */
function pressed(words, does) {
  const button = element("button", "", words);
  button.type = "button";
  button.addEventListener("click", does);
  return button;
}
