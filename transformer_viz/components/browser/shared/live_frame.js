// Live frames: the pictures of one step of a slider, asked of the server and handed to their views.

import { read } from "./blob.js";
import { afterPainting } from "./streamlit_view.js";
import { TOO_MANY, toldToWait } from "./told_to_wait.js";

/**
 * Ask for the pictures of a step and wait until they are painted.
 *
 * "painted"; "refused": there are no pictures of this step, the ordinary way will say why; "late":
 * this visit has asked for too many, and has waited as long as it was told to; "gone": nobody
 * answers at this address any more.
 * @param {string} line  the address of this visit's frames
 * @param {Record<string, string>} step  the slider's name and value, and `seq`
 * @param {AbortSignal} signal
 * @param {(seconds: number) => void} [late]  hears how long this visit has to wait
 * @returns {Promise<"painted" | "refused" | "late" | "gone">}
 */
export async function liveFrame(line, step, signal, late) {
  const words = { ...step };
  // A view whose picture depends on more says so: which part of a long map is shown.
  window.dispatchEvent(new CustomEvent("tv-asking", { detail: words }));
  let answer;
  try {
    answer = await fetch(`${line}?${new URLSearchParams(words)}`, { signal, cache: "no-store" });
  } catch {
    return "gone";
  }
  if (answer.status === 404) return "gone";
  if (answer.status === TOO_MANY) {
    await toldToWait(answer, late);
    return "late";
  }
  if (answer.status !== 200) return "refused";
  const { arrays } = read(new Uint8Array(await answer.arrayBuffer()));
  for (const [part, { data }] of Object.entries(arrays)) {
    window.dispatchEvent(new CustomEvent("tv-frame", { detail: { part, data } }));
  }
  await new Promise((done) => afterPainting(() => done(null)));
  return "painted";
}
