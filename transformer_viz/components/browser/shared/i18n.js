// Texts of the pictures in the visitor's language; the English text is the name of each.

/** @type {Record<string, string>} */
let dictionary = {};
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
// Whose language it is: the whole page, or a part of a page of somebody else.
const SPEAKER = { element: /** @type {HTMLElement | null} */ (null) };

/** Leave the page alone, and speak in this element only. @param {HTMLElement} element */
export function speakIn(element) {
  SPEAKER.element = element;
}

/**
 * Learn the texts that came with new data, none for English, and say whose language it is.
 * @param {{lang?: string, texts?: Record<string, string>}} data
 */
export function learn({ lang, texts }) {
  if (texts || !lang) dictionary = texts ?? {};
  (SPEAKER.element ?? document.documentElement).lang = lang ?? "en";
}

/**
 * A text in the visitor's language, with values in the places of its {names}. The first argument
 * is a literal in double quotes: Python reads it from here to know what to translate.
 * @param {string} text
 * @param {Record<string, any>} [values]
 */
export function tell(text, values = {}) {
  return filled(dictionary[text] ?? text, values);
}

/**
 * What is made while texts are told in English: for a reader without the letters of the language.
 * @template Made
 * @param {() => Made} make
 */
export function inEnglish(make) {
  const ours = dictionary;
  dictionary = {};
  try {
    return make();
  } finally {
    dictionary = ours;
  }
}

/**
 * A text that came with the data, already in the visitor's language, with values in its {names}.
 * @param {string} text
 * @param {Record<string, any>} values
 */
export function filled(text, values) {
  return text.replace(/\{(\w+)\}/g,
    (whole, name) => (name in values ? apart(values[name]) : whole));
}

/**
 * A word that is written from right to left, set apart: else a number behind it is drawn at another
 * word.
 * @param {any} value
 */
function apart(value) {
  const text = String(value), turned = typeof value === "string" && RIGHT_TO_LEFT.test(text);
  return turned ? `\u2068${text}\u2069` : text;
}
