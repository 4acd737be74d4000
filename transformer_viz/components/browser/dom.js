// Small helpers for elements, buttons and listeners.

/**
 * A new element with a class, and what stands in it.
 * @param {string} tag
 * @param {string} [className]
 * @param {...(Node | string)} content
 * @returns {any}
 */
export function element(tag, className = "", ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...content);
  return made;
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
 * Whether a key is pressed together with one that gives it another meaning.
 * @param {KeyboardEvent} event
 */
export function modified(event) {
  return event.ctrlKey || event.metaKey || event.altKey;
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
  const made = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  made.scale(devicePixelRatio, devicePixelRatio);
  return made;
}
