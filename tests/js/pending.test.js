// Whose value counts: Python's, or the hand's newest choice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Pending, same } from "../../transformer_viz/components/browser/shared/pending.js";

/**
 * What `hear` gives for each value that is heard; ["tell", x], "choose" and "forget" are done between.
 * @param {Pending} pending
 * @param {(number | null | string | [string, unknown])[]} deeds
 */
function heard(pending, deeds) {
  const found = [];
  for (const deed of deeds) {
    if (Array.isArray(deed)) pending.tell(deed[1]);
    else if (deed === "choose") pending.choose();
    else if (deed === "forget") pending.forget();
    else found.push(pending.hear(deed));
  }
  return found;
}

/** @type {[string, Parameters<typeof heard>[1], boolean[]][]} */
const CASES = [
  ["what is heard first counts, null too", [null], [true]],
  ["the same again is no news", [1, 1, 2, 2], [true, false, true, false]],
  ["an older answer does not take the newer choice back",
    [1, ["tell", 2], ["tell", 3], 2, 3], [true, false, false]],
  ["what was known before the choice does not either", [1, ["tell", 2], 1, 2], [true, false, false]],
  ["of two answers that are alike the first one comes first",
    [1, ["tell", 2], ["tell", 3], ["tell", 2], 2, 3, 2], [true, false, false, false]],
  ["news counts, and ends the wait", [1, ["tell", 2], 5, 2], [true, true, true]],
  ["news from before a choice is told does not count, but is known",
    [1, "choose", 5, ["tell", 2], 5, 2], [true, false, false, false]],
  ["after forgetting whatever comes counts", [1, ["tell", 2], "choose", "forget", 1], [true, true]],
];

for (const [name, deeds, wanted] of CASES) {
  test(name, () => assert.deepEqual(heard(new Pending(), deeds), wanted));
}

test("a choice waits until it is told and answered", () => {
  const pending = new Pending(), states = [pending.waits];
  for (const deed of [() => pending.choose(), () => pending.tell(2), () => pending.hear(2)]) {
    deed();
    states.push(pending.waits);
  }
  assert.deepEqual(states, [false, true, true, false]);
});

test("a choice that is never answered is forgotten with patience", () => {
  const pending = new Pending(3);
  pending.hear(1);
  pending.tell(2);
  const waits = [1, 1, 1].map((value) => pending.hear(value) || pending.waits);
  assert.deepEqual(waits, [true, true, false]);
  assert.equal(pending.hear(2), true); // an answer would not have counted
});

test("a number answers all that are not greater", () => {
  const pending = new Pending();
  for (const number of [5, 7, 10]) pending.tell(number);
  pending.reach(4);
  assert.deepEqual(pending.told, ["5", "7", "10"]);
  pending.reach(8);
  assert.deepEqual(pending.told, ["10"]);
  pending.reach(10);
  assert.equal(pending.waits, false);
});

test("plain values are the same when they hold the same", () => {
  assert.ok(same({ rows: [0, 2] }, { rows: [0, 2] }));
  assert.ok(!same({ rows: [0, 2] }, { rows: [0, 3] }));
});
