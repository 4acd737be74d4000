// Sentences as chips. To point at one, or to reach it with the keyboard, lights its row and column
// in the Plotly chart that the chips belong to, and on the tiles where it is the opened head's map;
// to point into the chart lights the chips.
//
// Data: tokens.py. Says: trigger "picked" {row, column, side, token}, and trigger "theme" when the
// page's background is not the one that the data was made for. Window event "tv-light"
// {chart, row, column} goes both ways between all who take part: the key of the chart whose row and
// column are meant; null is no row, no column.

const NOTHING = { row: null, column: null };
export default (component) => showIn(component, View);

class View {
  constructor(root) {
    this.root = root;
    this.box = root.querySelector(".tv-tokens");
    this.box.replaceChildren();
    this.rows = []; // of buttons
    this.map = new Chart(() => this.data.chart);
    this.ending = new AbortController();
    const on = listener(this.ending.signal);
    on(window, "tv-light", (event) => this.lit(event.detail));
    on(document, "pointerover", () => this.map.attach()); // the chart is another after each change
    on(this.box, "pointerover", (event) => this.point(event.target));
    on(this.box, "pointerleave", () => this.light(NOTHING));
    on(this.box, "focusin", (event) => {
      if (event.target.matches(":focus-visible")) this.point(event.target);
    });
    on(this.box, "focusout", () => this.light(NOTHING));
    on(this.box, "click", (event) => this.pick(event.target));
    on(this.box, "keydown", (event) => this.key(event));
  }

  end() {
    this.ending.abort();
    this.map.end();
    this.light(NOTHING);
  }

  show(data) {
    if (this.data && this.data.chart !== data.chart) this.light(NOTHING); // it is lit no more
    this.data = data;
    this.theme();
    this.map.attach();
    while (this.rows.length > data.rows.length) {
      this.rows.pop();
      this.box.lastChild.remove();
    }
    data.rows.forEach((row, number) => this.row(row, number));
    this.map.show();
  }

  /** One sentence. Its buttons stay while words change, so that the keyboard's place is kept. */
  row(row, number) {
    if (!this.rows[number]) {
      const line = document.createElement("div");
      line.className = "tv-row";
      line.innerHTML = '<span class="tv-name"></span><div role="toolbar"></div>';
      this.box.append(line);
      this.rows[number] = [];
    }
    const line = this.box.children[number], chips = line.querySelector("div");
    line.querySelector(".tv-name").textContent = row.name;
    chips.setAttribute("aria-label", row.name);
    const buttons = this.rows[number];
    fit(buttons, row.chips.length, chips);
    row.chips.forEach((chip, n) => dress(buttons[n], chip));
    const current = buttons.indexOf(this.root.activeElement);
    const chosen = Math.max(0, row.chips.findIndex((chip) => chip.on));
    this.reach(number, current >= 0 ? current : chosen);
  }

  /** The one chip of a row that the Tab key stops at. */
  reach(row, number) {
    this.rows[row].forEach((button, n) => { button.tabIndex = n === number ? 0 : -1; });
  }

  /** The row and number of a button, or null for what stands between them. */
  where(button) {
    for (const [row, buttons] of this.rows.entries()) {
      const number = buttons.indexOf(button);
      if (number >= 0) return { row, number, chip: this.data.rows[row].chips[number] };
    }
    return null;
  }

  point(target) {
    const found = this.where(target);
    this.light(found ? { row: found.chip.row, column: found.chip.column } : NOTHING);
  }

  light(place) {
    light(this.data.chart, place);
  }

  pick(target) {
    const found = this.where(target);
    if (!found || outside(found.chip)) return;
    this.reach(found.row, found.number);
    this.say("picked", {
      row: found.chip.row, column: found.chip.column,
      side: this.data.rows[found.row].name, token: found.number,
    });
  }

  key(event) {
    const found = this.where(event.target);
    if (!found || modified(event)) return;
    const buttons = this.rows[found.row], last = buttons.length - 1, here = found.number;
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to < 0 || to > last) return;
    this.reach(found.row, to);
    buttons[to].focus();
  }

  /** Light the chips that stand in that row or column of their own chart, and the chart. */
  lit({ chart, row, column }) {
    if (chart !== this.data.chart) return;
    this.rows.forEach((buttons, r) => buttons.forEach((button, n) => {
      const chip = this.data.rows[r].chips[n];
      const on = (row !== null && chip.row === row) || (column !== null && chip.column === column);
      button.classList.toggle("lit", on);
    }));
    this.map.light = { row, column };
    this.map.show();
  }

  /** Tell once when the page is dark and the pictures are light, or the other way round. */
  theme() {
    const dark = isDark(this.box);
    if (dark === this.data.dark) this.told = null;
    else if (this.told !== dark) {
      this.told = dark;
      this.say("theme", dark ? "dark" : "light");
    }
  }
}

