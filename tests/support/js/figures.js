/**
 * Numbers as the pictures write them, and what has no end or is none.
 * @param {number[]} values
 */
export default async (values) => {
  const { figure } = await import(`${location.origin}/shared/number_format.js`);
  return [...values, -Infinity, Infinity, NaN].map((value) => figure(value));
};
