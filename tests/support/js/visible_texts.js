/**
 * The words of all elements of a view that can be seen.
 * @param {string} query
 */
export default (query) => {
  const root = document.getElementById("host")?.shadowRoot;
  return [...root?.querySelectorAll(query) ?? []]
    .filter((one) => getComputedStyle(one).visibility === "visible")
    .map((one) => one.textContent);
};
