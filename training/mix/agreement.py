"""Sentence pairs with pronoun agreement: the noun decides between er, sie and es.

Each holds two nouns of different gender and a reason that fits only one of them, or a single noun
that a second sentence refers to. The German side follows by rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .frames import FRAMES, WHOLE, Frame, Reason
from .inflection import contract, english_phrase, phrase, pronoun, sentence
from .nouns import NOUNS, Noun
from .single import single

Random = np.random.Generator
TWO_NOUNS = 0.78  # share of the pairs; the others refer to a single noun
COLOURS = (
    ("red", "rot"), ("blue", "blau"), ("green", "grün"), ("black", "schwarz"),
    ("white", "weiß"), ("brown", "braun"), ("old", "alt"), ("new", "neu"), ("yellow", "gelb"),
    ("beautiful", "schön"), ("grey", "grau"),
)  # fmt: skip
PLAIN = {"food", "drink", "room", "water"}  # groups whose nouns take no colour
#: English subject, German subject, plural of the German verb, first person.
PERSONS = (
    ("I", "ich", False, True), ("we", "wir", True, False), ("they", "sie", True, False),
    ("she", "sie", False, False), ("he", "er", False, False), ("Tom", "Tom", False, False),
    ("Mary", "Maria", False, False), ("my father", "mein Vater", False, False),
    ("my sister", "meine Schwester", False, False), ("the woman", "die Frau", False, False),
    ("the children", "die Kinder", True, False), ("the man", "der Mann", False, False),
)  # fmt: skip
STRONG = (("too", "zu"), ("too", "zu"), ("too", "zu"), ("too", "zu"), ("too", "zu"))
DEGREES = {
    "-": (*STRONG, ("much too", "viel zu"), ("very", "sehr"), ("so", "so"), ("", ""),
          ("far too", "viel zu"), ("still too", "noch zu"), ("a bit too", "ein bisschen zu")),
    "+": (("", ""), ("very", "sehr"), ("so", "so"), ("really", "wirklich"), ("", "")),
}  # fmt: skip
UNGRADED = (("", ""), ("", ""), ("", ""), ("really", "wirklich"), ("still", "noch"))


@dataclass(frozen=True)
class Deed:
    """Action of two nouns: their words, its subject, and its tense and mood."""

    frame: Frame
    nouns: dict[str, Noun]
    determiners: dict[str, str]
    colours: dict[str, tuple[str, str]]
    person: tuple[str, str, bool, bool]
    negative: bool
    tense: str  # "past" or "present"
    modal: str  # "", "can", "want"
    perfect: bool

    def english_noun(self, which: str) -> str:
        colour = self.colours[which][0]
        return english_phrase(self.nouns[which], self.determiners[which], colour)

    def german_noun(self, which: str, case: str) -> str:
        colour = self.colours[which][1]
        return phrase(self.nouns[which], self.determiners[which], case, colour)

    def subject(self) -> tuple[str, str]:
        if self.frame.person:
            return self.person[0], self.person[1]
        return self.english_noun("a"), self.german_noun("a", "nom")

    def english_verb(self, base: bool = False, pronouns: str = "") -> str:
        """Return the predicate.

        Args:
            base: True for the bare verb.
            pronouns: Names of nouns to replace by ``it``.
        """
        bare, past = self.frame.english
        words = bare if base or self.negative or self.modal else past
        said = " ".join(self._english(word, pronouns) for word in words.split(" "))
        return said if base else f"{self._auxiliary()}{said}"

    def _english(self, word: str, pronouns: str) -> str:
        if word not in self.nouns or (word == "a" and not self.frame.person):
            return word
        return "it" if word in pronouns else self.english_noun(word)

    def _auxiliary(self) -> str:
        many = self.frame.person and (self.person[2] or self.person[3])
        now = self.tense == "present"
        if self.modal == "can":
            return "can't " if now else "couldn't "
        if not self.negative:
            return "wanted to " if self.modal else ""
        do = ("don't " if many else "doesn't ") if now else "didn't "
        return do + ("want to " if self.modal else "")

    def complement(self, nots: bool, pronouns: str = "") -> str:
        """Return objects and ``nicht`` in German."""
        words = []
        for word in self.frame.complement.split(" "):
            which, _, case = word.partition(":")
            if not case:
                words.append(word if nots or word != "nicht" else "")
            elif which in pronouns:
                words.append(pronoun(self.nouns[which], case))
            else:
                words.append(self.german_noun(which, case))
        if "sich" in words and self.frame.person and self.person[3]:
            words[words.index("sich")] = "mich"
        return " ".join(word for word in words if word)

    def finite(self) -> tuple[str, str]:
        """Return the finite German verb and the words at the clause's end."""
        plural, first = (self.person[2:]) if self.frame.person else (False, False)
        if self.modal:
            stem = {"can": ("konnte", "kann"), "want": ("wollte", "will")}[self.modal]
            past, now = stem
            if plural:
                past, now = past + "n", {"kann": "können", "will": "wollen"}[now]
            return (past if self.tense == "past" else now), self.frame.infinitive
        if self.perfect:
            return self._have(plural, first), self.frame.participle
        verb = self.frame.preterite
        if plural:
            verb += "n" if verb.endswith("e") else "en"
        return verb, ""

    def _have(self, plural: bool, first: bool) -> str:
        if self.frame.auxiliary == "hat":
            return "haben" if plural else "habe" if first else "hat"
        return "sind" if plural else "bin" if first else "ist"

    def main(self) -> tuple[str, str]:
        """Return the action as a main clause in both languages."""
        english, german = self.subject()
        verb, last = self.finite()
        said = join(german, verb, self.complement(self.negative), last)
        return f"{english} {self.english_verb()}", said

    def inverted(self, subject: str, pronouns: str = "") -> str:
        """Return the clause with verb before subject, as after ``deshalb`` or a clause."""
        verb, last = self.finite()
        return join(verb, subject, self.complement(self.negative, pronouns), last)

    def subordinate(self, subject: str, pronouns: str = "") -> str:
        """Return the clause with the verb last, as after ``dass``."""
        verb, last = self.finite()
        return join(subject, self.complement(self.negative, pronouns), last, verb)


