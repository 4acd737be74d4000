"""The probe and its proof on every foreign style: found, axes, values, edits, unchanged, said.

``python -m tests.foreign.scoreboard`` prints the whole table.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.foreign import proofs, scoreboard
from tests.foreign.styles import STYLES

pytestmark = pytest.mark.slow

#: Styles that fail today, and what is wrong. This list only gets shorter: a test fails where an
#: entry is no longer needed. S1 to S19, "section 3" and "smaller" are rows of the list of known
#: faults; "new" ones were found by the scoreboard itself.
NOT_YET: dict[str, str] = {}


@pytest.mark.parametrize("name", STYLES)
def test_style(name: str) -> None:
    try:
        row = scoreboard.row(STYLES[name])
    except scoreboard.NotHereError as error:
        pytest.skip(str(error))
    holds = row.verdict in ("ok", "said")
    if proofs.asked(STYLES[name]):
        wrong = proofs.fault(STYLES[name], row)
        assert not wrong, f"{name} ({row.verdict}) {wrong}"
    if name not in NOT_YET:
        assert holds, f"{name} is {row.verdict}: {row.why}"
        return
    assert not holds, f"{name} holds now ({row.verdict}): take it out of NOT_YET"
    pytest.xfail(f"{row.verdict}: {NOT_YET[name]}")


def test_an_entry_that_holds_must_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NOT_YET, "plain", "nothing")
    with pytest.raises(AssertionError, match=r"plain holds now \(ok\): take it out of NOT_YET"):
        test_style("plain")


def test_not_yet_names_styles() -> None:
    assert set(NOT_YET) <= set(STYLES)


def test_the_table_counts_every_style() -> None:
    rows = [scoreboard.row(STYLES[name]) for name in ("plain", "sdpa", "sigmoid")]
    text = scoreboard.table(rows)
    assert text.endswith("3 styles: 2 ok, 1 said, 0 silent, 0 wrong, 0 crash.")
    lines = Counter(line.count(" | ") for line in text.splitlines() if line.startswith("| "))
    assert lines == {len(scoreboard.COLUMNS) - 1: 4}
