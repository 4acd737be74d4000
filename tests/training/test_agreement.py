"""Generated pairs: German endings as a grammar gives them, and what the test holds stays out."""

from __future__ import annotations

import csv
import re
from collections import Counter

import numpy as np
import pytest

from tests.support.paths import ROOT
from training.mix.agreement import Deed, agreement_pair, because, but, so
from training.mix.frames import FRAMES
from training.mix.inflection import contract, english_phrase, phrase, pronoun
from training.mix.nouns import HELD_OUT, HELD_OUT_GERMAN, NOUNS, Noun, read
from training.mix.single import fill

BEAR = Noun("bear", "Bär", "m", "Bären")
LAMP = Noun("lamp", "Lampe", "f", "Lampe")
HOUSE = Noun("house", "Haus", "n", "Haus")
BRIDGE = Noun("bridge", "Brücke", "f", "Brücke")
NOBODY = ("I", "ich", False, True)
RANDOM = np.random.default_rng(0)
PAIRS = [agreement_pair(np.random.default_rng(seed)) for seed in range(4000)]


def test_nouns_and_pronouns_have_the_endings_of_their_case() -> None:
    cases = ("nom", "acc", "dat")
    for noun, determiner, colour, *wanted in (
        (BEAR, "the", "", "der Bär", "den Bären", "dem Bären"),
        (BEAR, "the", "alt", "der alte Bär", "den alten Bären", "dem alten Bären"),
        (BEAR, "my", "alt", "mein alter Bär", "meinen alten Bären", "meinem alten Bären"),
        (BEAR, "this", "", "dieser Bär", "diesen Bären", "diesem Bären"),
        (LAMP, "the", "rot", "die rote Lampe", "die rote Lampe", "der roten Lampe"),
        (LAMP, "our", "rot", "unsere rote Lampe", "unsere rote Lampe", "unserer roten Lampe"),
        (LAMP, "this", "", "diese Lampe", "diese Lampe", "dieser Lampe"),
        (HOUSE, "the", "neu", "das neue Haus", "das neue Haus", "dem neuen Haus"),
        (HOUSE, "a", "neu", "ein neues Haus", "ein neues Haus", "einem neuen Haus"),
        (HOUSE, "this", "", "dieses Haus", "dieses Haus", "diesem Haus"),
    ):
        assert [phrase(noun, determiner, case, colour) for case in cases] == wanted
    said = [[pronoun(noun, case) for case in cases] for noun in (BEAR, LAMP, HOUSE)]
    assert said == [["er", "ihn", "ihm"], ["sie", "sie", "ihr"], ["es", "es", "ihm"]]
    egg = Noun("egg", "Ei", "n", "Ei")
    assert english_phrase(egg, "a") == "an egg" and english_phrase(egg, "a", "red") == "a red egg"
    assert contract("in das Haus, in dem Haus, an dem Baum") == "ins Haus, im Haus, am Baum"
    assert contract("in diesem Haus") == "in diesem Haus"


def deed(name: str, a: Noun, b: Noun, **words: object) -> Deed:
    frame = next(frame for frame in FRAMES if frame.name == name)
    told: dict[str, object] = {
        "determiners": {"a": "the", "b": "the"},
        "colours": {"a": ("", ""), "b": ("", "")},
        "person": NOBODY, "negative": True, "tense": "past", "modal": "", "perfect": False,
    }  # fmt: skip
    return Deed(frame=frame, nouns={"a": a, "b": b}, **told | words)  # type: ignore[arg-type]


def test_the_noun_that_the_reason_fits_decides_the_pronoun() -> None:
    said = deed("cross", BEAR, BRIDGE)
    for which, english, german in (("a", "tired", "er zu müde"), ("b", "long", "sie zu lang")):
        why = (f"too {english}", german.partition(" ")[2])
        made = {because(said, which, why, np.random.default_rng(n)) for n in range(30)}
        assert (
            f"the bear didn't cross the bridge because it was too {english}.",
            f"der Bär überquerte die Brücke nicht, weil {german} war.",
        ) in made


