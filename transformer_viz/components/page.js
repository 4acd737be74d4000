// What the components share. It stands before each of their scripts, as one module with it.

const views = new WeakMap(); // one view for each place on a page, kept while its data changes

/** Show new data in the view of a place, which is made on the first call; gives the clean-up. */
function showIn(component, View) {
  const { data, parentElement, setTriggerValue } = component;
  if (!views.has(parentElement)) views.set(parentElement, new View(parentElement));
  const view = views.get(parentElement);
  view.say = setTriggerValue;
  view.show(data);
  return () => {
    view.end();
    if (views.get(parentElement) === view) views.delete(parentElement);
  };
}

/** Listen until the signal says that the view has ended. */
function listener(signal) {
  return (where, what, does) => where.addEventListener(what, does, { signal });
}

/** Whether the page behind an element is dark. */
function isDark(element) {
  const pen = document.createElement("canvas").getContext("2d");
  const colour = getComputedStyle(element).getPropertyValue("--st-background-color").trim();
  pen.fillStyle = colour || "#ffffff";
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}

/** As many buttons in a place as wanted; those that stay keep the keyboard's focus. */
function fit(buttons, count, place) {
  while (buttons.length > count) buttons.pop().remove();
  while (buttons.length < count) {
    const button = document.createElement("button");
    button.type = "button";
    buttons.push(place.appendChild(button));
  }
}

/** Set an attribute only where it changes: there may be thousands, and screen readers listen. */
function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Whether a key is pressed together with one that gives it another meaning. */
function modified(event) {
  return event.ctrlKey || event.metaKey || event.altKey;
}
