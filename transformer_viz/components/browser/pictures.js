// What Streamlit loads for all pictures and controls: the part that the data names is shown.

import { Address } from "./address.js";
import { Atlas } from "./atlas.js";
import { Head } from "./head.js";
import { Inside } from "./inside.js";
import { showIn } from "./mount.js";
import { Play } from "./play.js";
import { Presenter } from "./present.js";
import { Slider } from "./slider.js";
import { hideTipsOnEscape } from "./tips.js";
import { Chips } from "./tokens.js";

/** @type {Record<string, new (place: HTMLElement, say: import("./mount.js").Say) => any>} */
const PICTURES = {
  atlas: Atlas, head: Head, play: Play, inside: Inside, slider: Slider, tokens: Chips,
  present: Presenter, address: Address,
};

hideTipsOnEscape();

/** @param {any} component  what Streamlit hands over */
const showPicture = (component) => showIn(component, (part) => PICTURES[part.split("-")[0]]);
export default showPicture;
