// What Streamlit loads for ready HTML, which needs the page's own style.

import { showComponent } from "./shared/streamlit_view.js";
import { Page } from "./page/page.js";
import { Panel } from "./shared/html_panel.js";
import { hideTipsOnEscape } from "./page/tips.js";

hideTipsOnEscape();

/** @param {any} component  what Streamlit hands over */
const showPanel = (component) => {
  return showComponent(component, (part) => (part === "language" ? Page : Panel));
};
export default showPanel;
