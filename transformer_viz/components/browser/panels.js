// What Streamlit loads for ready HTML, which needs the page's own style.

import { showIn } from "./mount.js";
import { Panel } from "./panel.js";
import { hideTipsOnEscape } from "./tips.js";

hideTipsOnEscape();

/** @param {any} component  what Streamlit hands over */
const showPanel = (component) => showIn(component, () => Panel);
export default showPanel;
