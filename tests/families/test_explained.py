"""The table of docs/why-this-word.md: a sample measured anew, and no figure above its bound."""

from __future__ import annotations

import re

import pytest

from .explained import CONTRIBUTIONS, LOGITS, PAGE, of_family, stands
from .table import EACH

pytestmark = pytest.mark.families
#: Norm before and after, with and without biases, and those that lack something.
SAMPLE = ("bart", "gpt2", "llama", "t5", "whisper", "gemma2", "falcon_alibi", "xlnet", "vit")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_family_stands_in_the_page_as_it_is(name: str) -> None:
    row = of_family(next(family for family in EACH if family.name == name))
    assert stands(row), row
    assert row.contributions is None or row.contributions <= CONTRIBUTIONS
    assert row.logits is None or row.logits <= LOGITS
    assert row.note or (row.contributions is not None and row.logits is not None)


def test_no_figure_of_the_page_is_above_its_bound() -> None:
    """P29 and P32 on every layout and family that serves; forty of them at least."""
    lines = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if len(line) == 6 and re.match(r"\| \w", line[0])]
    sums = [float(row[2]) for row in rows if row[2] not in ("-", "contributions")]
    logits = [float(row[4]) for row in rows if row[4] not in ("-", "logits")]
    assert max(sums) <= CONTRIBUTIONS and max(logits) <= LOGITS
    assert len(sums) > 100 and len(logits) > 60
    for row in rows:
        assert row[5].strip(" |") or "-" not in (row[2], row[4]), row
