"""Some seconds of what `python -m tests.soak fuzz` does for ten minutes with each reader."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from tests.soak import fuzz as soak
from tests.support.cases import each
from transformer_viz.checkpoints import CheckpointError

from .judge import complaint, judged
from .mutators import CANARY
from .readers import NAMED, READERS, Reader, quiet

LIGHT = 20  # inputs of a reader; `make soak` has as many as fit into ten minutes
HEAVY = 5  # of one that opens whole models
SLOW = {"report": 2, "edits": 5, "sentence": 5}  # those that run one or draw whole pages


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a file would have a shell make must not appear."""
    monkeypatch.chdir(tmp_path)
    with quiet():
        yield
    assert not (tmp_path / CANARY).exists()


@pytest.mark.slow
def test_what_is_sound_is_opened() -> None:
    def check(reader: Reader) -> None:
        for seed in reader.seeds()[: 2 if reader.heavy or reader.name in SLOW else 6]:
            found = judged(lambda seed=seed: reader.run(seed))
            assert not found.fault, (seed.name, found)

    each(NAMED.items(), check)


@pytest.mark.slow
def test_odd_inputs_are_opened_or_refused_in_a_sentence() -> None:
    def check(reader: Reader) -> None:
        @settings(
            max_examples=SLOW.get(reader.name, HEAVY if reader.heavy else LIGHT),
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(strategies.randoms(use_true_random=False))
        def holds(draw: Random) -> None:
            odd = reader.case(draw)
            found = judged(lambda: reader.run(odd))
            assert not found.fault, (odd.name, found)

        holds()
        assert not Path(CANARY).exists()

    each(NAMED.items(), check)


def test_a_case_is_made_again_from_its_number() -> None:
    for reader in READERS:
        one, other = (reader.case(Random(f"1 {reader.name} 7")) for _ in range(2))
        assert one == other


def test_the_judge() -> None:
    errors: tuple[tuple[BaseException, str], ...] = (
        (CheckpointError("w.pt is cut off. Copy it again."), ""),
        (CheckpointError("w.pt is cut off"), "no full stop (CheckpointError)"),
        (ValueError("'int' object has no attribute 'x'."), "the words of a library (ValueError)"),
        (ValueError("x" * 500 + "."), "501 characters"),
        (ValueError("One.\nTwo."), "more than one line"),
        (KeyError("a"), "KeyError is the interpreter's"),
        (RuntimeError("This is one."), "RuntimeError is no kind of error that a page explains"),
        (OSError(28, "No space left on device"), ""),
    )
    for error, wrong in errors:
        assert complaint(error) == wrong


@pytest.mark.process
def test_a_slice_that_dies_is_a_finding_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"  # answers for one input and dies at the next
    row = '[$4, \\"opened\\", 0.1, \\"\\", \\"\\", \\"\\", 0, 0]'
    child.write_text(f'#!/bin/sh\necho \'"ready"\'\necho "{row}"\nkill -9 $$\n')
    child.chmod(child.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(soak.sys, "executable", str(child))
    tally = soak.fuzz("pickle", 60, 6, 1)
    assert tally.outcomes == {"opened": 3, "fault": 3} and tally.ended == 3
    ((fault, inputs),) = tally.faults.items()
    assert fault == ("the process ended with status -9", "")
    assert [number for number, _ in inputs] == [1, 3, 5]
    assert not soak.section([tally], 1).budgets[0].kept


@pytest.mark.process
def test_slices_try_a_reader() -> None:
    tally = soak.fuzz("pickle", 60, 20, 1)
    assert tally.cases == 20 and not tally.ended and not tally.faults
    assert set(soak.NAMES) == set(NAMED)
