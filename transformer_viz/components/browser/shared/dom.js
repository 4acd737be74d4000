// Small helpers for elements, buttons and listeners.

/**
 * A new element with a class, and what stands in it.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} [className]
 * @param {...(Node | string)} content
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, className = "", ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

/**
 * A data attribute of the element around an event's target that fits a query, if there is one.
 * @param {Event} event
 * @param {string} query
 * @param {string} name  as `dataset` has it
 */
export function dataNear({ target }, query, name) {
  const found = target instanceof Element ? target.closest(query) : null;
  return found instanceof HTMLElement ? found.dataset[name] : undefined;
}

/**
 * The HTML elements within another one that fit a query.
 * @param {ParentNode} place
 * @param {string} query
 */
export function elementsIn(place, query) {
  return /** @type {HTMLElement[]} */ ([...place.querySelectorAll(query)]);
}

/**
 * The HTML element that has the keyboard within the same document or shadow root, if there is one.
 * @param {Node} place
 */
export function activeAround(place) {
  const root = /** @type {ShadowRoot | Document} */ (place.getRootNode());
  return /** @type {HTMLElement | null} */ (root.activeElement);
}

/**
 * Listen until the signal says that the view has ended.
 * @param {AbortSignal} signal
 * @returns {(where: EventTarget, what: string, does: (event: any) => void, more?: object) => void}
 */
export function listener(signal) {
  return (where, what, does, more = {}) =>
    where.addEventListener(what, does, { signal, ...more });
}

/**
 * As many buttons in a place as wanted; those that stay keep the keyboard's focus.
 * @param {HTMLButtonElement[]} buttons
 * @param {number} count
 * @param {Element} place
 */
export function fit(buttons, count, place) {
  while (buttons.length > count) buttons.pop()?.remove();
  while (buttons.length < count) {
    const button = document.createElement("button");
    button.type = "button";
    buttons.push(place.appendChild(button));
  }
}

/**
 * Set an attribute only where it changes: there may be thousands, and screen readers listen.
 * @param {Element} target
 * @param {string} name
 * @param {string} value
 */
export function set(target, name, value) {
  if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

/**
 * The options of a menu, made anew only where they are others: an open menu stays open, and what
 * stands chosen in it is left alone where it is the same.
 * @param {HTMLSelectElement} select
 * @param {string[][]} options  value and words of each
 * @param {string} chosen
 */
export function offer(select, options, chosen) {
  const names = options.map(([value]) => value);
  if (names.join() !== [...select.options].map((option) => option.value).join()) {
    select.replaceChildren(...options.map(([value, words]) => new Option(words, value)));
  }
  const wanted = names.includes(chosen) ? chosen : names[0];
  if (select.value !== wanted) select.value = wanted;
}

/**
 * Whether a key is pressed together with one that gives it another meaning.
 * @param {KeyboardEvent} event
 */
export function modified(event) {
  return event.ctrlKey || event.metaKey || event.altKey;
}

/**
 * Escape puts away what pointing brought up, wherever the keyboard is and without the pointer
 * having to move (WCAG 1.4.13); presenter mode is not left by the same press.
 * @param {AbortSignal} signal
 * @param {() => boolean} putAway  gives whether there was anything
 */
export function onEscape(signal, putAway) {
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && putAway()) event.preventDefault();
  }, { signal });
}

/**
 * A function that acts once nothing was asked for `wait` milliseconds.
 * @template {any[]} T
 * @param {number} wait
 * @param {(...words: T) => void} act
 * @returns {{ask: (...words: T) => void, end: () => void}}
 */
export function rested(wait, act) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return {
    ask: (...words) => {
      clearTimeout(timer);
      timer = setTimeout(() => act(...words), wait);
    },
    end: () => clearTimeout(timer),
  };
}

/**
 * The pen of a canvas.
 * @param {HTMLCanvasElement} canvas
 */
export function brushOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}

/**
 * A cleared canvas of so many CSS pixels, in the screen's own pixels, and its pen.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D}
 */
export function pen(canvas, width, height) {
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const made = brushOf(canvas);
  made.scale(devicePixelRatio, devicePixelRatio);
  return made;
}
