// Why a text of a search won or lost, in sentences whose numbers stand in the data.

import { CUT, ENDED, KEPT, LEFT_OUT, logWords } from "./search.js";
import { tell } from "../shared/i18n.js";

/**
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one  the last token of a text
 * @returns {string[]}
 */
export function fateWords(search, one) {
  const { way } = search.data, cut = search.fates[one] === CUT;
  const words = way === "beam" ? beamWords(search, one) : aloneWords(search, one);
  return cut ? [...words, tell("It did not end by itself: it is as long as a text may get here, {count} tokens.",
    { count: search.steps[one] + 1 })] : words;
}

/**
 * How a text came about that nothing competed with.
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one
 */
function aloneWords(search, one) {
  const { data } = search, line = search.line(one), { ranks } = data.arrays;
  const total = logWords(search.totals[one]);
  if (data.way === "greedy") {
    return [tell("Greedy: at each step the most probable token was taken, and nothing else was tried."),
      tell("Log-probability of the whole text: {total}.", { total })];
  }
  const first = line.filter((at) => ranks.data[at] === 1).length;
  return [tell("Every token was drawn by chance. {first} of {count} were the model's first choice.",
    { first, count: line.length }),
  tell("Log-probability of the whole text under the model itself: {total}.", { total })];
}

/**
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one
 */
function beamWords(search, one) {
  const fate = search.fates[one];
  if (fate === LEFT_OUT) return [leftWords(search, one)];
  if (fate === KEPT) return deadWords(search, one);
  return endedWords(search, one);
}

/**
 * A text that ended: it won, or it lost by its score.
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one
 */
function endedWords(search, one) {
  const { best, penalty } = search.data, length = search.steps[one] + 1;
  const norm = ((5 + length) / 6) ** penalty, place = best.indexOf(one), winner = best[0];
  const sum = tell("Its score is {score}: log-probability {total} divided by {norm}, the length norm ((5 + {length}) / 6){power}.", {
    score: logWords(search.scores[one], 3), total: logWords(search.totals[one]),
    norm: norm.toFixed(3), length, power: penalty === 1 ? "" : `^${penalty}`,
  });
  if (place === 0) {
    if (best.length === 1) return [tell("It won: no other text was kept."), sum];
    return [tell("It won: of {count} texts that ended, its score is the highest.", { count: best.length }),
      sum, tell("The next one has {score}.", { score: logWords(search.scores[best[1]], 3) })];
  }
  const words = [tell("It ended, at place {place} of {count}: the winner's score is {best}.",
    { place: place + 1, count: best.length, best: logWords(search.scores[winner], 3) }), sum];
  if (search.totals[one] <= search.totals[winner]) return words;
  return [...words, tell("Its log-probability is higher than the winner's {total}, but it is shorter: by the length norm the longer text wins.",
    { total: logWords(search.totals[winner]) })];
}

/**
 * A text that was not kept: how it stood among those of its step.
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one
 */
function leftWords(search, one) {
  const step = search.steps[one], kept = search.kept(step), least = kept[kept.length - 1];
  return tell("Left out at token {step}: its log-probability {total} stood at place {place} of {count}, and {free} were kept, the last one with {least}.", {
    step: step + 1, total: logWords(search.totals[one]), place: search.placeOf(one) + 1,
    count: search.columns[step].length, free: kept.length, least: logWords(search.totals[least]),
  });
}

/**
 * A text that was kept, and nothing that came of it.
 * @param {import("./search.js").PlaySearch} search
 * @param {number} one
 */
function deadWords(search, one) {
  const next = search.children[one][0];
  const kept = tell("It was kept up to token {step}; nothing that goes on from it was kept.",
    { step: search.steps[one] + 1 });
  if (next === undefined) return [kept];
  return [kept, tell("Its best continuation is “{word}”.", { word: search.name(next) }), leftWords(search, next)];
}

/**
 * What became of a candidate, in a word.
 * @param {number} fate
 */
export function fateName(fate) {
  if (fate === KEPT) return tell("kept");
  if (fate === ENDED) return tell("ended");
  return fate === CUT ? tell("cut off") : tell("left out");
}
