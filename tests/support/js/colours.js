/**
 * How many colours stand on a canvas.
 * @param {HTMLCanvasElement} canvas
 */
export default (canvas) => {
  const pixels = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels?.buffer ?? new ArrayBuffer(0))).size;
};