def join(*words: str) -> str:
    return " ".join(word for word in words if word)


def deed(random: Random) -> Deed:
    """Return a random frame with two nouns of different gender, tense and mood."""
    frame = FRAMES[random.integers(len(FRAMES))]
    groups = {"a": frame.a, "b": frame.b}
    while True:
        nouns = {w: NOUNS[g][random.integers(len(NOUNS[g]))] for w, g in groups.items()}
        a, b = nouns.values()
        if a.gender != b.gender and a.english != b.english:
            break
    determiners = {w: str(random.choice(["the"] * 7 + ["my", "this", "our"])) for w in nouns}
    colours = {
        w: COLOURS[random.integers(len(COLOURS))]
        if groups[w] not in PLAIN and random.random() < 0.12
        else ("", "")
        for w in nouns
    }
    negative = bool(random.random() < 0.75)
    lively = frame.person or frame.a == "animal"
    modal = str(random.choice(["", "", "can", *(["want"] if lively else [])])) if negative else ""
    tense = "present" if modal and random.random() < 0.4 else "past"
    person = PERSONS[random.integers(len(PERSONS))]
    perfect = bool(random.random() < 0.35)
    return Deed(frame, nouns, determiners, colours, person, negative, tense, modal, perfect)


def predicate(said: Deed, which: str, random: Random) -> Reason:
    """Return a reason about noun ``which`` in both languages: ``too tired``, ``zu müde``."""
    sign = "-" if said.negative else "+"
    reasons = said.frame.reasons[sign + which]
    colour = said.colours[which][0]
    english, german = reasons[random.integers(len(reasons))]
    while english == colour and len(reasons) > 1:
        english, german = reasons[random.integers(len(reasons))]
    degrees = UNGRADED if english in WHOLE else DEGREES[sign]
    degree = degrees[random.integers(len(degrees))]
    return join(degree[0], english), join(degree[1], german)


def because(said: Deed, which: str, why: Reason, random: Random) -> tuple[str, str]:
    english, german = said.main()
    be, ist = ("was", "war") if said.tense == "past" else ("is", "ist")
    er = pronoun(said.nouns[which])
    word = "because" if random.random() < 0.85 else "since"
    told = f"{german}, {'weil' if word == 'because' else 'da'} {er} {why[1]} {ist}"
    if word == "because" and random.random() < 0.08:
        told = f"{german}, denn {er} {ist} {why[1]}"
    return f"{english} {word} it {be} {why[0]}.", f"{told}."


