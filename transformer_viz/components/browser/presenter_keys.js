// Presenter mode: keys that press the page's own buttons to step, unfold the controls, and leave.
// A quiet line at the bottom names them; what has no button of its own on the page has one there.

import { element, elementsIn, listener, modified, rested, set } from "./shared/dom.js";
import { tell } from "./shared/i18n.js";

/** @typedef {"back" | "on"} Way */

/** Fields in which every key is text, or chooses. */
const TYPING = "textarea, select, [contenteditable='true'], [role='textbox'], [role='combobox'], "
  + "[role='listbox'], input:not([type='radio'], [type='checkbox'], [type='range'])";
/** Controls in which the arrows have a meaning of their own. */
const ARROWED = "input, [role='radio'], [role='slider'], [role='tab'], [role='menuitem']";
/** What is open and closed by Esc itself. */
const OPENED = "[data-testid='stPopoverBody'], [role='dialog'], [role='listbox'], [role='menu'], "
  + "[role='tooltip'], [data-testid='stTooltipContent']";
/** Keys to the way they lead; a clicker sends the two last ones. @type {Record<string, Way>} */
const WAYS = { ArrowLeft: "back", ArrowRight: "on", PageUp: "back", PageDown: "on" };
const BELOW = 16; // pixels of a card below its picture
const LOOK_AGAIN = 150; // milliseconds after which a page that changes is looked at for its buttons

export class Presenter {
  /**
   * @param {HTMLElement} place
   * @param {import("./shared/streamlit_view.js").Say} say  "left" true: the teacher leaves
   */
  constructor(place, say) {
    this.place = place;
    this.leave = () => say("left", true);
    this.page = document.documentElement;
    this.ending = new AbortController();
    const { signal } = this.ending, on = listener(signal);
    this.steps = element("span");
    this.stations = element("span");
    this.fold = presentButton("", () => this.unfold());
    this.exit = presentButton("", this.leave);
    place.classList.add("tv-present");
    place.append(this.steps, this.stations, this.fold, this.exit);
    set(this.page, "data-present", "");
    on(window, "keydown", (event) => this.heard(event), { capture: true });
    const look = rested(LOOK_AGAIN, () => this.look());
    this.watch = new MutationObserver(() => look.ask());
    this.watch.observe(document.body, { childList: true, subtree: true });
    on(window, "tv-painted", () => this.look());
    on(window, "resize", () => look.ask());
    signal.addEventListener("abort", () => look.end());
    dressedAnew();
  }

  end() {
    this.ending.abort();
    this.watch.disconnect();
    this.page.removeAttribute("data-present");
    this.page.removeAttribute("data-unfold");
    ["--tv-room", "--tv-note"].forEach((name) => this.tellStyles(name, null));
    dressedAnew();
  }

  /** @param {unknown} _data  nothing but the language's texts, which are known by now */
  show(_data) {
    this.steps.textContent = tell("← → step");
    this.stations.textContent = tell("PgUp PgDn station");
    this.fold.textContent = tell("C controls");
    this.exit.textContent = tell("Esc leave");
    this.look();
  }

  /** Name only what this page has. */
  look() {
    const steps = stepButtons("step").length > 0, stations = stepButtons("station").length > 0;
    this.steps.hidden = !(steps || stations);
    this.stations.hidden = !(steps && stations);
    set(this.fold, "aria-pressed", String(this.page.hasAttribute("data-unfold")));
    this.measure();
  }

  /** Tell the styles what room there is for the opened head's picture and what is said below it. */
  measure() {
    const view = document.querySelector(".st-key-head-view [data-painted]");
    const picture = view?.shadowRoot?.querySelector(".picture, .box");
    const scrolled = view?.closest("[data-testid='stMain']")?.scrollTop ?? 0;
    const room = view && window.innerHeight - this.foot - BELOW - boxOf(view).top - scrolled;
    this.tellStyles("--tv-room", room && room > 0 ? room : null); // one further down has a screen
    this.tellStyles("--tv-note", view && picture && boxOf(view).height - boxOf(picture).height);
  }

