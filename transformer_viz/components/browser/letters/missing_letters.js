// Letters that no font of this computer has are drawn as their code points, never as empty boxes.
//
// One place for all of them: a font that is made here joins the page's own font family, for those
// letters alone. So chips, canvases, charts, tables and text boxes draw them without knowing of it,
// and what is copied, searched or read aloud stays the text itself.

import { codePointFont } from "./code_point_font.js";
import { inEnglish, tell } from "../shared/i18n.js";

/** Code points that no font may have: what is drawn of them is what an unknown one looks like. */
const UNKNOWN = ["\u0378", "\u{10fffe}"];
/** What is asked about: letters, digits and signs beyond those that every font has. */
const ASKED = /[\p{L}\p{N}\p{S}\p{P}]/u, PLAIN = 0x250;
const SIDE = 28; // pixels of the square in which a letter is tried
const NAMED = 6; // letters that the note names
/** Of which letters, and what draws them: a package of Debian and Ubuntu. */
const PACKAGES = /** @type {[RegExp, string][]} */ ([
  [/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u, "fonts-noto-cjk"],
  [/[\p{Script=Bopomofo}\u3000-\u303f\uff00-\uffef]/u, "fonts-noto-cjk"],
  [/\p{Extended_Pictographic}|\p{Regional_Indicator}/u, "fonts-noto-color-emoji"],
  [/./u, "fonts-noto-core"],
]);
/** Languages whose own names the choice of languages may show. */
const NAMES = ["zh", "ja", "ko", "th", "hi", "ar", "he", "el", "ru"];

/** @type {Map<number, boolean>} */
const tried = new Map(); // code points, and whether they are missing
let watching = false, waiting = 0;
const CLOSED = "tv-letters-closed"; // letters whose note was closed, for all scripts of this tab

/** Look after the letters of this page from now on: those in its elements and boxes. */
export function watchLetters() {
  if (watching) return;
  watching = true;
  const later = () => {
    waiting ||= setTimeout(() => { // not put off again by a page that never rests
      waiting = 0;
      needLetters(textOf(document.body));
      note();
    }, 150);
  };
  new MutationObserver(later).observe(document.body,
    { subtree: true, childList: true, characterData: true });
  document.body.addEventListener("input", later);
  later();
}

const UNREAD = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE"]); // text that nobody is shown

/** @param {HTMLElement} place */
function textOf(place) {
  const walk = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  const read = [];
  while (walk.nextNode()) {
    const inside = walk.currentNode.parentElement?.tagName.toUpperCase() ?? "";
    if (!UNREAD.has(inside)) read.push(walk.currentNode.nodeValue);
  }
  const boxes = [...place.querySelectorAll("input, textarea")];
  const typed = boxes.map((box) => /** @type {HTMLInputElement} */ (box).value);
  return read.join("") + typed.join("");
}

/**
 * Have what a text is made of drawn, whatever fonts there are.
 * @param {string} text
 */
export function needLetters(text) {
  const fresh = [...new Set(text)].filter((letter) => {
    const code = codeOf(letter);
    return code >= PLAIN && !tried.has(code) && ASKED.test(letter);
  });
  if (!fresh.length) return plainNames();
  const missing = missingOf(fresh).map(codeOf).sort((a, b) => a - b);
  for (const letter of fresh) tried.set(codeOf(letter), false);
  for (const code of missing) tried.set(code, true);
  if (missing.length) {
    addFont(missing);
  }
  plainNames();
}

/** @param {string} letter */
function codeOf(letter) {
  return /** @type {number} */ (letter.codePointAt(0));
}

