// The gate in front of live frames: one piece at a time, and the newest next.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Gate } from "../../transformer_viz/components/browser/shared/newest_wins.js";

/**
 * What begins while these wishes are made; "done" and "failed" end the piece that is being done.
 * @param {(number | "done" | "failed" | "clear")[]} wishes
 */
async function begun(wishes) {
  /** @type {unknown[]} */
  const begun = [];
  /** @type {{open: (value: unknown) => void, shut: (error: Error) => void}[]} */
  const doors = [];
  let inside = 0, most = 0;
  const gate = new Gate(async (wish) => {
    begun.push(wish);
    most = Math.max(most, ++inside);
    await new Promise((open, shut) => doors.push({ open, shut })).finally(() => { inside--; });
  });
  for (const wish of wishes) {
    if (wish === "clear") gate.clear();
    else if (wish === "done") doors.shift()?.open(null);
    else if (wish === "failed") doors.shift()?.shut(new Error("no picture"));
    else gate.want(wish);
    if (typeof wish === "string") await new Promise((done) => setTimeout(done));
  }
  return { begun, most, waiting: doors.length, open: gate.open };
}

/** @type {[Parameters<typeof begun>[0], number[], boolean][]} */
const CASES = [
  [[1], [1], false],
  [[1, "done"], [1], true],
  [[1, 2, 3, 4], [1], false], // one at a time
  [[1, 2, 3, 4, "done"], [1, 4], false], // the newest next; 2 and 3 never
  [[1, 2, "done", 3, 4, "done", "done"], [1, 2, 4], true],
  [[1, 2, "failed", "done"], [1, 2], true], // a failure lets the next one in
  [[1, "failed", 2, "done"], [1, 2], true],
  [[1, 2, "clear", "done"], [1], true],
  [[1, 2, "clear", 3, "done", "done"], [1, 3], true],
];

for (const [wishes, wanted, open] of CASES) {
  test(`of ${wishes.join(" ")} these begin: ${wanted}`, async () => {
    const found = await begun(wishes);
    assert.deepEqual(found, { begun: wanted, most: 1, waiting: open ? 0 : 1, open });
  });
}
