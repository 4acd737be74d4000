"""The sheet on which a reader judges two translators without knowing which wrote what."""

from __future__ import annotations

import random

import pytest

from training.tables.blind import count_judgements, shuffle_translations

SENTENCES = [("topics", "One."), ("topics", "Two."), ("everyday", "Three.")]
TRANSLATIONS = {"old": ["Eins.", "Zwo.", "Drei."], "new": ["Eins.", "Zwei.", "Drei!"]}


def test_a_sheet_is_counted_for_the_model_that_wrote_each_row():
    rows, key = shuffle_translations(SENTENCES, TRANSLATIONS, random.Random(3))
    assert [row["row"] for row in rows] == ["1", "2", "3", "4", "5"]  # "Eins." once for both
    assert not any("old" in value or "new" in value for row in rows for value in row.values())
    verdicts = {
        "Eins.": ("right", "yes"),
        "Zwo.": ("small fault", "yes"),
        "Zwei.": ("right", "yes"),
        "Drei.": ("wrong", "no"),
        "Drei!": ("right", "yes"),
    }
    for row in rows:
        row["judged"], row["carried"] = verdicts[row["german"]]
    assert count_judgements(rows, key) == {
        "topics": {
            "old": {"right": 1, "small fault": 1, "carried": 2},
            "new": {"right": 2, "carried": 2},
        },
        "everyday": {"old": {"wrong": 1, "carried": 0}, "new": {"right": 1, "carried": 1}},
    }


def test_a_row_without_a_verdict_is_named():
    rows, key = shuffle_translations(SENTENCES, TRANSLATIONS, random.Random(3))
    with pytest.raises(ValueError, match="row 1 says '' and '', expected one of right"):
        count_judgements(rows, key)
