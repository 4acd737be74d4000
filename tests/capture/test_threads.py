"""One model, many visitors: sixteen threads at once change nothing of one another's results."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_viz import trace
from transformer_viz.capture import Capture, CaptureRequest, probe
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    ScaleHead,
    ScalePositions,
    Temperature,
    Window,
)

THREADS = 16
EDITS = (
    Intervention(),
    Intervention((Temperature(value=2.0),)),
    Intervention((Temperature(value=0.0, stack="decoder", block="cross", layer=1, head=1),)),
    Intervention((ScaleHead(value=0.0, stack="encoder", layer=0, head=1), Window(radius=2))),
    Intervention((Causal(on=False), BlockKeys(keys=(1,), block="cross"))),
    Intervention((ScalePositions(value=0.5),)),
)


def sentences() -> list[tuple[Tensor, Tensor]]:
    """Sources and targets, no two of one length, so that a mix-up of any two shows."""
    draw = torch.Generator().manual_seed(5)
    ids = [torch.randint(4, 37, (1, length), generator=draw) for length in range(4, 20)]
    return list(zip(ids[:8], ids[8:], strict=True))


SENTENCES = sentences()
WANT = CaptureRequest(
    qkv=lambda site: site.layer == 0, scores=lambda site: True, hidden=True, positions=True
)


def watched(module: nn.Module, job: tuple[int, int]) -> list[Tensor]:
    """Every tensor that one watched run gives."""
    (source, target), edits = SENTENCES[job[0]], EDITS[job[1]]
    with torch.inference_mode(), probe(module, edits, WANT) as run:
        out = module(source, target)
    return [out, *seen(run)]


def seen(run: Capture) -> Iterator[Tensor]:
    for record in run.attentions:
        parts = (record.weights, record.scores, record.q, record.k, record.v, record.thumbnail)
        yield from (part for part in parts if part is not None)
        yield from record.statistics.values()
    for norm in run.norms:
        yield from norm.statistics.values()
    yield from (residual.norm for residual in run.residuals)
    yield from run.streams.values()
    yield from run.positions.values()


def plain(module: nn.Module, job: tuple[int, int]) -> list[Tensor]:
    with torch.inference_mode():
        return [module(*SENTENCES[job[0]])]


def same(got: list[Tensor], expected: list[Tensor]) -> bool:
    """Bit for bit, NaN included."""
    return len(got) == len(expected) and all(
        a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        for a, b in zip(got, expected, strict=True)
    )


@pytest.fixture
def hasty() -> Iterator[None]:
    """Python changes threads a hundred times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 100)
    yield
    sys.setswitchinterval(usual)


def at_once(work: Callable[[int], list[Any]], threads: int) -> list[Any]:
    """What all threads found, after they started together."""
    gate = threading.Barrier(threads)

    def begin(number: int) -> list[Any]:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return [item for found in pool.map(begin, range(threads)) for item in found]


@pytest.mark.slow
@pytest.mark.parametrize("runs", [10, pytest.param(50, marks=pytest.mark.soak)])
def test_sixteen_threads_get_what_one_gets(build_module: Any, hasty: None, runs: int) -> None:
    module = build_module()
    jobs = [(s, e) for s in range(len(SENTENCES)) for e in range(len(EDITS))]
    calls = {"watched": watched, "plain": plain}
    expected = {(name, job): call(module, job) for name, call in calls.items() for job in jobs}

    def work(number: int) -> list[Any]:
        draw = random.Random(number)
        todo = [
            (draw.choice(("watched", "watched", "plain")), draw.choice(jobs)) for _ in range(runs)
        ]
        return [key for key in todo if not same(calls[key[0]](module, key[1]), expected[key])]

    assert at_once(work, THREADS) == []


def test_traces_of_one_model_do_not_mix(tiny_model: Any, hasty: None) -> None:
    def numbers(sentence: int, edit: int) -> bytes:
        source, target = SENTENCES[sentence]
        words = {"intervention": EDITS[edit], "check": False}
        found = trace(tiny_model, source[0].tolist(), target[0].tolist(), **words)
        tables = (found.heads, found.norms, found.residuals)
        arrays = [t.select_dtypes("number").to_numpy().tobytes() for t in tables]
        return b"".join((*arrays, found.logits.tobytes(), found.attention("cross").tobytes()))

    jobs = [(s, e) for s in range(4) for e in range(len(EDITS))]
    expected = {job: numbers(*job) for job in jobs}

    def work(number: int) -> list[Any]:
        mine = random.Random(number).sample(jobs, 6)
        return [job for job in mine if numbers(*job) != expected[job]]

    assert at_once(work, 8) == []


def test_probes_open_at_once_see_their_own(build_module: Any) -> None:
    module = build_module()
    jobs = [(0, 1), (3, 3)]
    expected = [watched(module, job) for job in jobs]
    inside = threading.Barrier(2)

    def work(number: int) -> list[Any]:
        (source, target), edits = SENTENCES[jobs[number][0]], EDITS[jobs[number][1]]
        with torch.inference_mode(), probe(module, edits, WANT) as run:
            inside.wait()  # both probes are open now
            out = module(source, target)
            inside.wait()  # and both have run before either closes
        return [same([out, *seen(run)], expected[number])]

    assert at_once(work, 2) == [True, True]
    source, target = SENTENCES[0]
    with torch.inference_mode():
        with probe(module) as alone:
            module(source, target)
        with probe(module) as outer, probe(module) as inner:  # a probe inside a probe
            module(source, target)
        with probe(module, EDITS[1]) as warm:
            module(source, target)
        with probe(module) as watching, probe(module, EDITS[1]):
            module(source, target)
    for run, wanted in ((outer, alone), (inner, alone), (watching, warm)):
        assert len(run.attentions) == 7 and not run.unrecognised
        for one, other in zip(run.attentions, wanted.attentions, strict=True):
            assert one.site == other.site
            assert torch.equal(one.weights, other.weights)


def test_other_threads_and_the_module_are_left_alone(build_module: Any) -> None:
    module = build_module()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    parts = {name: set(vars(part)) for name, part in module.named_modules()}
    with torch.inference_mode(), probe(module, EDITS[1]) as run:
        module(*SENTENCES[0])
        before = len(run.attentions)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(plain, module, (0, 0)).result()
    assert len(run.attentions) == before
    assert same(other, plain(module, (0, 0)))
    for edit in range(len(EDITS)):
        watched(module, (1, edit))
    assert {name: set(vars(part)) for name, part in module.named_modules()} == parts
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
