"""The text of a pass: the same for the same seed, and both sides changed alike."""

from __future__ import annotations

import re

import numpy as np

from tests.support.paths import ROOT
from training.mix.names import (
    COUNTRIES,
    FOUND,
    OF_ENGLISH,
    another,
    genitive,
    swap_names,
)
from training.mix.numbers import another_number, vary_numbers
from training.mix.phrases import LINES, phrase_pair
from training.mix.shares import Mix
from training.mix.text import (
    gather,
    joined,
    neighbours,
    pass_text,
    roughen,
)

PAIR = (
    "Tom's brother met Mary in Boston on Monday. Tom was happy.",
    "Toms Bruder hat Maria am Montag in Boston getroffen. Tom war froh.",
)
PLAIN = [(f"Sentence {n} is here.", f"Satz {n} ist hier.") for n in range(200)]


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_both_sides_carry_the_same_names() -> None:
    form = re.compile(r"(.+)'s brother met (.+) in (.+) on (\w+day)\. (.+) was happy\.")
    for seed in range(25):
        english, german = swap_names(*PAIR, random(seed))
        found = form.fullmatch(english)
        assert found is not None, english
        man, woman, city, day, again = found.groups()
        assert man == again and "Tom" not in english
        here = {"m": man, "w": dict(OF_ENGLISH.get(woman, [(woman, woman)]))[woman]}
        place = next((german for english, german in FOUND if english == city), city)
        place = {"Nice": "Nizza", "Essen": "Essen"}.get(city, place)
        weekday = next(german for english, german in FOUND if english == day)
        assert german == (
            f"{genitive(man)} Bruder hat {here['w']} am {weekday} in {place} getroffen. "
            f"{man} war froh."
        )


def test_names_that_stay_change_places_or_end_in_s() -> None:
    english, german = swap_names("Tom gave Mary a book.", "Er gab Maria ein Buch.", random())
    assert english.startswith("Tom gave ") and german.startswith("Er gab ")  # one side lacks him
    assert "Mary" not in english and "Maria" not in german
    for seed in range(40):  # two may change places without becoming one
        english, german = swap_names("Peter, Paul und Karl.", "Peter, Paul und Karl.", random(seed))
        assert english == german
        assert len(set(re.findall(r"\w+(?=[,.]| und)", english))) == 3
    assert genitive("Max") == "Max'" and genitive("Anna") == "Annas"
    english, german = swap_names("Jens's dog", "Jens' Hund", random(3))
    assert english != "Jens's dog"
    assert german == f"{genitive(english.removesuffix(chr(39) + 's dog'))} Hund"
    days = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
    tage = "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"
    english, german = swap_names(days, tage, random())
    assert len(english.split()) == len(german.split()) == 7
    words = COUNTRIES.replace("=", " ").split()  # none with an article is ever put in
    assert not {"Schweiz", "Türkei", "Niederlande", "Iran", "Irak", "USA"} & set(words)
    drawn = [another("men", set(), random(seed)) for seed in range(200)]
    fresh = [form for form in drawn if form not in FOUND]  # invented: alike in both languages
    assert 10 < len(fresh) < 60 and all(english == german for english, german in fresh)


def test_numbers_change_alike_and_keep_their_kind() -> None:
    pair = ("He has 30 books and 4 dogs.", "Er hat 30 Bücher und 4 Hunde.")
    english, german = vary_numbers(*pair, random(1))
    assert re.findall(r"\d+", english) == re.findall(r"\d+", german) != ["30", "4"]
    assert another_number(1, random()) == 1
    assert all(2 <= another_number(7, random(n)) <= 12 for n in range(20))
    assert all(1900 <= another_number(1987, random(n)) < 2030 for n in range(20))
    pair = ("It is 5 p.m.", "Es ist 17 Uhr.")
    assert vary_numbers(*pair, random()) == pair  # they differ
    english, german = vary_numbers("The train left at 7:45.", "Der Zug fuhr um 7.45 Uhr.", random())
    time = re.search(r"(\d+):(\d\d)", english)
    assert time is not None and time.groups() != ("7", "45")
    assert german == f"Der Zug fuhr um {time[1]}.{time[2]} Uhr."