/** The families that texts of this page are set in, the first of each. */
function families() {
  const code = document.querySelector("code, pre");
  const styles = [document.body, ...(code ? [code] : [])].map((one) => getComputedStyle(one));
  return [...new Set(styles.map(({ fontFamily }) =>
    fontFamily.split(",")[0].trim().replaceAll(/^["']|["']$/g, "")))];
}

/**
 * Those of some letters that look like unknown ones.
 * @param {string[]} letters
 */
function missingOf(letters) {
  const brush = Object.assign(document.createElement("canvas"), { width: SIDE, height: SIDE })
    .getContext("2d", { willReadFrequently: true });
  if (!brush) return [];
  brush.font = `20px ${getComputedStyle(document.body).fontFamily}`;
  brush.textBaseline = "middle";
  const drawn = (/** @type {string} */ letter) => {
    brush.clearRect(0, 0, SIDE, SIDE);
    brush.fillText(letter, 2, SIDE / 2);
    return String(new Uint32Array(brush.getImageData(0, 0, SIDE, SIDE).data.buffer));
  };
  const unknown = new Set(UNKNOWN.map(drawn));
  return letters.filter((letter) => unknown.has(drawn(letter)));
}

/**
 * A font with code points joins each family, in all the weights that the family has.
 * @param {number[]} codes
 */
function addFont(codes) {
  const bytes = codePointFont(codes);
  const unicodeRange = codes.map((code) => "U+" + code.toString(16)).join(",");
  for (const family of families()) {
    const kin = [...document.fonts]
      .filter((face) => face.family.replaceAll(/["']/g, "") === family);
    /** @type {Map<string, FontFaceDescriptors>} */
    const kinds = new Map(kin.map(({ weight, style, stretch }) =>
      [[weight, style, stretch].join(), { weight, style, stretch }]));
    for (const kind of kinds.size ? kinds.values() : [{}]) {
      document.fonts.add(new FontFace(family, bytes, { ...kind, unicodeRange }));
    }
  }
  window.dispatchEvent(new Event("tv-dressed")); // what is drawn on canvases is drawn again
}

/** The texts of a page: in its elements, and on its canvases. */
function allText() {
  const hosts = /** @type {any[]} */ ([...document.querySelectorAll("[data-painted]")]);
  const drawn = hosts.map((host) => {
    const { data } = host.describe?.() ?? {};
    return JSON.stringify({ ...data, arrays: null, texts: null, colours: null });
  });
  return textOf(document.body) + drawn.join("");
}

/** Letters whose note was closed. */
function closedLetters() {
  try {
    return sessionStorage.getItem(CLOSED) ?? "";
  } catch { // a browser that keeps nothing
    return "";
  }
}

/** @param {string} letters */
function closeLetters(letters) {
  try {
    sessionStorage.setItem(CLOSED, closedLetters() + letters);
  } catch { /* it comes again on the next page */ }
}

/** A note of what is missing on this page and how to get it, as long as it is; not once closed. */
function note() {
  const lacking = [...tried].filter(([, lacks]) => lacks);
  if (!lacking.length) return;
  const text = allText(), closed = closedLetters();
  const names = document.querySelector(".st-key-lang")?.textContent ?? ""; // see plainNames
  const missing = lacking.map(([code]) => String.fromCodePoint(code))
    .filter((letter) => text.includes(letter) && !names.includes(letter));
  if (missing.every((letter) => closed.includes(letter))) {
    document.getElementById("tv-letters")?.remove();
    return;
  }
  const packages = new Set(missing.map((letter) =>
    /** @type {[RegExp, string]} */ (PACKAGES.find(([kind]) => kind.test(letter)))[1]));
  const codes = missing.slice(0, NAMED)
    .map((letter) => "U+" + codeOf(letter).toString(16).toUpperCase());
  const signs = codes.join(", ") + (missing.length > NAMED ? ", …" : "");
  const say = () => tell("No font of this computer has {signs}; such letters are drawn as their " +
    "numbers. Install a font that has them; on Debian or Ubuntu: sudo apt install {packages}. " +
    "Then start the browser again.", { signs, packages: [...packages].join(" ") });
  const said = [...say()].some((letter) => tried.get(codeOf(letter))) ? inEnglish(say) : say();
  let place = document.getElementById("tv-letters");
  if (!place) {
    place = document.createElement("aside");
    place.id = "tv-letters";
    Object.assign(place.style, {
      position: "fixed", right: "12px", top: "64px", maxWidth: "min(400px, calc(100vw - 24px))",
      zIndex: "1000", padding: "8px 12px", borderRadius: "8px", font: "inherit", fontSize: "14px",
      lineHeight: "20px", color: "#1c1c1c", background: "#fff4d6", border: "1px solid #d9b44a",
      pointerEvents: "none",
    });
    place.setAttribute("role", "status");
    const close = document.createElement("button");
    close.textContent = "✕";
    close.setAttribute("aria-label", tell("close"));
    Object.assign(close.style, {
      float: "right", margin: "-4px -6px 0 8px", padding: "4px 8px", border: "0", font: "inherit",
      color: "inherit", background: "none", cursor: "pointer", pointerEvents: "auto",
    });
    close.addEventListener("click", () => {
      closeLetters(place?.dataset.letters ?? "");
      place?.remove();
    });
    place.append(close, document.createElement("span"));
    document.body.append(place);
  }
  place.dataset.letters = missing.join("");
  const shown = /** @type {HTMLElement} */ (place.lastChild);
  if (shown.textContent !== said) shown.textContent = said;
}

/** A language that cannot write its own name here is offered by its English one. */
function plainNames() {
  for (const name of document.querySelectorAll(".st-key-lang button p:not([data-tv-plain])")) {
    const text = name.textContent ?? "";
    if (![...text].some((letter) => tried.get(codeOf(letter)))) continue;
    const code = NAMES.find((one) =>
      new Intl.DisplayNames([one], { type: "language" }).of(one) === text);
    if (code) {
      const english = new Intl.DisplayNames(["en"], { type: "language" }).of(code);
      name.setAttribute("data-tv-plain", english ?? code);
    }
  }
}
