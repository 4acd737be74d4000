/** How often a view was shown data before its style sheet arrived, and after. */
export default async () => {
  const { showIn } = await import(`${location.origin}/shared/streamlit_view.js`);
  const host = document.body.appendChild(document.createElement("div"));
  const root = host.attachShadow({ mode: "open" });
  root.innerHTML = '<link rel="stylesheet" href="/atlas/atlas.css"><div class="tv"></div>';
  let shown = 0;
  class View {
    show() {
      shown += 1;
    }

    end() {}
  }
  const component = { data: { part: "any" }, parentElement: root, setTriggerValue: () => {} };
  const arrived = new Promise((done) =>
    root.querySelector("link")?.addEventListener("load", done));
  const end = showIn(component, () => View);
  const first = shown;
  await arrived;
  await new Promise((done) => setTimeout(done, 0));
  end();
  return [first, shown];
};
