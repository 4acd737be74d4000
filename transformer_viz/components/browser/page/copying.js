// Copying where browsers give pages no clipboard: over plain http, from another machine.

import { tell } from "../shared/i18n.js";

const NOTE = "tv-copying", SHOWN = 6000; // milliseconds for which a sentence stands

/** Give a page without a clipboard one that copies the old way, or says that it cannot. */
export function offerCopying() {
  if (navigator.clipboard) return;
  Object.defineProperty(navigator, "clipboard", {
    configurable: true,
    value: { writeText: copy },
  });
}

/**
 * Copy a text by selecting it in a box outside the screen.
 * @param {string} text
 * @returns {Promise<void>}  rejected where the browser refuses; the text is then selected
 */
async function copy(text) {
  const before = document.activeElement;
  const box = document.createElement("textarea");
  box.value = text;
  box.readOnly = true;
  Object.assign(box.style, { position: "fixed", top: "0", left: "-9999px" });
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  if (before instanceof HTMLElement) before.focus();
  if (done) return;
  selectShown(text);
  say(tell("The browser copies nothing on a page without https. Press Ctrl+C or ⌘C to copy the "
    + "selected text."));
  throw new DOMException("copying was refused", "NotAllowedError");
}

/**
 * Select the text where it stands on the page, for a copy by hand.
 * @param {string} text
 */
function selectShown(text) {
  const shown = [...document.querySelectorAll("[data-testid='stCode'] code")]
    .find((code) => code.textContent?.trim() === text.trim());
  if (shown) getSelection()?.selectAllChildren(shown);
}

/** @param {string} sentence */
function say(sentence) {
  document.getElementById(NOTE)?.remove();
  const note = document.createElement("aside");
  note.id = NOTE;
  note.setAttribute("role", "status");
  note.textContent = sentence;
  document.body.append(note);
  setTimeout(() => note.remove(), SHOWN);
}
