// A widget of a notebook: the app's pictures and sliders around a model that runs in its kernel.
// Python's half is transformer_viz/notebook; `bundle.module` makes one script of this.

import { Atlas } from "../atlas/atlas.js";
import { Head } from "../head_map/head.js";
import { read } from "../shared/blob.js";
import { element, listener, set } from "../shared/dom.js";
import { keepLight } from "../shared/hover_link.js";
import { Panel } from "../shared/html_panel.js";
import { speakIn, tell } from "../shared/i18n.js";
import { showIn } from "../shared/streamlit_view.js";
import { Slider } from "../slider/slider.js";
import { Chips } from "../tokens/tokens.js";
import { Dock } from "./dock.js";
import { Requests } from "./requests.js";
import { isNotebookDark, onNotebookTheme } from "./theme.js";

/** @typedef {{get: (name: string) => any, send: (content: any) => void,
 *   on: (name: string, hear: () => void) => void,
 *   off: (name: string, hear: () => void) => void}} Model  what a notebook hands over */

const KINDS = {
  tokens: Chips, atlas: Atlas, head: Head, outcome: Panel,
  "slider-temperature": Slider, "slider-window": Slider,
};
/** @typedef {keyof typeof KINDS} Part */
const WIDE = 720; // pixels from which on the pictures stand side by side

/**
 * Show a widget in an element; gives the clean-up.
 * @param {{model: Model, el: HTMLElement}} notebook
 */
export function render({ model, el }) {
  const shown = new Explorer(model, el);
  return () => shown.end();
}

