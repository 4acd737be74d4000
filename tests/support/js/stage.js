// One of our views alone on an empty page; component_stage.py calls this.

/**
 * Make a view in an empty page. Its data are given by `window.give`, its words stand in `window.said`.
 * @param {[module: string, name: string, style: string, background: string, width: string,
 *   ink: string]} wanted
 */
export default async ([module, name, style, background, width, ink]) => {
  const stage = /** @type {any} */ (window), words = document.documentElement.style;
  words.setProperty("--st-background-color", background);
  words.setProperty("--st-text-color", ink);
  document.body.style.cssText = `margin:24px;background:${background};color:${ink}`;
  const host = document.createElement("div");
  host.id = "host";
  host.style.width = width;
  document.body.replaceChildren(host);
  const root = host.attachShadow({ mode: "open" });
  const sheet = document.createElement("style"), place = document.createElement("div");
  sheet.textContent = style;
  place.className = "tv";
  root.append(sheet, place);
  const [{ [name]: Kind }, blob] =
    await Promise.all(["/" + module, "/shared/blob.js"].map((path) => import(path)));
  if (!stage.lights) {
    window.addEventListener("tv-light", (event) =>
      stage.lights.push(/** @type {CustomEvent} */ (event).detail));
  }
  stage.view?.end(); // of an earlier view in this page
  stage.said = [];
  stage.lights = [];
  stage.view = new Kind(place, (/** @type {string} */ name, /** @type {unknown} */ value) =>
    stage.said.push([name, value]));
  stage.give = async (/** @type {string} */ text) => {
    const data = text.startsWith("{") ? JSON.parse(text)
      : blob.read(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
    const begun = performance.now();
    stage.view.show(data);
    const shown = performance.now() - begun;
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return { shown, painted: performance.now() - begun };
  };
};
