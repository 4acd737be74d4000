// Between Streamlit and a view: new data, live frames, and the count of what was painted.

import { read } from "./blob.js";
import { sayHeard } from "./connection.js";
import { learn } from "./i18n.js";
import { needLetters, watchLetters } from "../letters/missing_letters.js";

/** @typedef {(name: string, value: any) => void} Say */
/** @typedef {{show: (data: any) => void, end: () => void, describe?: () => object}} View
 *   describe: what is shown, in plain values, for whoever checks a page; canvases have no elements */
/** @typedef {{view: View, part: string, seq: number, count: number,
 *   say: (name: string, value: any, id: string) => void,
 *   data: any, lang: string | undefined, ending: AbortController}} Mounted */

/** @typedef {{part: string, seq: number, data: any, shown: any}} Described  what a host is asked */

// Numbers of one visit begin with the clock's milliseconds and go on by one a step. Older by more
// than the steps of any stroke is another visit's: its server was restarted with its clock set back.
const STEPS = 5000;

/** @type {WeakMap<object, Mounted>} */
const MOUNTED = new WeakMap(); // one view for each place on a page, kept while its data changes

/**
 * Show what Streamlit hands over; each thing that is said to it carries a number.
 * @param {any} component
 * @param {(part: string) => new (place: HTMLElement, say: Say) => View} kindOf
 */
export function showComponent(component, kindOf) {
  const { setTriggerValue } = component;
  /** @type {(name: string, value: any, id: string) => void} */
  const say = (name, value, id) => setTriggerValue(name, { id, value });
  return showIn({ ...component, setTriggerValue: say }, kindOf);
}

/**
 * Show new data in the view of a place, which is made on the first call; gives the clean-up.
 * @param {any} component  what Streamlit hands over
 * @param {(part: string) => new (place: HTMLElement, say: Say) => View} kindOf
 */
export function showIn(component, kindOf) {
  const { parentElement, setTriggerValue } = component;
  const data = parsed(component.data);
  learn(data);
  leaveLanguage(parentElement, data.lang);
  watchLetters();
  const mounted = MOUNTED.get(parentElement) ?? mount(parentElement, kindOf(data.part));
  mounted.lang = data.lang;
  mounted.say = setTriggerValue;
  take(mounted, parentElement, data);
  return () => {
    if (MOUNTED.get(parentElement) !== mounted) return;
    mounted.ending.abort();
    mounted.view.end();
    MOUNTED.delete(parentElement);
  };
}

/**
 * End a view that speaks another language: some of its words are written once.
 * @param {ShadowRoot | HTMLElement} root
 * @param {string | undefined} lang
 */
function leaveLanguage(root, lang) {
  const mounted = MOUNTED.get(root);
  if (!mounted || mounted.lang === lang) return;
  mounted.ending.abort();
  mounted.view.end();
  MOUNTED.delete(root);
}

/**
 * @param {ShadowRoot | HTMLElement} root
 * @param {new (place: HTMLElement, say: Say) => View} Kind
 */
function mount(root, Kind) {
  const place = /** @type {HTMLElement} */ (root.querySelector(".tv"));
  place.replaceChildren();
  /** @type {Mounted} */
  const mounted = {
    view: new Kind(place, (name, value) => sayHeard(mounted, name, value)),
    part: "", seq: -1, count: 0, say: () => {}, data: null, lang: undefined,
    ending: new AbortController(),
  };
  MOUNTED.set(root, mounted);
  Object.assign(hostOf(root), { describe: () => describe(mounted) });
  window.addEventListener("tv-frame", (event) => {
    const { part, data } = /** @type {CustomEvent} */ (event).detail;
    if (part === mounted.part) take(mounted, root, parsed(data));
  }, { signal: mounted.ending.signal });
  redrawWhenDressed(mounted, root);
  return mounted;
}

/**
 * What a place shows, and which data it was given for it.
 * @param {Mounted} mounted
 * @returns {Described}
 */
function describe({ part, seq, data, view }) {
  return { part, seq, data, shown: view.describe?.() ?? null };
}

/**
 * Words on a canvas keep the letters and the size that they had when they were drawn: draw again
 * when the style sheet or the fonts come later, or a class is shown larger ones.
 * @param {Mounted} mounted
 * @param {ShadowRoot | HTMLElement} root
 */
function redrawWhenDressed(mounted, root) {
  const { signal } = mounted.ending;
  const again = () => {
    if (mounted.data) mounted.view.show(mounted.data);
  };
  document.fonts.addEventListener("loadingdone", again, { signal });
  window.addEventListener("tv-dressed", again, { signal });
  for (const link of root.querySelectorAll("link")) {
    if (!link.sheet) link.addEventListener("load", again, { signal });
  }
}

/**
 * @param {any} data  bytes of blob.py, or plain values
 */
function parsed(data) {
  return data instanceof Uint8Array ? read(data) : data;
}

/**
 * Show data, unless something newer of this visit stands there already: a live frame may have been
 * faster.
 * @param {Mounted} mounted
 * @param {ShadowRoot | HTMLElement} root
 * @param {any} data
 */
function take(mounted, root, data) {
  const seq = data.seq ?? 0;
  if (seq < mounted.seq && mounted.seq - seq < STEPS) {
    if (mounted.data) mounted.view.show(mounted.data); // the theme may be another
    return;
  }
  Object.assign(mounted, { data, seq, part: data.part ?? "" });
  mounted.view.show(data);
  const host = hostOf(root);
  afterPainting(() => {
    needLetters(JSON.stringify({ ...data, arrays: null, texts: null }));
    mounted.count += 1;
    host.setAttribute("data-painted", String(mounted.count));
    window.dispatchEvent(new CustomEvent("tv-painted", { detail: { part: mounted.part, seq } }));
  });
}

/** @param {ShadowRoot | HTMLElement} root */
function hostOf(root) {
  return root instanceof ShadowRoot ? root.host : root;
}

/**
 * Act when what was drawn just now is on the screen: after the second animation frame.
 * @param {() => void} act
 */
export function afterPainting(act) {
  requestAnimationFrame(() => requestAnimationFrame(act));
}
