// Rows of an attention map from queries, keys and the logarithm of each row's denominator: what
// core/tiles/parts.py computes in Python, in numbers of the same precision (float64).

/**
 * What the rows and one head of a map are computed from; see `Part` in core/tiles/parts.py.
 * @typedef {{q: Float32Array, k: Float32Array, width: number, rows: number, keys: number,
 *   logSum: Float64Array, scale: number, sharpness: number, gain: number, firstRow: number,
 *   cap?: number | null, edges?: Int32Array | null, ends?: Int32Array | null,
 *   bias?: Float32Array | null, biasKind?: string, queries?: number,
 *   blank?: Float32Array | null, only?: Int32Array | null}} Factors
 */

export const STRIP = 4; // rows that are computed together: each key is read once for all of them

export class ScorePart {
  /** @param {Factors} factors */
  constructor(factors) {
    this.factors = factors;
    this.queries = new Float64Array(STRIP * factors.width); // of the strip, scaled
    this.plain = factors.cap == null && !factors.bias; // then one product is all there is
  }

  /** Whether a larger exponent is a larger weight in every row. */
  get keepsOrder() {
    const { blank, only, gain } = this.factors;
    return !blank && !only && gain >= 0;
  }

  /**
   * The logarithms of the weights of up to four rows: -Infinity where a key is hidden.
   * @param {number} first  a row of this part
   * @param {number} count
   * @param {[number, number]} columns  keys from and up to
   * @param {Float64Array} out  room for four rows, each as long as there are columns
   */
  exponents(first, count, columns, out) {
    const wide = columns[1] - columns[0];
    out.fill(-Infinity, 0, count * wide);
    const [low, high] = this.reach(first, count, columns);
    if (low >= high) return;
    this.take(first, count);
    this.multiply(low, high, columns[0], wide, out);
    for (let n = 0; n < count; n++) {
      this.shape(first + n, low, high, out, n * wide - columns[0]);
      this.hide(first + n, low, high, out, n * wide - columns[0]);
    }
  }

  /**
   * The keys between the first and the last that any of some rows sees.
   * @param {number} first
   * @param {number} count
   * @param {[number, number]} columns
   */
  reach(first, count, [from, to]) {
    const { edges, ends, keys } = this.factors;
    const stop = Math.min(to, keys);
    if (!edges || !ends) return [from, stop];
    let low = stop, high = from;
    for (let row = first; row < first + count; row++) {
      const begin = row ? ends[row - 1] : 0, end = ends[row];
      if (begin === end) continue;
      low = Math.min(low, edges[begin]);
      high = Math.max(high, (end - begin) % 2 ? stop : edges[end - 1]);
    }
    return [Math.max(from, low), Math.min(stop, high)];
  }

  /**
   * The queries of a strip, their numbers beside each other, with every factor that can be taken
   * before the product.
   * @param {number} first
   * @param {number} count
   */
  take(first, count) {
    const { q, width, scale, sharpness } = this.factors, { queries } = this;
    const by = this.plain ? scale * sharpness : scale;
    for (let row = 0; row < STRIP; row++) {
      const from = (first + row) * width;
      for (let n = 0; n < width; n++) queries[STRIP * n + row] = row < count ? q[from + n] * by : 0;
    }
  }

  /**
   * Queries times keys, eight products in a pass: so each number is read the fewest times.
   * @param {number} low
   * @param {number} high
   * @param {number} start  the key that the first number of a row is of
   * @param {number} wide
   * @param {Float64Array} out
   */
  multiply(low, high, start, wide, out) {
    const { k, width } = this.factors, { queries } = this;
    for (let key = low; key < high; key += 2) {
      const next = Math.min(key + 1, high - 1); // of an odd count the last one twice
      let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
      for (let n = 0, x = key * width, y = next * width, at = 0; n < width; n++, x++, y++, at += 4) {
        const one = k[x], other = k[y];
        const q0 = queries[at], q1 = queries[at + 1], q2 = queries[at + 2], q3 = queries[at + 3];
        a += q0 * one;
        b += q1 * one;
        c += q2 * one;
        d += q3 * one;
        e += q0 * other;
        f += q1 * other;
        g += q2 * other;
        h += q3 * other;
      }
      const to = key - start, also = next - start;
      out[to] = a;
      out[to + wide] = b;
      out[to + 2 * wide] = c;
      out[to + 3 * wide] = d;
      out[also] = e;
      out[also + wide] = f;
      out[also + 2 * wide] = g;
      out[also + 3 * wide] = h;
    }
  }

  /**
   * Cap, bias and temperature of one row, and its denominator.
   * @param {number} row
   * @param {number} low
   * @param {number} high
   * @param {Float64Array} out
   * @param {number} at  where key 0 of the row would stand
   */
  shape(row, low, high, out, at) {
    const { cap, bias, biasKind, queries = 0, sharpness, logSum } = this.factors;
    const less = logSum[row];
    if (this.plain) {
      for (let key = low; key < high; key++) out[at + key] -= less;
      return;
    }
    const shift = biasKind === "distance" ? queries - 1 - row : 0;
    for (let key = low; key < high; key++) {
      let score = out[at + key];
      if (cap != null) score = cap * Math.tanh(score / cap);
      if (bias) score += bias[key + shift];
      out[at + key] = score * sharpness - less;
    }
  }

  /**
   * Put -Infinity at the keys that a row may not look at.
   * @param {number} row
   * @param {number} low
   * @param {number} high
   * @param {Float64Array} out
   * @param {number} at
   */
  hide(row, low, high, out, at) {
    const { edges, ends } = this.factors;
    if (!edges || !ends) return;
    let shut = low; // from here on nothing is seen, up to the next edge
    for (let edge = row ? ends[row - 1] : 0; edge < ends[row] && shut < high; edge += 2) {
      const opens = Math.min(high, edges[edge]);
      if (opens > shut) out.fill(-Infinity, at + shut, at + opens);
      shut = Math.max(shut, edge + 1 < ends[row] ? edges[edge + 1] : high);
    }
    if (shut < high) out.fill(-Infinity, at + shut, at + high);
  }

  /**
   * The weight of an exponent.
   * @param {number} exponent
   * @param {number} row  of this part
   * @param {number} key
   */
  weight(exponent, row, key) {
    const { blank, only, gain } = this.factors;
    // Only hidden cells could lie above 0.
    let weight = exponent === -Infinity ? 0 : Math.exp(Math.min(exponent, 0));
    if (blank) weight += blank[row];
    if (only && only[row] >= 0) weight = only[row] === key ? 1 : 0;
    return weight * gain;
  }
}
