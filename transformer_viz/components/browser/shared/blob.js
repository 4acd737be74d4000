// The bytes that Python's blob.py packs, read: a header of words, and its arrays.

const BLOB_MAGIC = 0x31425654;

/** @typedef {Uint8Array | Uint16Array | Int16Array | Int32Array | Float32Array} Numbers */
/** @typedef {{shape: number[], data: any}} Block  an array: its axes, and its numbers in a row */

const KINDS = {
  uint8: Uint8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array,
  float32: Float32Array,
};

/**
 * A blob as its header's words, with every array under `arrays`.
 * @param {Uint8Array} bytes
 * @returns {any}
 */
export function read(bytes) {
  if (!(bytes instanceof Uint8Array)) throw new Error("expected bytes, got " + typeof bytes);
  const numbers = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (numbers.getUint32(0, true) !== BLOB_MAGIC) throw new Error("these bytes are no picture");
  const length = numbers.getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const start = Math.ceil((8 + length) / 8) * 8;
  /** @type {Record<string, Block>} */
  const arrays = {};
  for (const [name, { dtype, shape, offset }] of Object.entries(header.arrays)) {
    const Kind = KINDS[/** @type {keyof KINDS} */ (dtype)];
    const size = shape.reduce((/** @type {number} */ all, /** @type {number} */ n) => all * n, 1);
    // A copy: it is aligned, and the rest of the message can go.
    const raw = bytes.slice(start + offset, start + offset + size * Kind.BYTES_PER_ELEMENT);
    arrays[name] = { shape, data: new Kind(raw.buffer) };
  }
  return { ...header, arrays };
}
