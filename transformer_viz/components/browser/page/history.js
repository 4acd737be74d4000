// One entry of the browser's history for a change of page.
//
// Streamlit sometimes pushes the bare address of the new page first and its link then. Back would
// stop at the bare address, which holds none of the visitor's choices.

/** @typedef {typeof history.pushState} Push */

const MERGED = Symbol.for("tv-merged-history"); // several scripts may come to one window

/** Replace an address without words, just arrived at, by the link that follows on the same page. */
export function mergeBareEntries() {
  if (MERGED in window) return;
  Object.defineProperty(window, MERGED, { value: true });
  const push = history.pushState.bind(history), replace = history.replaceState.bind(history);
  let bare = !location.search;
  history.pushState = (state, unused, url) => {
    const next = new URL(String(url ?? location.href), location.href);
    const same = next.pathname === location.pathname;
    if (bare && same && next.search) replace(state, unused, url);
    else push(state, unused, url);
    bare = !location.search && !same;
  };
  history.replaceState = (state, unused, url) => {
    replace(state, unused, url);
    bare = !location.search;
  };
  window.addEventListener("popstate", () => { bare = false; });
}
