// Which tiles a part of a long map needs.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  alignedTo, coarser, levelFor, regionOf, squaresIn,
} from "../../transformer_viz/components/browser/long/tile_grid.js";

const GRID = { size: 4, levels: 3 };
const SIZE = { rows: 14, columns: 11 };
/** @type {import("../../transformer_viz/components/browser/head_map/sheet.js").Region} */
const PART = { rows: [3, 9], columns: [5, 7] };

test("the level is the finest that has no more cells than can be told apart", () => {
  assert.equal(levelFor(PART, GRID, 6), 0);
  assert.equal(levelFor(PART, GRID, 5), 1);
  assert.equal(levelFor(PART, GRID, 1), 2); // there is no coarser one
});

test("a part is widened to whole cells, within the map", () => {
  assert.deepEqual(alignedTo(PART, 0, SIZE), PART);
  assert.deepEqual(alignedTo(PART, 1, SIZE), { rows: [2, 10], columns: [4, 8] });
  assert.deepEqual(alignedTo({ rows: [13, 14], columns: [8, 11] }, 2, SIZE),
    { rows: [12, 14], columns: [8, 11] });
});

test("every weight of a part stands in exactly one of its tiles", () => {
  for (const level of [0, 1, 2]) {
    const squares = squaresIn(PART, level, GRID);
    for (let row = PART.rows[0]; row < PART.rows[1]; row++) {
      for (let column = PART.columns[0]; column < PART.columns[1]; column++) {
        const holding = squares.map((square) => regionOf(square, GRID, SIZE)).filter((region) =>
          region.rows[0] <= row && row < region.rows[1]
          && region.columns[0] <= column && column < region.columns[1]);
        assert.equal(holding.length, 1);
      }
    }
  }
});

test("a tile ends with the map, and lies within its coarser one", () => {
  const square = { level: 0, row: 3, column: 2 }, own = regionOf(square, GRID, SIZE);
  assert.deepEqual(own, { rows: [12, 14], columns: [8, 11] });
  assert.deepEqual(coarser(square, 0), square);
  const outer = regionOf(coarser(square, 2), GRID, SIZE);
  assert.ok(outer.rows[0] <= own.rows[0] && own.rows[1] <= outer.rows[1]);
  assert.deepEqual(coarser(square, 1), { level: 1, row: 1, column: 1 });
});
