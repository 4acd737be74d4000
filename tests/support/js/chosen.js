/**
 * What stands chosen in a list that opens: its one entry, or all of several.
 * @param {HTMLInputElement} box
 */
export default (box) => {
  const place = box.closest('[data-testid="stElementContainer"]');
  const tags = place?.querySelectorAll('[data-tag], [role="row"], [data-testid*="Tag"]') ?? [];
  const texts = /** @type {HTMLElement[]} */ ([...tags]).map((tag) => tag.innerText.trim());
  return [box.value ?? "", ...texts];
};
