// All that a person sees, each picture as a number: names, words, controls, pixels. What the pointer
// alone brings up (hover labels, the light on words) is left out. A picture of our own counts by the
// pixels of its first canvas and by all that its view was given. page_actions.py calls this.

export default () => {
  const own = (/** @type {string} */ query, /** @type {ParentNode} */ root) =>
    /** @type {any[]} */ ([...root.querySelectorAll(query)]);
  const roots = [document, ...own("*", document).flatMap((one) => one.shadowRoot ?? [])];
  const all = (/** @type {string} */ query, /** @type {ParentNode | undefined} */ root = undefined) =>
    root ? own(query, root) : roots.flatMap((one) => own(query, one));
  const number = (/** @type {Uint8Array | Uint32Array | number[]} */ numbers, found = 2166136261) => {
    for (let one = 0; one < numbers.length; one++) {
      found = Math.imul(found ^ numbers[one], 16777619);
    }
    return found >>> 0;
  };
  const spelled = (/** @type {string} */ text) => number(new TextEncoder().encode(text));
  const key = (/** @type {Element} */ element) =>
    element.closest('[class*="st-key-"]')?.className.match(/st-key-([\w-]+)/)?.[1] ?? "";

  const POINTED = new Set(["hoverlayer", "draglayer"]);
  /** @returns {string} */
  const written = (/** @type {Element} */ element) => {
    if ([...element.classList].some((name) => POINTED.has(name))) return "";
    const words = [...element.attributes].map((one) => `${one.name}=${one.value}`).sort();
    const inner = [...element.childNodes].map((node) =>
      node instanceof Element ? written(node) : node.nodeValue);
    return `<${element.tagName} ${words.join(" ")}>${inner.join("")}`;
  };
  /**
   * The number of a chart, made anew only where its text is another than at the last look.
   * @param {any} place
   */
  const drawn = (place) => {
    const chart = place.querySelector(".js-plotly-plot");
    if (!chart?._fullLayout) return null;
    const names = [chart._fullLayout._uid,
      ...chart._fullData.map((/** @type {any} */ trace) => trace.uid)];
    const pictures = all("svg.main-svg", place);
    const text = names + pictures.map((one) => new XMLSerializer().serializeToString(one)).join("");
    if (chart.looked?.text !== text) {
      const whole = pictures.map(written).join("");
      const unnamed = names.reduce((left, name) => left.replaceAll(name, ""), whole);
      chart.looked = { text, number: spelled(unnamed) };
    }
    return chart.looked.number;
  };

  const views = all("[data-painted]").flatMap((host) => {
    const told = host.describe?.();
    return told?.data ? [{ host, part: told.part, data: told.data }] : [];
  });
  const viewOf = (/** @type {string} */ part) => views.find((view) => view.part === part);
  const numbered = (/** @type {any} */ block) => number(new Uint8Array(block.data.buffer));
  const painted = (/** @type {any} */ { host, data }) => {
    const { seq, line, arrays, ...words } = data;
    const canvas = host.shadowRoot.querySelector("canvas");
    const pixels = canvas?.width && canvas.height
      ? canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer : [];
    const given = Object.values(arrays ?? {}).map(numbered);
    return number([spelled(JSON.stringify(words)), ...given], number(new Uint32Array(pixels)));
  };
  /** @type {Record<string, number>} */
  const tiles = {};
  const atlas = viewOf("atlas")?.data;
  (atlas?.blocks ?? []).forEach((/** @type {any} */ block, /** @type {number} */ n) => {
    const { shape: [layers, heads, ...sides], data } = atlas.arrays["tiles" + n];
    const size = sides[0] * sides[1], before = atlas.blocks.length > 1 ? block.name + " " : "";
    for (let one = 0; one < layers * heads; one++) {
      const name = `${before}L${Math.floor(one / heads)} H${one % heads}`;
      tiles[name] = number(data.subarray(one * size, one * size + size));
    }
  });

  /** @type {Record<string, any[]>} */
  const controls = {};
  for (const place of all('[data-testid="stElementContainer"]')) {
    const inner = [place, ...all("[data-painted]", place).flatMap((one) => one.shadowRoot ?? [])];
    const parts = inner.flatMap((root) =>
      all('[role="radio"], [role="switch"], [role="slider"], input, textarea', root));
    const states = parts.map((part) => [
      part.getAttribute("aria-label") ?? part.innerText, part.disabled ?? null,
      part.getAttribute("aria-checked") ?? part.checked ?? null,
      part.getAttribute("aria-valuetext") ?? part.value ?? null]);
    const tags = all('[data-tag], [role="row"], [data-testid*="Tag"]', place);
    if (states.length) controls[key(place)] = [...states, ...tags.map((tag) => tag.innerText)];
  }

  const head = viewOf("head")?.host.shadowRoot;
  const words = (/** @type {string} */ query) => head?.querySelector(query)?.innerText;
  const below = { row: words(".said, .tv-qk-said"), numbers: words(".numbers") };
  /** @type {Record<string, string>} */
  const said = {};
  for (const one of all("[data-what]")) said[one.dataset.what] = one.innerText;
  for (const [name, text] of Object.entries(below)) if (text !== undefined) said[name] = text;
  const ours = views.filter(({ part }) => ["atlas", "head"].includes(part));
  const charts = all(".stPlotlyChart")
    .filter((place) => place.checkVisibility()); // a former one may stay unseen until the run ends
  return {
    resting: all('[data-testid="stApp"][data-test-script-state="notRunning"]').length === 1
      && all('[data-stale="true"], [data-testid="stSkeleton"], [data-moving]').length === 0
      && all('[data-testid*="Bidi"]').every((one) => one.closest("[data-painted]")
        || all("[data-painted]", one).length > 0),
    page: location.pathname,
    query: Object.fromEntries(new URLSearchParams(location.search)),
    said,
    charts: Object.fromEntries([...charts.map((place) => [key(place), drawn(place)]),
      ...ours.map((view) => [key(view.host), painted(view)])]),
    tiles,
    chips: all(".st-key-tokens [data-painted]").flatMap((host) => all("button", host.shadowRoot))
      .map((chip) => [chip.innerText, chip.getAttribute("aria-pressed"),
        chip.classList.contains("tv-gone")]),
    edits: all(".st-key-chips button").map((button) => button.innerText),
    chances: all('.st-key-card-outcome [role="list"]').map((list) => list.innerText),
    controls,
    alerts: all('[data-testid="stAlert"], [data-testid="stException"]').map((box) => box.innerText),
  };
};
