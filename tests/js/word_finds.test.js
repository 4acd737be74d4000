// Where a word stands in a long text.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  findsOf, firstFrom, placeOf,
} from "../../transformer_viz/components/browser/long/word_finds.js";

/** "The cat unbe|liev|ably saw THE cats": rows bear the word that follows. */
const WORDS = {
  rows: [], columns: [],
  spelled: ["The", "cat", "unbelievably", "saw", "THE", "cats", "."],
  columnWords: [0, 1, 2, 2, 2, 3, 4, 5],
  rowWords: [1, 2, 2, 2, 3, 4, 5, 6],
};

test("a word is found in any case, by a part of it, and with all its pieces", () => {
  assert.deepEqual(findsOf(WORDS, "the"), [
    { rows: [], columns: [0] }, { rows: [5], columns: [6] },
  ]);
  assert.deepEqual(findsOf(WORDS, "LIEVA"), [{ rows: [1, 2, 3], columns: [2, 3, 4] }]);
  assert.deepEqual(findsOf(WORDS, " cat ").map(placeOf), [
    { row: 0, column: 1 }, { row: 6, column: 7 },
  ]);
  assert.deepEqual(findsOf(WORDS, "."), [{ rows: [7], columns: [] }]);
});

test("nothing is found of nothing, of what is not there, and where rows are no words of it", () => {
  for (const wanted of ["", "  ", "zebra"]) assert.deepEqual(findsOf(WORDS, wanted), []);
  const alone = { ...WORDS, rowWords: new Array(8).fill(-1) };
  assert.deepEqual(findsOf(alone, "saw"), [{ rows: [], columns: [5] }]);
});

test("letters in another form are the same letters", () => {
  const words = { ...WORDS, spelled: ["caf\u0065\u0301", "ﬁsh", "", "", "", "", ""] };
  assert.equal(findsOf(words, "CAFÉ").length, 1);
  assert.equal(findsOf(words, "fish").length, 1);
});

test("a search begins with what is in view or behind it, and with the first one at the end", () => {
  const finds = findsOf(WORDS, "c");
  assert.equal(firstFrom(finds, 0), 0);
  assert.equal(firstFrom(finds, 2), 1);
  assert.equal(firstFrom(finds, 8), 0);
});

test("a find stands at its first row and column, or at what it has of them", () => {
  assert.deepEqual(placeOf({ rows: [4, 5], columns: [5, 6] }), { row: 4, column: 5 });
  assert.deepEqual(placeOf({ rows: [], columns: [0] }), { row: 0, column: 0 });
  assert.deepEqual(placeOf({ rows: [7], columns: [] }), { row: 7, column: 7 });
});
