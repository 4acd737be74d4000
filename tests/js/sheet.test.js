// Where the colours of the tiles of a long run end.

import assert from "node:assert/strict";
import { test } from "node:test";

import { robustCells } from "../../transformer_viz/components/browser/atlas/sheet.js";

test("a few large weights of the first rows do not end the colours of a tile", () => {
  const pale = new Uint8Array(100).fill(5), even = new Uint8Array(100).fill(100);
  pale[0] = 255;
  pale[1] = 0; // sees nothing, and does not count
  even[3] = 120; // so near that it is the end itself
  const data = new Uint8Array([...pale, ...even, ...new Uint8Array(100)]);
  assert.deepEqual([...robustCells({ data, shape: [1, 3, 10, 10] })], [5, 120, 0]);
});
