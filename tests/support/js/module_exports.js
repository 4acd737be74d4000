/**
 * What each module exports.
 * @param {string[]} names  paths below the server's root
 */
export default async (names) => Object.fromEntries(await Promise.all(
  names.map(async (name) => [name, Object.keys(await import("/" + name))])));
