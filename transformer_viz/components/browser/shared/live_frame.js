// Live frames: the pictures of one step of a slider, asked of the server and handed to their views.

import { read } from "./blob.js";
import { afterPainting } from "./streamlit_view.js";

/**
 * Ask for the pictures of a step and wait until they are painted.
 *
 * "painted"; "refused": there are no pictures of this step, the ordinary way will say why; "gone":
 * nobody answers at this address any more.
 * @param {string} line  the address of this visit's frames
 * @param {Record<string, string>} step  the slider's name and value, and `seq`
 * @param {AbortSignal} signal
 * @returns {Promise<"painted" | "refused" | "gone">}
 */
export async function liveFrame(line, step, signal) {
  let answer;
  try {
    answer = await fetch(`${line}?${new URLSearchParams(step)}`, { signal, cache: "no-store" });
  } catch {
    return "gone";
  }
  if (answer.status === 404) return "gone";
  if (answer.status !== 200) return "refused";
  const { arrays } = read(new Uint8Array(await answer.arrayBuffer()));
  for (const [part, { data }] of Object.entries(arrays)) {
    window.dispatchEvent(new CustomEvent("tv-frame", { detail: { part, data } }));
  }
  await new Promise((done) => afterPainting(() => done(null)));
  return "painted";
}
