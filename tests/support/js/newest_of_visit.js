/** Which of several data a view shows, by their numbers, in the order in which they came. */
export default async (/** @type {number[]} */ numbers) => {
  const { showIn } = await import(`${location.origin}/shared/streamlit_view.js`);
  const root = document.body.appendChild(document.createElement("div"));
  root.innerHTML = '<div class="tv"></div>';
  /** @type {number[]} */
  const shown = [];
  class View {
    show(/** @type {{seq: number}} */ data) {
      shown.push(data.seq);
    }

    end() {}
  }
  const words = { parentElement: root, setTriggerValue: () => {} };
  let end = () => {};
  for (const seq of numbers) end = showIn({ ...words, data: { part: "any", seq } }, () => View);
  end();
  return shown;
};
