/**
 * What each module of a joined script holds: names, and the types of their values.
 * @param {[body: string, held: string[]]} script
 */
export default ([body, held]) => {
  const listed = held.map((name) =>
    `${name}: Object.entries(${name}).map(([name, value]) => [name, typeof value])`);
  return new Function(`${body}\nreturn {${listed.join(", ")}};`)();
};
