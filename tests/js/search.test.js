// A beam of two over three steps: who goes on from whom, and where each text stands in the tree.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chanceWords, CUT, ENDED, KEPT, LEFT_OUT, logWords, NOBODY, PlaySearch,
} from "../../transformer_viz/components/browser/play/search.js";
import { neighbourOf, treeLayout } from "../../transformer_viz/components/browser/play/tree_layout.js";

const STEPS = [0, 0, 0, 1, 1, 1, 2, 2];
const PARENTS = [NOBODY, NOBODY, NOBODY, 0, 1, 1, 4, 3];
const FATES = [KEPT, KEPT, LEFT_OUT, KEPT, KEPT, LEFT_OUT, ENDED, CUT];

/** @param {number[]} data */
const block = (data) => ({ shape: [data.length], data: Int32Array.from(data) });
const search = new PlaySearch(/** @type {any} */ ({
  beam: 2, best: [6], words: ["one", "two"], names: ["a", "b"], block: "decoder",
  arrays: {
    steps: block(STEPS), parents: block(PARENTS), fates: block(FATES),
    tokens: block(STEPS.map(() => 0)), totals: block(STEPS), scores: block(STEPS),
    owners: block([NOBODY, 0, 1, 3, 4]), keys: block([1, 2, 2, 3, 3]),
    rows: {
      shape: [5, 2, 3],
      data: Float32Array.from({ length: 30 }, (_, n) => (n === 12 ? 0.75 : n === 15 ? 0.25 : 0)),
    },
  },
}));

test("a text goes on from another one", () => {
  assert.deepEqual([search.line(6), search.line(2)], [[1, 4, 6], [2]]);
  assert.deepEqual([search.kept(0), search.kept(1)], [[0, 1], [3, 4]]);
  assert.deepEqual([search.passOf(0), search.passOf(5), search.placeOf(5)], [0, 2, 2]);
  assert.equal(search.address(5), "1.2");
});

test("of a candidate the best text that came of it is shown, or the one that came furthest", () => {
  assert.deepEqual([search.leafOf(1), search.leafOf(0), search.leafOf(5)], [6, 7, 5]);
});

test("a row is of one head, or the mean of all, as long as its pass had keys", () => {
  assert.deepEqual([...search.row(4, 0)], [0.75, 0]);
  assert.deepEqual([...search.row(4, null)], [0.5, 0]);
});

test("small chances keep a digit, and minus infinity is said", () => {
  assert.deepEqual([0, 0.25, 0.00031, 0.000001].map(chanceWords),
    ["0.000", "0.250", "0.0003", "under 0.00001"]);
  assert.deepEqual([logWords(-1.005, 1), logWords(-Infinity)], ["−1.0", "−∞"]);
});

test("a tree has a column a step, and those left out below a line", () => {
  const { nodes, edges, line, high, height } = treeLayout(search, 600, 14, 0);
  assert.deepEqual(nodes.map(({ one }) => one), [0, 1, 2, 3, 4, 5, 6, 7]);
  for (const { one, step, left, top } of nodes) {
    assert.equal(step, STEPS[one]);
    assert.equal(left, nodes.find((node) => node.step === step)?.left);
    assert.equal(top + high > line, FATES[one] === LEFT_OUT);
    assert.ok(top + high <= height);
  }
  assert.deepEqual(edges.map(({ from, to }) => [from, to]), PARENTS.map((from, to) => [from, to]));
});

test("keys go up and down in a column, and not out of it", () => {
  const layout = treeLayout(search, 600, 14, 0);
  assert.deepEqual([neighbourOf(layout, 3, 1), neighbourOf(layout, 4, 1), neighbourOf(layout, 4, -1)], [4, 5, 3]);
  assert.deepEqual([neighbourOf(layout, 0, -1), neighbourOf(layout, 5, 1)], [NOBODY, NOBODY]);
});