def test_phrases_fill_every_gap_on_both_sides() -> None:
    for seed in range(300):
        english, german = phrase_pair(random(seed))
        assert not re.search(r"[{}|]", english + german), (english, german)
        assert re.findall(r"\d+", english) == re.findall(r"\d+", german) or "." in german
    assert len(LINES) >= 50


def test_rows_are_joined_in_the_asked_share_and_nothing_is_lost() -> None:
    rows = joined(PLAIN * 20, 0.22, random())
    several = [row for row in rows if row[0].count("Sentence") > 1]
    assert 0.17 < len(several) / len(rows) < 0.27
    assert all(row[0].count("Sentence") == row[1].count("Satz") <= 4 for row in rows)
    assert " ".join(row[0] for row in rows) == " ".join(pair[0] for pair in PLAIN * 20)
    assert joined([("no end", "kein Ende")] * 9, 1.0, random()) == [("no end", "kein Ende")] * 9
    for english, german in neighbours(PLAIN, Mix(updates=1, joined=1.0), random()):
        numbers = [int(n) for n in re.findall(r"\d+", english)]  # of a story, in order
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert re.findall(r"\d+", german) == list(map(str, numbers))


def test_rough_english_keeps_the_german_as_it_is() -> None:
    pair, mix = ("Where is Tom?", "Wo ist Tom?"), Mix(updates=1, rough=1.0)
    made = {roughen(pair, mix, random(n)) for n in range(40)}
    forms = {"where is tom?", "where is tom", "Where is Tom"}
    assert made == {(english, pair[1]) for english in forms}
    mix = Mix(updates=1, rough=1.0, capitals=0.2)
    made = {roughen(pair, mix, random(n)) for n in range(40)}
    assert made == {(english, pair[1]) for english in {*forms, "WHERE IS TOM?"}}
    long = ("Mr Müller lives in Zürich. " * 3, "Herr Müller wohnt in Zürich. " * 3)
    made = {roughen(long, mix, random(n)) for n in range(40)}
    assert not any(english.isupper() for english, _ in made), "in capitals it has many pieces"
    assert all("mueller lives in zuerich" in english.lower() for english, _ in made)


def test_a_pass_is_the_same_for_the_same_seed_and_another_for_the_next() -> None:
    mix = Mix(updates=1, agreement=0.1, agreement_late=0.03)
    corpus = gather({"one": [PAIR] * 50, "two": PLAIN}, mix)
    first = pass_text(corpus, mix, 1, 0, False)
    assert first == pass_text(corpus, mix, 1, 0, False)
    assert first != pass_text(corpus, mix, 1, 1, False) != pass_text(corpus, mix, 2, 1, False)


def test_files_are_read_as_often_as_asked_and_held_back_lines_are_not_learned() -> None:
    mix = Mix(updates=1, times={"two": 2}, held_back=("two",))
    corpus = gather({"one": [PAIR], "two": PLAIN}, mix)
    assert corpus.held_back == PLAIN[::40]
    assert len(corpus.pairs) == 1 + 2 * 195 and not set(corpus.held_back) & set(corpus.pairs)


def test_sentences_by_topic_are_sixty_that_stand_in_no_other_table() -> None:
    tables = ROOT / "training" / "tables"
    rows = [line.split("\t") for line in (tables / "topics.tsv").read_text("utf-8").splitlines()]
    sentences = [english for _, english in rows[1:]]
    assert rows[0] == ["topic", "english"] and len(set(sentences)) == len(sentences) == 60
    assert min(len(english.split()) for english in sentences) >= 8
    others = "".join(
        (tables / f"{name}.tsv").read_text("utf-8") for name in ("everyday", "pronouns")
    )
    assert not [english for english in sentences if english in others]
