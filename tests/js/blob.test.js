// Bytes as blob.py packs them, made here by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../transformer_viz/components/browser/shared/blob.js";

/**
 * Magic, length of the header, header, and from the next multiple of 8 on the arrays.
 * @param {object} header
 * @param {number[]} arrays  bytes
 */
function packed(header, arrays) {
  const words = new TextEncoder().encode(JSON.stringify(header));
  const start = Math.ceil((8 + words.length) / 8) * 8;
  const bytes = new Uint8Array(start + arrays.length);
  bytes.set([..."TVB1"].map((letter) => letter.charCodeAt(0)));
  new DataView(bytes.buffer).setUint32(4, words.length, true);
  bytes.set(words, 8);
  bytes.set(arrays, start);
  return bytes;
}

const HEADER = {
  part: "head", words: ["für", "→"],
  arrays: {
    tiles: { dtype: "uint8", shape: [1, 3], offset: 0 },
    weights: { dtype: "float32", shape: [2], offset: 8 },
  },
};
const ARRAYS = [7, 11, 13, 0, 0, 0, 0, 0, 0, 0, 0, 63, 0, 0, 0, 192]; // the floats 0.5 and -2

test("words and arrays are read, wherever in a message the bytes begin", () => {
  const bytes = packed(HEADER, ARRAYS), message = new Uint8Array(bytes.length + 5);
  message.set(bytes, 5);
  for (const whole of [bytes, message.subarray(5)]) {
    const { part, words, arrays } = read(whole);
    assert.deepEqual([part, words], ["head", ["für", "→"]]);
    assert.deepEqual(arrays.tiles, { shape: [1, 3], data: Uint8Array.of(7, 11, 13) });
    assert.deepEqual(arrays.weights, { shape: [2], data: Float32Array.of(0.5, -2) });
  }
});

test("other bytes, and what is no bytes, are refused", () => {
  assert.throws(() => read(new Uint8Array(16)), /these bytes are no picture/);
  assert.throws(() => read(/** @type {any} */ ("text")), /expected bytes, got string/);
});
