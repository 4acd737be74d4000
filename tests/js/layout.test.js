// Where the tiles of an atlas stand, and which one a key leads to.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  inLayers, inRank, neighbour, slotAt,
} from "../../transformer_viz/components/browser/atlas/layout.js";

const LAYERS = 3, HEADS = 5;
const PLACES = [...Array(LAYERS * HEADS).keys()].map((n) =>
  ({ block: 0, layer: Math.floor(n / HEADS), head: n % HEADS }));
const ROOM = { width: 700, height: 400 };

test("layers are rows and heads are columns, apart and within their room", () => {
  const { slots, tile, width, height } = inLayers(PLACES, ["encoder"], ROOM);
  assert.ok(width <= ROOM.width && height <= ROOM.height);
  for (const { place, row, column } of slots) assert.deepEqual([row, column], [place.layer, place.head]);
  assert.ok(slots[0].left + tile.width < slots[1].left);
  assert.ok(slots[0].top + tile.height < slots[HEADS].top);
});

test("a ranked sequence flows in rows, in its order", () => {
  const { slots, ranked, width } = inRank(PLACES, 60, ROOM);
  assert.ok(ranked && width <= ROOM.width);
  assert.deepEqual(slots.map(({ place }) => place), PLACES);
  const order = slots.map(({ row, column }) => row * 100 + column);
  assert.deepEqual(order, [...order].sort((a, b) => a - b));
});

test("a point finds its tile and the part of it, and nothing between two", () => {
  const layout = inLayers(PLACES, ["encoder"], ROOM), { slots, tile, gap } = layout;
  const { left, top } = slots[7], found = slotAt(layout, left + tile.width / 4, top + tile.height / 2);
  assert.deepEqual(found, { slot: slots[7], right: 0.25, down: 0.5 });
  assert.equal(slotAt(layout, left + tile.width + gap / 2, top), null);
});

test("arrow keys go to neighbours, Home and End along a row, and nothing leads out", () => {
  const layout = inLayers(PLACES, ["encoder"], ROOM), from = layout.slots[7];
  /** @type {[string, number | undefined][]} */
  const ways = [["ArrowLeft", 6], ["ArrowRight", 8], ["ArrowUp", 2], ["ArrowDown", 12], ["Home", 5],
    ["End", 9], ["x", undefined]];
  for (const [key, to] of ways) {
    assert.equal(neighbour(layout, from, key), to === undefined ? undefined : layout.slots[to], key);
  }
  assert.equal(neighbour(layout, layout.slots[0], "ArrowUp"), undefined);
  assert.equal(neighbour(layout, layout.slots[4], "ArrowRight"), undefined);
});
