"""Pairs of two sentences about one thing: "I bought a lamp. It is red."."""

from __future__ import annotations

import numpy as np

from .inflection import DETERMINERS, contract, english_phrase, phrase, pronoun, sentence
from .nouns import EVERY_SINGLE, NOUNS, Noun

THINGS = (
    ("expensive", "teuer"), ("cheap", "billig"), ("new", "neu"), ("old", "alt"),
    ("beautiful", "schön"), ("broken", "kaputt"), ("heavy", "schwer"), ("light", "leicht"),
    ("red", "rot"), ("blue", "blau"), ("green", "grün"), ("black", "schwarz"),
    ("white", "weiß"), ("yellow", "gelb"), ("big", "groß"), ("small", "klein"),
    ("dirty", "schmutzig"), ("clean", "sauber"), ("ugly", "hässlich"), ("useful", "nützlich"),
    ("very old", "sehr alt"), ("very nice", "sehr schön"), ("too expensive", "zu teuer"),
    ("too small", "zu klein"), ("almost new", "fast neu"), ("still new", "noch neu"),
    ("too heavy", "zu schwer"), ("quite cheap", "ziemlich billig"), ("useless", "nutzlos"),
)  # fmt: skip
ANIMALS = (
    ("hungry", "hungrig"), ("tired", "müde"), ("very old", "sehr alt"), ("white", "weiß"),
    ("brown", "braun"), ("black", "schwarz"), ("sick", "krank"), ("small", "klein"),
    ("very big", "sehr groß"), ("young", "jung"), ("afraid", "ängstlich"), ("clever", "klug"),
    ("alone", "allein"), ("dangerous", "gefährlich"), ("hurt", "verletzt"), ("wild", "wild"),
)  # fmt: skip
FOODS = (
    ("delicious", "lecker"), ("cold", "kalt"), ("hot", "heiß"), ("too salty", "zu salzig"),
    ("sour", "sauer"), ("sweet", "süß"), ("fresh", "frisch"), ("very good", "sehr gut"),
    ("still warm", "noch warm"), ("burnt", "verbrannt"), ("very expensive", "sehr teuer"),
)  # fmt: skip
PLACES = (
    ("old", "alt"), ("very big", "sehr groß"), ("empty", "leer"), ("dark", "dunkel"),
    ("beautiful", "schön"), ("closed", "geschlossen"), ("full", "voll"), ("new", "neu"),
    ("far away", "weit weg"), ("cold", "kalt"), ("famous", "berühmt"), ("quiet", "ruhig"),
)  # fmt: skip
#: English and German; ``a.acc`` is the noun after that determiner in that case, ``ER``/``er`` its
#: pronoun, ``ihn`` and ``ihm`` the same in accusative and dative, ``P`` the predicate.
THING_LINES = """
I bought {a}. It is {P}.|Ich habe {a.acc} gekauft. {ER} ist {P}.
Yesterday I bought {a}. It was {P}.|Gestern kaufte ich {a.acc}. {ER} war {P}.
She bought {a}. It is {P}.|Sie kaufte {a.acc}. {ER} ist {P}.
We sold {the}. It was {P}.|Wir haben {the.acc} verkauft. {ER} war {P}.
I have {a}. It is {P}.|Ich habe {a.acc}. {ER} ist {P}.
We need {a}. It must not be {P}.|Wir brauchen {a.acc}. {ER} darf nicht {P} sein.
Where is {the}? It is on the floor.|Wo ist {the.nom}? {ER} ist auf dem Boden.
Where is {my}? It is not here.|Wo ist {my.nom}? {ER} ist nicht hier.
Where did you find {the}? It was here.|Wo hast du {the.acc} gefunden? {ER} war hier.
I have lost {my}. It was {P}.|Ich habe {my.acc} verloren. {ER} war {P}.
I lost {my}, but I found it again.|Ich habe {my.acc} verloren, aber ich habe {ihn} wiedergefunden.
Take {the}. You will need it.|Nimm {the.acc}. Du wirst {ihn} brauchen.
This is {my}. I bought it yesterday.|Das ist {my.nom}. Ich habe {ihn} gestern gekauft.
{The} is broken. Can you repair it?|{The.nom} ist kaputt. Kannst du {ihn} reparieren?
I can't find {the}. Did you take it?|Ich kann {the.acc} nicht finden. Hast du {ihn} genommen?
He has {a}. He doesn't use it any more.|Er hat {a.acc}. Er benutzt {ihn} nicht mehr.
We have {a}. It works very well.|Wir haben {a.acc}. {ER} funktioniert sehr gut.
Don't forget {the}! It is {P}.|Vergiss {the.acc} nicht! {ER} ist {P}.
Is that {your}? No, it belongs to my brother.|Ist das {your.nom}? Nein, {er} gehört meinem Bruder.
Whose {n} is this? It belongs to my sister.|Wem gehört {this.nom}? {ER} gehört meiner Schwester.
{My} is {P}, but I like it.|{My.nom} ist {P}, aber ich mag {ihn}.
{The} is {P}, but it still works.|{The.nom} ist {P}, aber {er} funktioniert noch.
I didn't buy {the} because it was {P}.|Ich habe {the.acc} nicht gekauft, weil {er} {P} war.
I like {this} because it is {P}.|Ich mag {this.acc}, weil {er} {P} ist.
We gave {the} away because it was {P}.|Wir haben {the.acc} weggegeben, weil {er} {P} war.
Give me {the}! It is mine.|Gib mir {the.acc}! {ER} gehört mir.
"""
ANIMAL_LINES = """
I saw {a}. It was {P}.|Ich habe {a.acc} gesehen. {ER} war {P}.
We found {a}. It was {P}.|Wir haben {a.acc} gefunden. {ER} war {P}.
They have {a}. It is {P}.|Sie haben {a.acc}. {ER} ist {P}.
Don't disturb {the}! It is sleeping.|Stör {the.acc} nicht! {ER} schläft.
Be careful of {the}. It is {P}.|Nimm dich vor {the.dat} in Acht. {ER} ist {P}.
{The} didn't come because it was {P}.|{The.nom} kam nicht, weil {er} {P} war.
Where is {the}? It is in the barn.|Wo ist {the.nom}? {ER} ist in der Scheune.
He bought {a} and gave it a name.|Er kaufte {a.acc} und gab {ihm} einen Namen.
"""
FOOD_LINES = """
I ate {the}. It was {P}.|Ich habe {the.acc} gegessen. {ER} war {P}.
I tried {the}. It was {P}.|Ich habe {the.acc} probiert. {ER} war {P}.
How was {the}? It was {P}.|Wie war {the.nom}? {ER} war {P}.
Do you like {the}? No, it is {P}.|Magst du {the.acc}? Nein, {er} ist {P}.
{The} is {P}. Who bought it?|{The.nom} ist {P}. Wer hat {ihn} gekauft?
He ordered {the}, but it was {P}.|Er bestellte {the.acc}, aber {er} war {P}.
"""
PLACE_LINES = """
We visited {the}. It was {P}.|Wir haben {the.acc} besucht. {ER} war {P}.
Do you know {the}? It is {P}.|Kennst du {the.acc}? {ER} ist {P}.
I like {this}. It is {P}.|Ich mag {this.acc}. {ER} ist {P}.
They are looking at {the}. It is {P}.|Sie sehen sich {the.acc} an. {ER} ist {P}.
{The} was {P}, so we left it.|{The.nom} war {P}, also verließen wir {ihn}.
"""
KINDS = (
    (EVERY_SINGLE, THING_LINES, THINGS),
    (EVERY_SINGLE, THING_LINES, THINGS),
    (EVERY_SINGLE, THING_LINES, THINGS),
    (NOUNS["animal"], ANIMAL_LINES, ANIMALS),
    ((*NOUNS["food"], *NOUNS["drink"]), FOOD_LINES, FOODS),
    (NOUNS["building"], PLACE_LINES, PLACES),
)