def test_modal_perfect_and_person_are_inflected() -> None:
    can = deed("cross", BEAR, BRIDGE, modal="can", tense="present")
    assert can.main() == (
        "the bear can't cross the bridge", "der Bär kann die Brücke nicht überqueren",
    )  # fmt: skip
    done = deed("jump", BEAR, BRIDGE, perfect=True)
    assert done.main()[1] == "der Bär ist nicht über die Brücke gesprungen"
    we = deed("put", LAMP, HOUSE, person=("we", "wir", True, False))
    assert we.main() == (
        "we didn't put the lamp into the house", "wir legten die Lampe nicht in das Haus",
    )  # fmt: skip
    mine = deed("put", LAMP, HOUSE, perfect=True)
    assert mine.main()[1] == "ich habe die Lampe nicht in das Haus gelegt"
    want = deed("put", LAMP, HOUSE, person=("they", "sie", True, False), modal="want")
    assert want.main()[1] == "sie wollten die Lampe nicht in das Haus legen"


def test_but_so_and_a_second_sentence_say_the_pronoun_in_its_case() -> None:
    said = deed("cross", BEAR, BRIDGE)
    assert but(said, "b", ("too long", "zu lang"), RANDOM) == (
        "the bear wanted to cross the bridge, but it was too long.",
        "der Bär wollte die Brücke überqueren, aber sie war zu lang.",
    )
    assert so(said, "a", ("tired", "müde"), RANDOM) == (
        "the bear was tired, so it didn't cross the bridge.",
        "der Bär war müde, deshalb überquerte er die Brücke nicht.",
    )
    english, german = so(deed("cross", LAMP, BEAR), "b", ("", ""), RANDOM)
    assert english.endswith("that the lamp didn't cross it.")
    assert german.endswith("dass die Lampe ihn nicht überquerte.")
    line = "I bought {a}. It is {P}.|Ich habe {a.acc} gekauft. {ER} ist {P}."
    dear = ("expensive", "teuer")
    assert [fill(line, noun, dear) for noun in (BEAR, LAMP, HOUSE)] == [
        ("I bought a bear. It is expensive.", "Ich habe einen Bären gekauft. Er ist teuer."),
        ("I bought a lamp. It is expensive.", "Ich habe eine Lampe gekauft. Sie ist teuer."),
        ("I bought a house. It is expensive.", "Ich habe ein Haus gekauft. Es ist teuer."),
    ]


def test_there_are_many_frames_and_no_noun_of_the_test_is_said() -> None:
    assert len(FRAMES) >= 25
    several = sum(bool(re.search(r"[.!?] \w", english)) for english, _ in PAIRS)
    assert 0.28 < several / len(PAIRS) < 0.48  # two sentences
    words = Counter(word for _, german in PAIRS for word in re.findall(r"\w+", german.lower()))
    assert min(words["er"], words["sie"], words["es"]) > 800
    for english, german in PAIRS:
        assert not HELD_OUT & set(re.findall(r"\w+", english.lower())), english
        assert not HELD_OUT_GERMAN & set(re.findall(r"\w+", german)), german
    with pytest.raises(ValueError, match="belongs to the test"):
        read("dog Hund m")


def test_the_test_of_pronouns_shares_no_noun_and_no_deed_with_the_generator() -> None:
    """Check 60 pairs of English sentences; both sentences of a pair want different pronouns."""
    lines = (ROOT / "training" / "tables" / "pronouns.tsv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t"))
    generated = {noun.german for group in NOUNS.values() for noun in group}
    made = {english for english, _ in PAIRS}
    pairs: dict[str, list[str]] = {}
    for row in rows:
        main = row["german_up_to_pronoun"]
        assert HELD_OUT & set(re.findall(r"\w+", row["english"].lower()))
        assert not generated & set(re.findall(r"\w+", main)), main
        assert row["english"] not in made
        pairs.setdefault(row["pair"], []).append(row["pronoun"])
    assert len(rows) == 120 and len(pairs) == 60
    assert all(len(set(said)) == 2 for said in pairs.values())
    assert {word.lower() for said in pairs.values() for word in said} == {"er", "sie", "es"}
