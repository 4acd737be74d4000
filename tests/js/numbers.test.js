// Numbers as they are written, and texts in the visitor's language.

import assert from "node:assert/strict";
import { test } from "node:test";
import { tell } from "../../transformer_viz/components/browser/shared/i18n.js";
import { signed } from "../../transformer_viz/components/browser/shared/number_format.js";

test("a weight has its digits, and a change its sign", () => {
  assert.deepEqual([signed(0.256, 2, false), signed(0.256, 2, true)], ["0.26", "+0.26"]);
  assert.equal(signed(-0.256, 1, false), "−0.3");
});

test("what is written as nothing has no sign, and what is no number is said", () => {
  assert.deepEqual([signed(-0.0004, 3, true), signed(0.0004, 3, true)], ["0.000", "0.000"]);
  assert.equal(signed(NaN, 2, true), "unknown");
});

test("a text has its values in place of their names, and other braces stay", () => {
  assert.equal(tell("{at} of {count}, {at}", { at: 2, count: 0 }), "2 of 0, 2");
  assert.equal(tell("{nobody}", {}), "{nobody}");
});
