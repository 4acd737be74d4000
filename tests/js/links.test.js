// Which lines between words are drawn.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  byStrength, chooseLinks, linksOf,
} from "../../transformer_viz/components/browser/lines/links.js";

/**
 * @param {number[]} weights  of one head with two queries
 * @param {number[]} [keys]
 * @returns {import("../../transformer_viz/components/browser/lines/links.js").LinesData}
 */
function data(weights, keys) {
  const shape = [1, 2, weights.length / 2];
  return /** @type {any} */ ({
    beyond: { links: 3, weight: 0.25 },
    arrays: {
      weights: { shape, data: Float32Array.from(weights) },
      ...(keys && { keys: { shape, data: Int32Array.from(keys) } }),
    },
  });
}

/** @param {{query: number, key: number}[]} links */
const places = (links) => links.map(({ query, key }) => [query, key]);

test("of each word the strongest are drawn; the whole is still counted", () => {
  const found = chooseLinks(data([0.5, 0.25, 0.125, 0.0625, 0.5, 0.25]), 1, 0);
  assert.deepEqual(places(found.links), [[0, 0], [1, 1]]);
  assert.deepEqual([found.all, found.weight, found.shown, found.most], [9, 1.9375, 1, 0.5]);
});

test("of equals the earlier word goes first", () => {
  assert.deepEqual(places(chooseLinks(data([0.25, 0.25, 0.25, 0, 0, 0]), 2, 0).links), [[0, 0], [0, 1]]);
});

test("what is weaker than the threshold, faint, or no number is not drawn", () => {
  const found = chooseLinks(data([0.5, 0.1, 0.0005, NaN, 0.2, 0]), 0, 0.15);
  assert.deepEqual(places(found.links), [[0, 0], [1, 1]]);
  assert.equal(found.all, 3 + 4);
});

test("a change counts by its size, and keeps its sign", () => {
  const { links, most } = chooseLinks(data([-0.5, 0.25]), 0, 0);
  assert.deepEqual(links.map(({ weight }) => weight), [-0.5, 0.25]);
  assert.equal(most, 0.5);
  assert.deepEqual(places(byStrength([...links].reverse())), [[0, 0], [1, 0]]);
});

test("links of which only the strongest were sent name their words", () => {
  assert.deepEqual(places(chooseLinks(data([0.5, 0.25], [7, 3]), 0, 0).links), [[0, 7], [1, 3]]);
});

test("a word's links are those that it sends or gets", () => {
  const { links } = chooseLinks(data([0.5, 0.25, 0.125, 0.5]), 0, 0);
  assert.deepEqual(places(linksOf(links, [1], [])), [[1, 0], [1, 1]]);
  assert.deepEqual(places(linksOf(links, [], [0])), [[0, 0], [1, 0]]);
});
