// Tips of glossary terms: the style sheet shows them, Escape puts them away (WCAG 2.2, 1.4.13).

import { onEscape } from "../shared/dom.js";

const SHOWN = ".tv-term:is(:hover, :focus):not([data-away])";

/**
 * Hear Escape as long as the page lives. A press that hid a tip is marked as handled, so that it does
 * not leave presenter mode too.
 */
export function hideTipsOnEscape() {
  onEscape(new AbortController().signal, () => {
    const terms = document.querySelectorAll(SHOWN);
    terms.forEach(putAway);
    return terms.length > 0;
  });
}

/**
 * Hide a term's tip until somebody comes to the term anew.
 * @param {Element} term
 */
function putAway(term) {
  term.toggleAttribute("data-away", true);
  for (const comes of ["pointerenter", "focus"]) {
    term.addEventListener(comes, () => term.removeAttribute("data-away"), { once: true });
  }
}