class Explorer {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.ending = new AbortController();
    const { signal } = this.ending, on = listener(signal);
    this.host = element("div", "transformer-viz");
    el.append(this.host);
    // Keys are no commands of Jupyter. It looks from the focused element upwards, and that is the
    // host: what stands in a shadow root is not seen from outside.
    this.host.setAttribute("data-lm-suppress-shortcuts", "true");
    keepLight();
    speakIn(this.host);
    this.sheet = new CSSStyleSheet();
    this.sheet.replaceSync(model.get("_sheet"));
    const root = this.host.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [this.sheet];
    /** @type {Map<Part, ShadowRoot>} */
    this.places = new Map();
    this.page = element("div", "tv-explorer");
    this.problem = element("p", "tv-problem");
    set(this.problem, "role", "status");
    this.guessed = element("p", "tv-guessed");
    this.guessed.dataset.role = "guess";
    this.title = element("h3");
    this.above = element("div", "tv-above");
    this.below = element("div", "tv-below");
    const cards = element("div", "tv-cards", this.card("atlas"),
      element("section", "", this.title, this.place("head")));
    const sliders = element("div", "tv-sliders", this.place("slider-temperature"),
      this.place("slider-window"));
    this.page.append(this.above, this.guessed, this.place("tokens"), cards, sliders, this.below, this.problem,
      this.place("outcome"));
    root.append(this.page);
    this.requests = new Requests(crypto.randomUUID?.() ?? String(Math.random()),
      (message) => model.send(message), (waits) => this.wait(waits));
    this.dock = new Dock(this.above, this.below, signal, (name, value) => this.want(name, value));
    this.data = /** @type {any} */ (null);
    this.dark = false;
    this.told = /** @type {boolean | null} */ (null); // the theme that Python heard of last
    this.waiting = false;
    /** @type {Map<Part, () => void>} */
    this.cleaning = new Map();
    const take = () => this.take(), gone = () => this.gone();
    model.on("change:_frame", take);
    model.on("comm_live_update", gone);
    signal.addEventListener("abort", () => {
      model.off("change:_frame", take);
      model.off("comm_live_update", gone);
    });
    // What is typed here is no command of the notebook; Escape may still leave it.
    on(this.host, "keydown", (event) => {
      if (event.key !== "Escape") event.stopPropagation();
    });
    onNotebookTheme(signal, () => this.dress());
    const sizes = new ResizeObserver(() => {
      this.page.classList.toggle("tv-wide", this.host.clientWidth >= WIDE);
    });
    sizes.observe(this.host);
    signal.addEventListener("abort", () => sizes.disconnect());
    this.dark = isNotebookDark(this.host);
    this.page.dataset.theme = this.dark ? "dark" : "light";
    this.take();
    requestAnimationFrame(() => this.dress()); // only now does the notebook have it on its page
  }

  end() {
    for (const clean of this.cleaning.values()) clean();
    this.requests.end();
    this.ending.abort();
    this.host.remove();
  }

  /** @param {Part} part */
  card(part) {
    return element("section", "", this.place(part));
  }

  /**
   * A place of its own for a part: names in one slider must not meet those of the other.
   * @param {Part} part
   */
  place(part) {
    const host = element("div", "tv-part"), root = host.attachShadow({ mode: "open" });
    host.dataset.part = part;
    root.adoptedStyleSheets = [this.sheet];
    root.append(element("div", "tv"));
    this.places.set(part, root);
    return host;
  }

  /**
   * A part says something: a slider that it moved, all others by a name of their own.
   * @param {Part} part
   * @param {string} name
   * @param {any} value
   */
  hear(part, name, value) {
    if (name === "moved") this.want(part.replace("slider-", ""), value);
    else if (name === "theme") this.dress();
    else if (part === "outcome") this.pickWord(value);
    else this.want(name, value);
  }

  /** A word of the outcome says where it stands, "produced:4". @param {any} value */
  pickWord(value) {
    const row = /^(?:produced|source|target):(\d+)$/.exec(value.row ?? "");
    if (row) this.want("picked", { row: Number(row[1]), column: null });
  }

  /**
   * @param {string} name
   * @param {any} value
   */
  want(name, value) {
    this.requests.want(name, value);
    this.mark();
  }

  /** The newest pictures from Python. */
  take() {
    const bytes = this.model.get("_frame");
    if (!bytes?.byteLength) return;
    const raw = bytes.buffer ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      : new Uint8Array(bytes);
    const data = read(raw);
    if (this.data && data.seq < this.data.seq) return;
    this.data = data;
    this.requests.answered(data);
    this.show();
    if (data.problem && data.view === this.requests.view) this.dock.forgetText();
  }

  /** Draw what stands in the newest data. */
  show() {
    const { data } = this;
    for (const [part, root] of this.places) {
      const blob = data.arrays[part]?.data;
      const host = /** @type {HTMLElement} */ (root.host);
      if (blob) {
        host.hidden = false;
        const setTriggerValue = (/** @type {string} */ name, /** @type {any} */ value) =>
          this.hear(part, name, value);
        const clean = showIn({ parentElement: root, data: blob, setTriggerValue },
          () => KINDS[part]);
        this.cleaning.set(part, clean);
      } else if (!data.problem) host.hidden = true; // else the last picture stays
    }
    this.title.textContent = data.title;
    this.guessed.textContent = data.guessed;
    this.guessed.hidden = !data.guessed;
    this.dock.show(data);
    this.mark();
  }

  /** What must be said below the controls, and whether something is on its way. */
  mark() {
    const late = tell("No answer from the kernel yet: it is busy, or was restarted. In that case "
      + "run the cell again.");
    this.problem.textContent = this.waiting ? late : this.data?.problem ?? "";
    this.host.dataset.seq = String(this.data?.seq ?? 0);
  }

  /** @param {boolean} waits */
  wait(waits) {
    this.waiting = waits;
    this.mark();
  }

  /** The kernel of this picture is gone. */
  gone() {
    this.requests.end();
    this.wait(true);
  }

  /** As the notebook is dressed, light or dark. */
  dress() {
    const dark = isNotebookDark(this.host);
    if (dark !== this.dark) {
      this.dark = dark;
      this.page.dataset.theme = dark ? "dark" : "light";
      if (this.data) this.show();
    }
    if (this.data && this.data.dark !== dark && this.told !== dark) {
      this.told = dark;
      this.want("theme", dark ? "dark" : "light");
    }
  }
}
