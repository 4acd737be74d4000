"""The probe and its proof on every foreign style: found, axes, values, edits, unchanged, said.

``python -m tests.foreign.scoreboard`` prints the whole table.
"""

from __future__ import annotations

import pytest

from tests.foreign import proofs, scoreboard
from tests.foreign.styles import STYLES

GROUPS = 8  # for workers to share


def fault(name: str) -> str:
    """What is wrong with a style, or nothing."""
    try:
        row = scoreboard.row(STYLES[name])
        if proofs.asked(STYLES[name]) and (wrong := proofs.fault(STYLES[name], row)):
            return f"{row.verdict}: the proof {wrong}"
    except scoreboard.NotHereError:
        return ""  # this machine lacks what the style needs to run without any probe
    except Exception as error:
        error.add_note(f"in the style {name}")
        raise
    return "" if row.verdict in ("ok", "said") else f"{row.verdict}: {row.why}"


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_styles(group: int) -> None:
    wrong = {name: fault(name) for name in list(STYLES)[group::GROUPS]}
    assert not any(wrong.values()), {name: text for name, text in wrong.items() if text}


def test_the_table_counts_every_style() -> None:
    rows = [scoreboard.row(STYLES[name]) for name in ("plain", "sdpa", "sigmoid")]
    assert scoreboard.total(rows) == "3 styles: 2 ok, 1 said, 0 silent, 0 wrong, 0 crash."
    assert all(tuple(row.cells()) == scoreboard.COLUMNS for row in rows)
