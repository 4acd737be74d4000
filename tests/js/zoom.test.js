// Which part of a map is shown.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  around, isWhole, moved, pinched, uncovering, wholeMap, zoomed,
} from "../../transformer_viz/components/browser/head_map/zoom.js";

const SIZE = { rows: 11, columns: 23 };
/** @type {import("../../transformer_viz/components/browser/head_map/sheet.js").Region} */
const PART = { rows: [2, 7], columns: [5, 12] };

test("the whole map is whole, a part is not", () => {
  assert.deepEqual(wholeMap(SIZE), { rows: [0, 11], columns: [0, 23] });
  assert.ok(isWhole(wholeMap(SIZE), SIZE));
  assert.ok(!isWhole(PART, SIZE));
});

test("a part that is moved never leaves the map, and keeps its size", () => {
  assert.deepEqual(moved(PART, SIZE, 1, -3), { rows: [3, 8], columns: [2, 9] });
  assert.deepEqual(moved(PART, SIZE, 99, 99), { rows: [6, 11], columns: [16, 23] });
  assert.deepEqual(moved(PART, SIZE, -99, -99), { rows: [0, 5], columns: [0, 7] });
});

test("uncovering goes no further than it must", () => {
  assert.deepEqual(uncovering(PART, SIZE, { row: 3, column: 6 }), PART);
  assert.deepEqual(uncovering(PART, SIZE, { row: 9, column: 4 }), { rows: [5, 10], columns: [4, 11] });
});

test("a cell that is enlarged around stays in sight, down to four rows and columns", () => {
  for (const at of [{ row: 0, column: 0 }, { row: 5, column: 13 }, { row: 10, column: 22 }]) {
    let view = wholeMap(SIZE);
    for (let times = 0; times < 6; times++) {
      const closer = zoomed(view, SIZE, 2, at);
      assert.ok(closer.rows[0] <= at.row && at.row < closer.rows[1]);
      assert.ok(closer.columns[0] <= at.column && at.column < closer.columns[1]);
      view = closer;
    }
    assert.equal(view.rows[1] - view.rows[0], 4);
    assert.equal(view.columns[1] - view.columns[0], 4);
    for (let times = 0; times < 6; times++) view = zoomed(view, SIZE, 0.5, at);
    assert.ok(isWhole(view, SIZE));
  }
});

test("each step of a zoom changes something, however small the factor", () => {
  assert.deepEqual(zoomed(PART, SIZE, 1.01, { row: 3, column: 8 }).rows, [2, 6]);
  assert.equal(zoomed(PART, SIZE, 0.99, { row: 4, column: 8 }).rows.reduce((a, b) => b - a), 6);
});

test("going to a cell puts it in the middle, as near as names can be read, and no farther off", () => {
  const size = { rows: 900, columns: 700 }, whole = wholeMap(size);
  assert.deepEqual(around(whole, size, { row: 400, column: 300 }),
    { rows: [376, 424], columns: [276, 324] });
  assert.deepEqual(around(whole, size, { row: 3, column: 699 }),
    { rows: [0, 48], columns: [652, 700] });
  assert.deepEqual(around({ rows: [0, 10], columns: [0, 6] }, size, { row: 100, column: 50 }),
    { rows: [95, 105], columns: [47, 53] });
  assert.deepEqual(around(wholeMap(SIZE), SIZE, { row: 3, column: 9 }), wholeMap(SIZE));
});

test("two fingers keep what lies between them, and carry it along", () => {
  const size = { rows: 100, columns: 100 }, at = { row: 30, column: 60 };
  /** @type {import("../../transformer_viz/components/browser/head_map/sheet.js").Region} */
  const part = { rows: [20, 60], columns: [40, 80] };
  assert.deepEqual(pinched(part, size, 2, at, { down: 0, right: 0 }), zoomed(part, size, 2, at));
  const still = zoomed(part, size, 2, at);
  assert.deepEqual(pinched(part, size, 2, at, { down: 4, right: -8 }), moved(still, size, -2, 4));
  assert.deepEqual(pinched(part, size, 1, at, { down: 4, right: -8 }), moved(part, size, -4, 8));
});