def fill(line: str, noun: Noun, said: tuple[str, str]) -> tuple[str, str]:
    """Return both sides of a line with a noun and its predicate filled in."""
    english, german = line.split("|")
    words = {"P": said[0], "n": noun.english}
    there = {"P": said[1], "ER": sentence(pronoun(noun)), "er": pronoun(noun)}
    there |= {"ihn": pronoun(noun, "acc"), "ihm": pronoun(noun, "dat")}
    for determiner in DETERMINERS:
        words[determiner] = english_phrase(noun, determiner)
        words[determiner.title()] = sentence(words[determiner])
        for case in ("nom", "acc", "dat"):
            there[f"{determiner}.{case}"] = phrase(noun, determiner, case)
            there[f"{determiner.title()}.{case}"] = sentence(phrase(noun, determiner, case))
    return _put(english, words), contract(_put(german, there))


def _put(line: str, words: dict[str, str]) -> str:
    for name, word in words.items():
        line = line.replace("{" + name + "}", word)
    return line


def single(random: np.random.Generator) -> tuple[str, str]:
    """Return a random pair of two sentences about one noun."""
    nouns, lines, predicates = KINDS[random.integers(len(KINDS))]
    choice = lines.strip().splitlines()
    line = choice[random.integers(len(choice))]
    noun = nouns[random.integers(len(nouns))]
    return fill(line, noun, predicates[random.integers(len(predicates))])
