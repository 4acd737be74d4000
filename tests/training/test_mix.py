"""The text of a pass: the same for the same seed, and both sides changed alike."""

from __future__ import annotations

import re

import numpy as np
import pytest

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
    roughened,
)

PAIR = (
    "Tom's brother met Mary in Boston on Monday. Tom was happy.",
    "Toms Bruder hat Maria am Montag in Boston getroffen. Tom war froh.",
)
PLAIN = [(f"Sentence {n} is here.", f"Satz {n} ist hier.") for n in range(200)]


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("seed", range(25))
def test_both_sides_carry_the_same_names(seed: int) -> None:
    english, german = swap_names(*PAIR, random(seed))
    found = re.fullmatch(r"(.+)'s brother met (.+) in (.+) on (\w+day)\. (.+) was happy\.", english)
    assert found is not None
    man, woman, city, day, again = found.groups()
    assert man == again and "Tom" not in english
    here = {"m": man, "w": dict(OF_ENGLISH.get(woman, [(woman, woman)]))[woman]}
    place = next((german for english, german in FOUND if english == city), city)
    place = {"Nice": "Nizza", "Essen": "Essen"}.get(city, place)
    weekday = next(german for english, german in FOUND if english == day)
    assert german == (
        f"{genitive(man)} Bruder hat {here['w']} am {weekday} in {place} getroffen. {man} war froh."
    )


def test_a_name_that_one_side_lacks_stays() -> None:
    pair = ("Tom gave Mary a book.", "Er gab Maria ein Buch.")
    english, german = swap_names(*pair, random())
    assert english.startswith("Tom gave ") and german.startswith("Er gab ")
    assert "Mary" not in english and "Maria" not in german


def test_two_names_may_change_places_without_becoming_one() -> None:
    for seed in range(40):
        english, german = swap_names("Peter, Paul und Karl.", "Peter, Paul und Karl.", random(seed))
        assert english == german
        assert len(set(re.findall(r"\w+(?=[,.]| und)", english))) == 3


def test_the_genitive_of_a_name_in_s_has_an_apostrophe() -> None:
    assert genitive("Max") == "Max'" and genitive("Anna") == "Annas"
    english, german = swap_names("Jens's dog", "Jens' Hund", random(3))
    assert english != "Jens's dog"
    assert german == f"{genitive(english.removesuffix(chr(39) + 's dog'))} Hund"


def test_every_day_of_the_week_at_once_stays_a_day() -> None:
    days = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
    tage = "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"
    english, german = swap_names(days, tage, random())
    assert len(english.split()) == len(german.split()) == 7


def test_a_country_with_an_article_is_never_put_in() -> None:
    words = COUNTRIES.replace("=", " ").split()
    assert not {"Schweiz", "Türkei", "Niederlande", "Iran", "Irak", "USA"} & set(words)


def test_numbers_change_alike_and_keep_their_kind() -> None:
    pair = ("He has 30 books and 4 dogs.", "Er hat 30 Bücher und 4 Hunde.")
    english, german = vary_numbers(*pair, random(1))
    assert re.findall(r"\d+", english) == re.findall(r"\d+", german) != ["30", "4"]
    assert another_number(1, random()) == 1
    assert all(2 <= another_number(7, random(n)) <= 12 for n in range(20))
    assert all(1900 <= another_number(1987, random(n)) < 2030 for n in range(20))


def test_numbers_that_differ_stay() -> None:
    pair = ("It is 5 p.m.", "Es ist 17 Uhr.")
    assert vary_numbers(*pair, random()) == pair


def test_clock_times_keep_the_sign_of_their_language() -> None:
    english, german = vary_numbers("The train left at 7:45.", "Der Zug fuhr um 7.45 Uhr.", random())
    time = re.search(r"(\d+):(\d\d)", english)
    assert time is not None and time.groups() != ("7", "45")
    assert german == f"Der Zug fuhr um {time[1]}.{time[2]} Uhr."


def test_an_invented_name_is_the_same_in_both_languages() -> None:
    drawn = [another("men", set(), random(seed)) for seed in range(200)]
    fresh = [form for form in drawn if form not in FOUND]
    assert 10 < len(fresh) < 60 and all(english == german for english, german in fresh)


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


def test_sentences_without_an_end_are_not_joined() -> None:
    assert joined([("no end", "kein Ende")] * 9, 1.0, random()) == [("no end", "kein Ende")] * 9


def test_neighbours_of_a_story_stay_in_order() -> None:
    for english, german in neighbours(PLAIN, Mix(updates=1, joined=1.0), random()):
        numbers = [int(n) for n in re.findall(r"\d+", english)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert re.findall(r"\d+", german) == list(map(str, numbers))


def test_roughened_english_keeps_the_german_as_it_is() -> None:
    made = {roughened(("Where is Tom?", "Wo ist Tom?"), 1.0, random(n)) for n in range(30)}
    assert {german for _, german in made} == {"Wo ist Tom?"}
    assert {e for e, _ in made} == {"where is tom?", "where is tom", "Where is Tom"}


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
