"""German endings by rule: articles, adjectives after them, nouns, pronouns."""

from __future__ import annotations

import re

from .nouns import Noun

CASES = ("nom", "acc", "dat")
#: Endings of ``der`` words and of adjectives after them (weak declension).
DEFINITE = {
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
}
THIS = {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em")}
#: Endings of ein, mein, unser, and of adjectives after them (mixed declension).
EIN = {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em")}
WEAK = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en")}
MIXED = {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en")}
PRONOUNS = {
    "m": ("er", "ihn", "ihm"),
    "f": ("sie", "sie", "ihr"),
    "n": ("es", "es", "ihm"),
}
#: English determiners and their German counterparts.
DETERMINERS = {
    "the": "der",
    "this": "dies",
    "a": "ein",
    "my": "mein",
    "our": "unser",
    "your": "dein",
}
CONTRACTED = {"in das": "ins", "in dem": "im", "an das": "ans", "an dem": "am"}


def article(determiner: str, gender: str, case: str) -> str:
    """Return the German determiner, such as ``einen``."""
    stem, place = DETERMINERS[determiner], CASES.index(case)
    if stem == "der":
        return DEFINITE[gender][place]
    return stem + (THIS if stem == "dies" else EIN)[gender][place]


def adjective(stem: str, determiner: str, gender: str, case: str) -> str:
    """Return an adjective after that determiner, such as ``roten``."""
    endings = WEAK if determiner in ("the", "this") else MIXED
    return stem + endings[gender][CASES.index(case)]


def phrase(noun: Noun, determiner: str, case: str, colour: str = "") -> str:
    """Return determiner, adjective (stem in ``colour``) and noun in a case: ``den alten Bären``."""
    words = [article(determiner, noun.gender, case)]
    if colour:
        words.append(adjective(colour, determiner, noun.gender, case))
    return " ".join([*words, noun.german if case == "nom" else noun.oblique])


def pronoun(noun: Noun, case: str = "nom") -> str:
    """Return the personal pronoun of a noun: er, sie, es."""
    return PRONOUNS[noun.gender][CASES.index(case)]


def english_phrase(noun: Noun, determiner: str, colour: str = "") -> str:
    """Return the English noun phrase, with ``an`` before a vowel."""
    words = f"{colour} {noun.english}".strip()
    if determiner == "a" and words[0] in "aeiou":
        determiner = "an"
    return f"{determiner} {words}"


def contract(text: str) -> str:
    """Contract ``in dem`` to ``im`` and the like, where no noun phrase is stressed."""
    return re.sub(r"\b(in|an) (das|dem)\b", lambda found: CONTRACTED[found[0]], text)


def sentence(text: str) -> str:
    """Return a text with its first letter capitalised."""
    return text[:1].upper() + text[1:]
