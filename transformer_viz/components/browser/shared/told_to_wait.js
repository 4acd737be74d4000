// What a server answers to who asks too often: to come again, and when.

export const TOO_MANY = 429; // the status of an answer to who has asked too often
const LONGEST_WAIT = 30; // seconds

/**
 * Wait as long as an answer says that one should.
 * @param {Response} answer
 * @param {(seconds: number) => void} [late]  hears how long, before the waiting
 * @returns {Promise<void>}
 */
export function toldToWait(answer, late) {
  const said = Number(answer.headers.get("Retry-After")) || 1;
  const seconds = Math.min(said, LONGEST_WAIT);
  late?.(seconds);
  return new Promise((done) => setTimeout(done, 1000 * seconds));
}
