"""The probe on every foreign style: found, axes, values, edits, unchanged, said.

``python -m tests.foreign.scoreboard`` prints the whole table.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.foreign import scoreboard
from tests.foreign.styles import STYLES

pytestmark = pytest.mark.slow

#: Styles that fail today, and what is wrong. This list only gets shorter: a test fails where an
#: entry is no longer needed. S1 to S19, "section 3" and "smaller" are rows of the list of known
#: faults; "new" ones were found by the scoreboard itself.
NOT_YET: dict[str, str] = {
    "mqa_folded": "S6: wrong: axes (2, 1, 36, 9) for (2, 4, 9, 9)",
    "memory_of_segments": "S5: wrong: cut_link: off",
    "chunked_queries": "S4: wrong: shows (2, 4, 3, 9) three times for one record",
    "chunked_queries_filled": "S4: wrong: shows (2, 4, 4, 9), ... for one record",
    "mask_by_slicing": "S4: wrong: shows each row for one record",
    "efficient_square": "S17: wrong: shows (2, 4, 8, 8), which is no attention",
    "learned_everything": "S7: wrong: axes (1, 8, 9, 9) for (2, 4, 9, 9); head_off: off",
    "encoder_padding": "S19: wrong: outputs off by 1e+00",
    "synthesizer_random": "S7: wrong: axes (2, 4, 9, 9) for (1, 4, 9, 9)",
    "hybrid": "S12: wrong: named self L1 for self L2",
    "exp_after_product": "new: wrong: values off by 2e+04",
    "softmax_flattened": "new: wrong: head_off: refused for a place that is shown",
    "softmax_rows": "new: wrong: head_off: refused for a place that is shown",
    "train_torch_module": "smaller: wrong: values off by 1e+00",
}


@pytest.mark.parametrize("name", STYLES)
def test_style(name: str) -> None:
    try:
        row = scoreboard.row(STYLES[name])
    except scoreboard.NotHereError as error:
        pytest.skip(str(error))
    holds = row.verdict in ("ok", "said")
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
