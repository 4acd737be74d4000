// What Streamlit loads for all pictures and controls: the part that the data names is shown.

import { Address } from "./shared/url_listener.js";
import { Atlas } from "./atlas/atlas.js";
import { Head } from "./head_map/head.js";
import { Inside } from "./walkthrough/inside.js";
import { showComponent } from "./shared/streamlit_view.js";
import { Play } from "./play/play.js";
import { Presenter } from "./presenter_keys.js";
import { Slider } from "./slider/slider.js";
import { hideTipsOnEscape } from "./page/tips.js";
import { Chips } from "./tokens/tokens.js";

/** @type {Record<string, new (place: HTMLElement, say: import("./shared/streamlit_view.js").Say) => any>} */
const PICTURES = {
  atlas: Atlas, head: Head, play: Play, inside: Inside, slider: Slider, tokens: Chips,
  present: Presenter, address: Address,
};

hideTipsOnEscape();

/** @param {any} component  what Streamlit hands over */
const showPicture = (component) => {
  return showComponent(component, (part) => PICTURES[part.split("-")[0]]);
};
export default showPicture;
