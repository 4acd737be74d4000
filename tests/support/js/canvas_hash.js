/**
 * The pixels of a canvas as one number.
 * @param {HTMLCanvasElement} canvas
 */
export default (canvas) => {
  const pixels = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height);
  return new Uint32Array(pixels?.data.buffer ?? [])
    .reduce((all, one) => Math.imul(all ^ one, 16777619), 0);
};
