/**
 * Give the panel a live frame, as a slider's step would.
 * @param {number} seq
 */
export default (seq) => dispatchEvent(new CustomEvent("tv-frame", {
  detail: { part: "outcome", data: { part: "outcome", seq, html: `<p>live ${seq}</p>` } },
}));
