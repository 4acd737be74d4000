"""docs/labs.md says what is measured."""

from __future__ import annotations

import json
import re

import pytest

from training.tables import labs
from transformer_viz.checkpoints.common.bundled import CONFIG, PRETRAINED
from transformer_viz.metrics.attention.score_variance import random_spread

TEXT = labs.PAGE.read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("|")
]


def _row(first: str) -> list[str]:
    return next(row for row in ROWS if row[0] == first)


@pytest.mark.parametrize("width", [4, 64, 256])
def test_the_table_of_products_is_what_is_measured(width: int) -> None:
    found = random_spread(width, labs.KEYS, labs.SEED)
    numbers = [float(cell) for cell in _row(str(width))[1:]]
    assert numbers[0] == pytest.approx(found.variance, abs=0.06)
    assert numbers[1:3] == pytest.approx([found.plain.entropy, found.scaled.entropy], abs=6e-4)
    assert numbers[5:7] == pytest.approx([found.plain.gradient, found.scaled.gradient], abs=6e-4)


def test_every_tiny_model_in_the_box_stands_there_with_its_score() -> None:
    for name in labs.here():
        words = json.loads((PRETRAINED / labs.LABS / name / CONFIG).read_text(encoding="utf-8"))
        assert _row(f"`{labs.LABS}{name}`")[4] == f"{words['bleu']:.1f}"


def test_the_command_that_writes_it_stands_there() -> None:
    assert re.search(r"^    python -m training\.tables\.labs$", TEXT, re.MULTILINE)
