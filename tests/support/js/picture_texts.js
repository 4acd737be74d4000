/** What is written inside of our own pictures, their names for screen readers too. */
export default () => {
  const found = /** @type {string[]} */ ([]);
  const walk = (/** @type {Document | ShadowRoot} */ root) => {
    for (const one of root.querySelectorAll("*")) {
      if (one.shadowRoot) walk(one.shadowRoot);
      if (root === document || one.matches("style, script")) continue;
      for (const name of ["aria-label", "title", "aria-valuetext", "aria-roledescription"]) {
        found.push(one.getAttribute(name) ?? "");
      }
      for (const node of one.childNodes) if (node.nodeType === 3) found.push(node.nodeValue ?? "");
    }
  };
  walk(document);
  return found.map((text) => text.trim()).filter(Boolean);
};