/** The Plotly chart that the words belong to, and the two bands of light over it. */
class Chart {
  constructor(key) {
    this.key = key;
    this.known = new WeakSet();
    this.light = NOTHING;
    this.bands = { row: band(), column: band() };
    this.watch = new MutationObserver(() => { // drawn anew while lit: light the new one
      if (!this.bands.row.isConnected) this.show();
    });
  }

  end() {
    this.watch.disconnect();
    this.light = NOTHING;
    this.ended = true; // listeners stay with a chart that may outlive the chips
    for (const one of Object.values(this.bands)) one.remove();
  }

  place() {
    return document.querySelector(`.st-key-${CSS.escape(this.key())}`);
  }

  chart() {
    return this.place()?.querySelector(".js-plotly-plot") ?? null;
  }

  /** Hear what is pointed at in the chart: once for each, and it may have been drawn anew. */
  attach() {
    const chart = this.chart();
    if (!chart || typeof chart.on !== "function" || this.known.has(chart)) return;
    this.known.add(chart);
    chart.on("plotly_hover", ({ points }) => {
      if (this.ended || this.chart() !== chart || !points?.length) return;
      light(this.key(), { row: Math.round(points[0].y), column: Math.round(points[0].x) });
    });
    chart.on("plotly_unhover", () => this.ended || light(this.key(), NOTHING));
  }

  show() {
    this.watch.disconnect();
    const { row, column } = this.light;
    const on = row !== null || column !== null;
    const place = on && this.place();
    if (place) this.watch.observe(place, { childList: true, subtree: true });
    const chart = on && this.chart();
    const plot = chart && chart.querySelector(".svg-container");
    const across = chart && (chart._fullLayout?.xaxis2 ?? chart._fullLayout?.xaxis);
    const down = chart && (chart._fullLayout?.yaxis2 ?? chart._fullLayout?.yaxis);
    if (!plot || !across?.l2p || !down?.l2p) {
      for (const one of Object.values(this.bands)) one.remove();
      return;
    }
    const start = [across._offset, down._offset];
    lay(this.bands.row, plot, row, down, (from, size) =>
      ({ left: start[0], top: start[1] + from, width: across._length, height: size }));
    lay(this.bands.column, plot, column, across, (from, size) =>
      ({ left: start[0] + from, top: start[1], width: size, height: down._length }));
  }
}

function band() {
  const element = document.createElement("div");
  element.className = "tv-band";
  element.setAttribute("aria-hidden", "true");
  return element;
}

/** Put a band over one cell's breadth of an axis, or hide it. */
function lay(element, plot, index, axis, box) {
  const ends = [axis.l2p(index - 0.5), axis.l2p(index + 0.5)];
  const from = Math.min(...ends), size = Math.abs(ends[1] - ends[0]);
  const outside = index === null || from < -1 || from + size > axis._length + 1;
  const style = Object.entries(box(from, size)).map(([name, value]) => `${name}:${value}px`);
  const warm = "var(--tv-warm, #B4560F)";
  element.style.cssText = [
    "position:absolute;pointer-events:none;z-index:5;box-sizing:border-box",
    `background:color-mix(in srgb, ${warm} 7%, transparent)`,
    `border:1px solid color-mix(in srgb, ${warm} 80%, transparent)`,
    outside ? "display:none" : "", ...style,
  ].join(";");
  if (element.parentElement !== plot) plot.append(element);
}

function light(chart, { row, column }) {
  window.dispatchEvent(new CustomEvent("tv-light", { detail: { chart, row, column } }));
}

/** A chip that has no place in the chart can be read, not chosen. */
function outside(chip) {
  return chip.row === null && chip.column === null;
}

function dress(button, chip) {
  if (button.textContent !== chip.text) button.textContent = chip.text;
  const marks = [["tv-on", chip.on], ["tv-gone", chip.gone], ["tv-mark", chip.mark]];
  button.classList.add("tv-chip");
  for (const [name, holds] of marks) button.classList.toggle(name, holds);
  set(button, "aria-pressed", String(chip.on));
  set(button, "aria-disabled", String(outside(chip)));
  set(button, "aria-label", chip.gone ? chip.text + " (hidden)" : chip.text);
}
