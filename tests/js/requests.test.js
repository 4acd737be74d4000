// A widget's wishes on their way to the kernel: one message at a time, of a slider the newest step.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Requests } from "../../transformer_viz/components/browser/explorer/requests.js";

/** Wishes, and what was sent of them; the caller answers. */
function talking() {
  /** @type {any[]} */
  const sent = [];
  const requests = new Requests("mine", (message) => sent.push(message), () => {});
  const answer = async (/** @type {number} */ answers, view = "mine") => {
    requests.answered({ answers, view });
    await new Promise((done) => setTimeout(done));
  };
  return { requests, sent, answer, wishes: () => sent.map((message) => message.wishes) };
}

test("of a slider the newest step is sent, of clicks all", async () => {
  const { requests, answer, wishes } = talking();
  requests.want("temperature", 1);
  requests.want("temperature", 2);
  requests.want("opened", "a");
  requests.want("temperature", 3);
  requests.want("opened", "b");
  assert.deepEqual(wishes(), [[["temperature", 1]]]);
  await answer(1);
  const next = [["opened", "a"], ["temperature", 3], ["opened", "b"]];
  assert.deepEqual(wishes(), [[["temperature", 1]], next]);
  await answer(2);
  assert.equal(wishes().length, 2);
});

test("answers to others and to older messages are not its own", async () => {
  const { requests, sent, answer } = talking();
  requests.want("window", 1);
  requests.want("window", 2);
  await answer(1, "another");
  await answer(0);
  assert.equal(sent.length, 1);
  await answer(1);
  assert.equal(sent.length, 2);
  await answer(1);
  requests.want("window", 3);
  assert.equal(sent.length, 2);
  await answer(2);
  assert.deepEqual(sent[2], { ask: 3, view: "mine", wishes: [["window", 3]] });
  requests.end();
});

test("after the end nothing waits for the old kernel", async () => {
  const { requests, sent } = talking();
  requests.want("window", 1);
  requests.want("window", 2);
  requests.end();
  await new Promise((done) => setTimeout(done));
  assert.equal(sent.length, 1);
});