  /**
   * @param {string} name
   * @param {number | null | undefined} pixels  left out: what present.css says
   */
  tellStyles(name, pixels) {
    if (pixels == null) this.page.style.removeProperty(name);
    else this.page.style.setProperty(name, `${Math.floor(pixels)}px`);
  }

  /** How much of the window the dock takes, or the slider that stands for it, or the line of keys. */
  get foot() {
    const dock = document.querySelector(".st-key-dock");
    if (dock && this.page.hasAttribute("data-unfold")) return boxOf(dock).height;
    const slider = document.querySelector(".st-key-temperature");
    return window.innerHeight - boxOf(slider?.checkVisibility() ? slider : this.place).top;
  }

  /**
   * A key on its way down: whoever it is meant for comes first, so it is acted on after all others.
   * @param {KeyboardEvent} event
   */
  heard(event) {
    const at = /** @type {Element | undefined} */ (event.composedPath()[0]);
    const field = at instanceof Element && at.closest(TYPING);
    if (field || modified(event) || event.isComposing) return;
    const opened = [...document.querySelectorAll(OPENED)].some((one) => one.checkVisibility({ visibilityProperty: true })); // tips are always there
    const arrowed = at instanceof Element && !!at.closest(ARROWED);
    window.addEventListener("keydown", (later) => {
      const same = later === event; // another one, if somebody kept this one to himself
      if (same && !event.defaultPrevented && !opened) this.act(event, arrowed);
    }, { once: true, signal: this.ending.signal });
  }

  /**
   * @param {KeyboardEvent} event
   * @param {boolean} arrowed  whether the arrows belong to where the focus is
   */
  act(event, arrowed) {
    const way = WAYS[event.key], turned = event.key.startsWith("Page");
    if (event.key === "Escape") this.leave();
    else if (event.key.toLowerCase() === "c") this.unfold();
    else if (!way || (arrowed && !turned) || !pressStep(way, turned)) return;
    event.preventDefault();
  }

  /** Show the controls that are folded away, or fold them again. */
  unfold() {
    this.page.toggleAttribute("data-unfold");
    dressedAnew();
    this.look();
  }
}

/**
 * @param {Element} place
 */
function boxOf(place) {
  return place.getBoundingClientRect();
}

/**
 * The page's own buttons that step within it, or lead from station to station, and can be seen.
 * @param {"step" | "station"} kind
 * @param {Way} [way]
 * @returns {HTMLElement[]}
 */
function stepButtons(kind, way) {
  const ways = way ? [way] : ["back", "on"];
  const hosts = [...document.querySelectorAll("[data-painted]")];
  const roots = [document, ...hosts.flatMap(({ shadowRoot }) => shadowRoot ?? [])];
  const query = ways.flatMap((one) => [
    `.st-key-${kind}-${one} button`,
    ...(kind === "step" ? [`[data-step="${one}"]`] : []),
  ]).join();
  return roots.flatMap((root) => elementsIn(root, query)).filter((one) => one.checkVisibility());
}

/**
 * Press the button that leads this way; false where the page has none.
 * @param {Way} way
 * @param {boolean} turned  whether a lesson's stations come first
 */
function pressStep(way, turned) {
  const first = turned ? "station" : "step", second = turned ? "step" : "station";
  const kind = stepButtons(first).length ? first : second;
  stepButtons(kind, way).find((one) => !one.matches(":disabled, [aria-disabled='true']"))?.click();
  return stepButtons(kind).length > 0;
}

/**
 * @param {string} text
 * @param {() => void} act
 * @returns {HTMLButtonElement}
 */
function presentButton(text, act) {
  const made = element("button", "", text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** Tell the pictures that letters have another size now: a canvas does not notice by itself. */
function dressedAnew() {
  const tellAll = () => window.dispatchEvent(new Event("tv-dressed"));
  requestAnimationFrame(() => requestAnimationFrame(tellAll));
}
