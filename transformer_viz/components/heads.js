// All heads of a block as tiles on a canvas: point, click, or walk with the arrow keys.
//
// Data: the blob of heads.py. Says: trigger "opened" [layer, head]. Hears: window event "tv-light"
// {chart, row, column} where the chart is the opened map; rows and columns of another picture mean
// nothing here. The host element's data-painted counts what was drawn.

const MAGIC = 0x31485654;
const LEFT = 36;      // room for the names of layers
const TOP = 24;       // room for the names of heads
const GAP = 8;
const EDGE = 8;       // room for the frames and marks of the outermost tiles
const NARROWEST = 18; // pixels from tile to tile; more heads than fit so can be scrolled to
const WIDEST = 1.4;   // a tile is at most so much wider than high

export default (component) => showIn(component, View);

/** The blob of heads.py as {header words ..., cells}. */
function read(data) {
  if (!(data instanceof Uint8Array)) throw new Error("heads: expected bytes, got " + typeof data);
  const numbers = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (numbers.getUint32(0, true) !== MAGIC) throw new Error("heads: these bytes are no heads");
  const length = numbers.getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(data.subarray(8, 8 + length)));
  const start = Math.ceil((8 + length) / 8) * 8;
  return { ...header, cells: data.slice(start) }; // a copy: the rest of the message can go
}

class View {
  constructor(root) {
    this.root = root;
    this.box = root.querySelector(".tv-heads");
    this.host = root.host || this.box;
    this.part = (name) => this.box.querySelector("." + name);
    this.frame = this.part("frame");
    this.part("tiles").replaceChildren();
    this.buttons = [];
    this.painted = 0;
    this.tipped = -1;
    this.light = { row: null, column: null };
    this.watch = new ResizeObserver(() => this.later());
    this.watch.observe(this.frame);
    this.listen();
  }

  listen() {
    this.ending = new AbortController();
    const on = listener(this.ending.signal);
    on(window, "tv-light", (event) => {
      if (event.detail.chart !== this.data.chart) return;
      this.light = event.detail;
      this.ticks();
    });
    const tiles = this.part("tiles");
    on(tiles, "click", (event) => this.chosen(this.number(event)));
    on(tiles, "keydown", (event) => this.key(event));
    on(tiles, "pointerover", (event) => this.tip(this.number(event)));
    on(tiles, "pointerleave", () => this.tip(-1));
    on(tiles, "focusin", (event) => {
      if (event.target.matches(":focus-visible")) this.tip(this.number(event));
    });
    on(tiles, "focusout", () => this.tip(-1));
    on(this.frame, "scroll", () => this.tip(-1));
  }

  end() {
    this.ending.abort();
    this.watch.disconnect();
    cancelAnimationFrame(this.waiting);
  }

  number(event) {
    return this.buttons.indexOf(event.target);
  }

  // ---- drawing

  show(data) {
    this.data = read(data);
    this.paint();
    this.count();
  }

  paint() {
    const data = this.data;
    this.box.style.height = data.height + "px";
    this.colours = data.colours[isDark(this.box) ? "dark" : "light"];
    for (const [name, colour] of Object.entries(this.colours)) {
      if (typeof colour === "string") this.box.style.setProperty("--" + name, colour);
    }
    set(this.part("tiles"), "aria-label", data.caption + " · arrow keys move");
    const { changes, amounts } = this.colours;
    this.lookup = lookupTable(data.change ? changes : amounts, data.change);
    this.name();
    this.draw();
  }

