// Whether a slider was ever moved in this browser: until then the page says what to try.

const TRIED = "tv-tried";
const UNTRIED = "data-untried"; // on the page's root: dock.css shows the hint

/** At the first look at a slider. */
export function offerFirstTry() {
  if (!remembered()) document.documentElement.setAttribute(UNTRIED, "");
}

/** A slider was moved: the hint goes away for good. */
export function tried() {
  if (!document.documentElement.hasAttribute(UNTRIED)) return; // each step of a slider comes here
  document.documentElement.removeAttribute(UNTRIED);
  try {
    localStorage.setItem(TRIED, "yes");
  } catch {
    // a browser that keeps nothing shows the hint again at the next visit
  }
}

function remembered() {
  try {
    return localStorage.getItem(TRIED) !== null;
  } catch {
    return false;
  }
}
