"""A long proof says how far it is, and may be stopped: the maps stay, and the report says so."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import transformer_viz as tv
from tests.support.witness_models import random_gpt2
from transformer_viz.core.interventions import Temperature
from transformer_viz.core.trace import Trace
from transformer_viz.inference.findings import findings_of
from transformer_viz.inference.progress import proofs as proof_progress

IDS, OTHER = [5, 17, 6, 29, 8, 3], [3, 8, 29, 17, 6, 5]


def counted(module: nn.Module) -> tuple[tv.Model, list[int]]:
    made: list[int] = []
    model = tv.load(module)
    module.register_forward_pre_hook(lambda *_: made.append(1))
    return model, made


def test_each_pass_of_a_long_proof_is_told_and_a_short_one_is_silent(monkeypatch) -> None:
    model, made = counted(random_gpt2())
    told: list[tuple[int, int, int]] = []

    def tell(done: int, of: int) -> None:
        told.append((done, of, len(made)))

    for least in (1e9, 0.0):
        monkeypatch.setattr(proof_progress, "LEAST", least)
        tv.trace(tv.load(random_gpt2()), IDS, on_progress=tell)
        assert bool(told) is (least == 0), "short proofs are silent"
    for ids in (IDS, OTHER):
        told.clear()
        made.clear()
        assert tv.trace(model, ids, on_progress=tell).report.status == "green"
        assert [done for done, *_ in told] == [count for *_, count in told]
        assert [done for done, *_ in told] == list(range(2, len(made)))
        assert all(done < of for done, of, _ in told)
    assert told == [(2, 3, 2)], "of a later text three passes are made"


def test_a_stopped_proof_leaves_the_maps_and_says_so(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(proof_progress, "LEAST", 0.0)
    warm = tv.Intervention((Temperature(value=2.0),))
    plain = lambda edits: tv.trace(tv.load(random_gpt2()), IDS, intervention=edits)  # noqa: E731
    expected = {edits: plain(edits) for edits in (None, warm)}
    for passes, edits in ((2, None), (4, None), (5, None), (3, warm)):
        model, made = counted(random_gpt2())

        def tell(done: int, of: int, last: int = passes) -> bool:
            return done < last

        found = tv.trace(model, IDS, intervention=edits, on_progress=tell)
        assert len(made) - bool(edits) == passes, "no pass after the stop"
        report = found.report
        assert report.left_out.startswith(f"The proof was stopped after {passes} of "), report
        assert report.status == "unchecked" and not report.kernels
        assert report.left_out in str(findings_of(found))
        for one, other in zip(found.attentions, expected[edits].attentions, strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)
        found.save(tmp_path / "run.safetensors")
        stored = Trace.load(tmp_path / "run.safetensors").report
        assert (stored.left_out, stored.status) == (report.left_out, report.status)
    again = tv.trace(model, IDS, intervention=warm).report
    assert again.status == "green" and not again.left_out, "nothing half-proved stays"


def test_what_progress_raises_ends_the_trace_at_any_pass(monkeypatch):
    monkeypatch.setattr(proof_progress, "LEAST", 0.0)
    errors = {2: KeyboardInterrupt(), 5: StopIteration(), 4: RuntimeError("enough")}
    for last, error in errors.items():

        def tell(done: int, of: int, last: int = last, error: BaseException = error) -> None:
            if done == last:
                raise error

        with pytest.raises(type(error)) as raised:
            tv.trace(tv.load(random_gpt2()), IDS, on_progress=tell)
        assert raised.value is error
