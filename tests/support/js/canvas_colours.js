/**
 * The colours [red, green, blue, alpha] of a canvas at points, in CSS pixels from its corner.
 * @param {HTMLCanvasElement} canvas
 * @param {[x: number, y: number][]} points
 */
export default (canvas, points) => points.map(([x, y]) => {
  const place = [x, y].map((length) => Math.floor(length * devicePixelRatio));
  return [...canvas.getContext("2d")?.getImageData(place[0], place[1], 1, 1).data ?? []];
});