  /** Redraw once the size has settled for this frame. */
  later() {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.data && this.draw());
  }

  /** After the second animation frame the drawing is on the screen: say so. */
  count() {
    this.painted += 1;
    const number = this.painted;
    requestAnimationFrame(() =>
      requestAnimationFrame(() => this.host.setAttribute("data-painted", String(number))));
  }

  /** The buttons over the tiles: as many as heads, each with its words. */
  name() {
    const { layers, heads, labels, selected } = this.data;
    const current = this.buttons.indexOf(this.root.activeElement);
    fit(this.buttons, layers * heads, this.part("tiles"));
    const chosen = selected[0] * heads + selected[1];
    this.reachable = current >= 0 && current < this.buttons.length ? current : chosen;
    this.buttons.forEach((button, n) => {
      set(button, "aria-label", labels[Math.floor(n / heads)][n % heads]);
      set(button, "aria-current", String(n === chosen));
      set(button, "tabindex", n === this.reachable ? "0" : "-1");
    });
    this.tip(this.tipped < this.buttons.length ? this.tipped : -1);
  }

  /** Where everything is: the step from tile to tile, and the tile inside it. */
  measure() {
    const { layers, heads, row } = this.data;
    const room = this.frame.clientWidth - LEFT - EDGE;
    const step = Math.min(Math.max(Math.floor(room / heads), NARROWEST), Math.round(row * WIDEST));
    const gap = Math.min(GAP, Math.floor(step / 5), Math.floor(row / 5));
    return {
      step, row, gap,
      width: LEFT + step * heads + EDGE,
      height: layers * row + EDGE,
      tile: { width: step - gap, height: row - gap },
    };
  }

  place(layer, head) {
    const { step, row } = this.sizes;
    return { left: LEFT + head * step, top: layer * row + EDGE };
  }

  draw() {
    if (!this.frame.clientWidth) return;
    this.sizes = this.measure();
    const { width, height, tile } = this.sizes;
    const { layers, heads, h, w } = this.data;
    const sheet = this.part("sheet");
    sheet.style.width = width + "px";
    sheet.style.height = TOP + height + "px";
    this.labels();
    const pen = this.pen("cells");
    pen.imageSmoothingEnabled = false; // cells have sharp edges
    const each = [w / tile.width, h / tile.height].map((n) => Math.ceil(n / devicePixelRatio));
    for (let layer = 0; layer < layers; layer++) {
      for (let head = 0; head < heads; head++) {
        const { left, top } = this.place(layer, head);
        pen.drawImage(this.tile(layer * heads + head, each), left, top, tile.width, tile.height);
        const style = this.buttons[layer * heads + head].style;
        style.cssText = `left:${left}px;top:${top}px;width:${tile.width}px;height:${tile.height}px`;
      }
    }
    this.ticks();
  }

  /** One head's cells as a small canvas; of `each` cells without a pixel of their own, the
   *  strongest is shown. */
  tile(number, each) {
    const { w, h, cells, change } = this.data;
    const width = Math.ceil(w / each[0]), height = Math.ceil(h / each[1]);
    const start = number * w * h;
    // How much a cell has to say: a change by its distance from 128, none at all by 0.
    const strength = (cell) => (change && cell ? Math.abs(cell - 128) + 1 : cell);
    const shown = new Uint8Array(width * height);
    for (let n = 0; n < w * h; n++) {
      const at = Math.floor(n / w / each[1]) * width + Math.floor((n % w) / each[0]);
      if (strength(cells[start + n]) > strength(shown[at])) shown[at] = cells[start + n];
    }
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    shown.forEach((cell, n) => { pixels[n] = this.lookup[cell]; });
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height }).getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  /** A cleared canvas as large as the tiles, in the screen's own pixels. */
  pen(name) {
    const canvas = this.part(name);
    const { width, height } = this.sizes;
    canvas.width = Math.round(width * devicePixelRatio);
    canvas.height = Math.round(height * devicePixelRatio);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d");
    pen.scale(devicePixelRatio, devicePixelRatio);
    return pen;
  }

  labels() {
    const { layers, heads } = this.data;
    const { step, row, tile, height } = this.sizes;
    const every = Math.ceil(30 / step); // narrow tiles: only some of the names fit
    const across = [...Array(heads).keys()].filter((head) => head % every === 0);
    this.part("names").replaceChildren(...across.map((head) =>
      label("H" + head, "left", LEFT + head * step + tile.width / 2)));
    const down = document.createElement("div");
    down.style.height = height + "px";
    for (let layer = 0; layer < layers; layer++) {
      down.append(label("L" + layer, "top", layer * row + EDGE + tile.height / 2));
    }
    this.part("layers").replaceChildren(down);
  }

  /** Small marks beside each tile at the row and above it at the column that is lit. */
  ticks() {
    if (!this.sizes) return;
    const pen = this.pen("light");
    const { layers, heads, h, w, pooled, rows, columns } = this.data;
    const { tile, gap } = this.sizes;
    const at = (index, groups, each, cells, size) => {
      const tokens = index == null ? [] : groups ? groups[index] || [] : [index];
      return tokens.map((token) =>
        Math.round(((Math.floor(token / each) + 0.5) / cells) * size));
    };
    const downs = at(this.light.row, rows, pooled[0], h, tile.height);
    const acrosses = at(this.light.column, columns, pooled[1], w, tile.width);
    const length = Math.max(2, gap - 2);
    pen.fillStyle = this.colours.warm;
    for (let n = 0; n < layers * heads; n++) {
      const { left, top } = this.place(Math.floor(n / heads), n % heads);
      for (const y of downs) pen.fillRect(left - length - 1, top + y - 1, length, 2);
      for (const x of acrosses) pen.fillRect(left + x - 1, top - length - 1, 2, length);
    }
  }

  // ---- what a person does

  chosen(number) {
    if (number < 0) return;
    this.buttons.forEach((button, n) => set(button, "aria-current", String(n === number)));
    this.reach(number);
    this.say("opened", [Math.floor(number / this.data.heads), number % this.data.heads]);
  }

  reach(number) {
    set(this.buttons[this.reachable], "tabindex", "-1");
    set(this.buttons[number], "tabindex", "0");
    this.reachable = number;
  }

  /** Arrow keys walk over the tiles; Enter and Space are a button's own. */
  key(event) {
    const { layers, heads } = this.data;
    const number = this.number(event);
    const layer = Math.floor(number / heads), head = number % heads;
    const to = {
      ArrowLeft: [layer, head - 1], ArrowRight: [layer, head + 1],
      ArrowUp: [layer - 1, head], ArrowDown: [layer + 1, head],
      Home: [layer, 0], End: [layer, heads - 1],
    }[event.key];
    if (number < 0 || !to || modified(event)) return;
    event.preventDefault();
    if (to[0] < 0 || to[0] >= layers || to[1] < 0 || to[1] >= heads) return;
    this.reach(to[0] * heads + to[1]);
    this.buttons[this.reachable].focus();
  }

  /** A line about one head beside its tile; -1 takes it away. */
  tip(number) {
    const tip = this.part("tip");
    this.tipped = number;
    tip.style.display = number < 0 || !this.sizes ? "none" : "block";
    if (number < 0 || !this.sizes) return;
    tip.textContent = this.buttons[number].getAttribute("aria-label");
    const box = this.box.getBoundingClientRect();
    const tile = this.buttons[number].getBoundingClientRect();
    const above = tile.top - box.top - tip.offsetHeight - 7;
    const below = tile.bottom - box.top + 7;
    const left = (tile.left + tile.right) / 2 - box.left - tip.offsetWidth / 2;
    const lowest = box.height - tip.offsetHeight;
    tip.style.left = Math.max(0, Math.min(left, box.width - tip.offsetWidth)) + "px";
    tip.style.top = (below > lowest && above >= 0 ? above : Math.min(below, lowest)) + "px";
  }
}

/** A colour for each of the 256 values, as a canvas stores it (little-endian RGBA). */
function lookupTable(ramp, change) {
  const stops = ramp.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const table = new Uint32Array(256);
  for (let value = 0; value < 256; value++) {
    const place = (change ? (value - 1) / 254 : value / 255) * (stops.length - 1);
    const low = Math.max(0, Math.min(Math.floor(place), stops.length - 2));
    const [red, green, blue] = stops[low].map((from, n) =>
      Math.round(from + (stops[low + 1][n] - from) * (place - low)));
    table[value] = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }
  if (change) table[0] = 0; // was not there before: nothing to see
  return table;
}

function label(text, side, at) {
  const span = document.createElement("span");
  span.textContent = text;
  span.style[side] = at + "px";
  return span;
}
