/**
 * The classes of elements that reach further right than they may; what scrolls in itself may.
 * @param {[query: string, limit: number, scrolls: string]} wanted
 */
export default ([query, limit, scrolls]) => {
  const root = document.getElementById("host")?.shadowRoot;
  return [...root?.querySelectorAll(query) ?? []]
    .filter((one) => !(scrolls && one.closest(scrolls)) && one.getBoundingClientRect().right > limit)
    .map((one) => one.className);
};
