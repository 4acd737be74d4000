"""docs/measures.md names every measure, threshold and method that the code has, and no other."""

from __future__ import annotations

import re

from tests.support.paths import ROOT
from transformer_viz.inference.ablation.stand_ins import METHODS as REPLACED
from transformer_viz.inference.explanation.captions import METHODS
from transformer_viz.metrics.comparison.pairing import CLEAR
from transformer_viz.metrics.head_measures import keys, role_rules, rows, values
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.statistics import bootstrap

PAGE = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def table(text: str, first: str) -> list[list[str]]:
    """The cells of the table whose head begins with ``first``."""
    found = []
    for line in text.split(f"| {first} |", 1)[1].splitlines()[2:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_every_measure_stands_there_with_its_number_and_threshold():
    found = table(section("What a head looks at"), "number")
    listed = {cells[1].strip("`"): cells for cells in found if cells[1] != "error rate"}
    assert list(listed) == [measure.name for measure in MEASURES]
    for measure in MEASURES:
        cells = listed[measure.name]
        number = re.match(r"M\d+", measure.definition)
        assert number and cells[0] == number[0], measure.name
        wanted = "" if measure.threshold is None else f"{measure.threshold:g}"
        assert cells[5] == wanted, measure.name


def test_every_bound_is_the_one_of_the_code():
    first = section("What a head looks at")
    assert f"less than {rows.LEAST_MASS:g} of its weight" in PAGE
    assert f"{bootstrap.DRAWS:,} bootstrap draws" in PAGE and bootstrap.LEVEL == 0.95
    assert f"from -{keys.FURTHEST} to {keys.FURTHEST}" in first
    assert keys.MOST == 1 / 4 and "at most a quarter of all keys" in first
    assert f"more than {values.SINK:g} on sinks" in first and f"among the {values.TOP} " in first
    assert f"from {role_rules.LEAST_ROWS} rows or more" in first
    assert f"at least {role_rules.LIFT:g};" in first
    assert role_rules.LEAST_SENTENCES == 5 and "from five sentences on" in first
    assert f"more than {role_rules.SINK:g} on the first" in first
    assert f"lift {role_rules.SINK_LIFT:g}" in first
    assert f"entropy {role_rules.SPREAD:g} or more" in first
    assert f"({role_rules.SHARP:g} or less)" in first
    assert f"within {CLEAR:g} bits" in section("Two runs beside each other")


def test_every_method_stands_there_in_its_order():
    removed = [
        cells[0].strip("`") for cells in table(section("What is lost without a head"), "method")
    ]
    assert tuple(removed) == REPLACED
    explained = [cells[0].strip("`") for cells in table(section("Why one word"), "method")]
    assert set(explained) == set(METHODS)