def two_sentences(said: Deed, which: str, why: Reason, random: Random) -> tuple[str, str]:
    english, german = said.main()
    be, ist = ("was", "war") if said.tense == "past" else ("is", "ist")
    er = sentence(pronoun(said.nouns[which]))
    return f"{english}. It {be} {why[0]}.", f"{german}. {er} {ist} {why[1]}."


def but(said: Deed, which: str, why: Reason, random: Random) -> tuple[str, str]:
    """Return ``wanted to ..., but it was ...``; subjects without a will use because."""
    if not said.negative or not (said.frame.person or said.frame.a == "animal"):
        return because(said, which, why, random)
    english, german = said.subject()
    plural = said.frame.person and said.person[2]
    wish = join(german, "wollten" if plural else "wollte", said.complement(False))
    er = pronoun(said.nouns[which])
    return (
        f"{english} wanted to {said.english_verb(base=True)}, but it was {why[0]}.",
        f"{wish} {said.frame.infinitive}, aber {er} war {why[1]}.",
    )


def question(said: Deed, which: str, why: Reason, random: Random) -> tuple[str, str]:
    if not said.negative or said.modal or said.frame.person:
        return two_sentences(said, which, why, random)
    english, german = said.subject()
    er = pronoun(said.nouns[which])
    return (
        f"Why didn't {english} {said.english_verb(base=True)}? Because it was {why[0]}.",
        f"Warum {said.inverted(german)}? Weil {er} {why[1]} war.",
    )


def front(said: Deed, which: str, why: Reason, random: Random) -> tuple[str, str]:
    english, german = said.subject()
    be, ist = ("was", "war") if said.tense == "past" else ("is", "ist")
    er = pronoun(said.nouns[which])
    return (
        f"Because it {be} {why[0]}, {english} {said.english_verb()}.",
        f"Weil {er} {why[1]} {ist}, {said.inverted(german)}.",
    )


def so(said: Deed, which: str, why: Reason, random: Random) -> tuple[str, str]:
    """Return ``The dog was tired, so it ...``, ``... so wide that the dog couldn't cross it``."""
    if said.frame.person or not said.negative:
        return two_sentences(said, which, why, random)
    be, ist = ("was", "war") if said.tense == "past" else ("is", "ist")
    noun, its = said.english_noun(which), said.german_noun(which, "nom")
    if which == "a":
        er, it = pronoun(said.nouns["a"]), "it"
        return (
            f"{noun} {be} {why[0]}, so {it} {said.english_verb()}.",
            f"{its} {ist} {why[1]}, deshalb {said.inverted(er)}.",
        )
    if not said.frame.complement.startswith("b:"):  # "into it" is no pronoun in German
        return because(said, which, why, random)
    english, german = said.subject()
    plain = said.frame.reasons["-b"][random.integers(len(said.frame.reasons["-b"]))]
    return (
        f"{noun} {be} so {plain[0]} that {english} {said.english_verb(pronouns='b')}.",
        f"{its} {ist} so {plain[1]}, dass {said.subordinate(german, pronouns='b')}.",
    )


WAYS = (*[because] * 9, *[two_sentences] * 6, *[but] * 3, question, front, *[so] * 3)


def two_nouns(random: Random) -> tuple[str, str]:
    """Return a pair in which a reason identifies one of two nouns."""
    said = deed(random)
    which = "ab"[random.integers(2)]
    why = predicate(said, which, random)
    way = WAYS[random.integers(len(WAYS))]
    english, german = way(said, which, why, random)
    return capitals(english), capitals(contract(german))


def capitals(text: str) -> str:
    """Capitalise the beginning of each sentence."""
    parts = text.replace("? ", "?\n").replace(". ", ".\n").split("\n")
    return " ".join(sentence(part) for part in parts)


def agreement_pair(random: Random) -> tuple[str, str]:
    """Return a generated pair: two nouns and a reason, or a single noun with a second sentence."""
    return two_nouns(random) if random.random() < TWO_NOUNS else single(random)
