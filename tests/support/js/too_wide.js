/**
 * What of the page goes beyond the window: the page, its main part, and elements by their keys.
 * What is swiped sideways within a row of the page does not.
 * Plotly's and the table's own parts are cut off by their frames, and the input within a slider is
 * never seen.
 */
export default () => {
  const main = document.querySelector('[data-testid="stMain"]');
  if (!main) return ["no main part"];
  const out = [...main.querySelectorAll("*")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.left < innerWidth && box.right > innerWidth + 1
      && !isSwiped(element) && !element.closest('.stPlotlyChart, [data-testid="stDataFrame"], svg, [type=range]');
  });
  const wide = document.documentElement.scrollWidth - innerWidth;
  const mainWide = main.scrollWidth - main.clientWidth;
  return [
    ...(wide > 0 ? [`page by ${wide}px`] : []),
    ...(mainWide > 0 ? [`main part by ${mainWide}px`] : []),
    ...out.map((element) => element.closest('[class*="st-key-"]')?.className ?? element.tagName),
  ];
};

/** @param {Element} element */
function isSwiped(element) {
  for (let around = element.parentElement; around; around = around.parentElement) {
    if (around.matches('[data-testid="stMain"]')) return false;
    const { overflowX } = getComputedStyle(around), box = around.getBoundingClientRect();
    if (overflowX === "auto" && box.left >= 0 && box.right <= innerWidth + 1) return true;
  }
  return false;
}
