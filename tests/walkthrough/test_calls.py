"""The hook behind a chain: it is there only inside, in its own thread, and leaves nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module as modules

from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.core.interventions import Intervention, ScaleHead, Temperature, Window
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.stages import Walkthrough
from transformer_viz.walkthrough import step_inside
from transformer_viz.walkthrough.module_calls import calls_of

EDITS = (
    Intervention(),
    Intervention((Temperature(value=0.5),)),
    Intervention((ScaleHead(value=0.0, head=1), Window(radius=1))),
)


def test_calls_are_noted_in_order_and_only_those_asked_for():
    a, b = nn.Linear(3, 2), nn.Linear(2, 1)
    x = torch.ones(1, 3)
    with calls_of([a]) as calls:
        y = a(x)
        b(y)
        a(2 * x)
    assert [called for called, _, _ in calls.made] == [a, a]
    assert calls.given(a) is x
    assert calls.gave(a) is y
    refuses("never called its Linear", calls.gave, b, error=LookupError)
    # one inside another sees only its own
    with calls_of([a]) as outer:
        y = a(torch.ones(1, 3))
        with calls_of([b]) as inner:
            b(y)
            a(torch.ones(1, 3))
        a(torch.ones(1, 3))
    assert len(outer.made) == 2
    assert [called for called, _, _ in inner.made] == [b]


def test_nothing_stays_behind_even_after_an_error():
    model = make_model()
    before = [dict(vars(part)) for part in model.module.modules()]
    step_inside(model, [4, 5, 6], [2, 7], site=Site("encoder", "self", 1, 0), row=1)
    with pytest.raises(RuntimeError), calls_of([model.module]):
        model.module(torch.ones(1, 1))
    assert not modules._global_forward_hooks
    for part, held in zip(model.module.modules(), before, strict=True):
        assert list(vars(part)) == list(held)
        assert not part._forward_hooks


def _job(number: int) -> tuple[list[int], list[int], Site, int, Intervention]:
    draw = np.random.default_rng(number)
    source = draw.integers(4, 37, 4 + number % 5).tolist()
    target = [2, *draw.integers(4, 41, 3 + number % 3).tolist()]
    name = list(MAPS)[number % 3]
    site = Site(*MAPS[name], int(draw.integers(2)), int(draw.integers(2)))
    return source, target, site, number % 3, EDITS[number % len(EDITS)]


@pytest.mark.slow
def test_many_at_once_on_one_model_are_those_made_alone():
    model = make_model()

    def made(number: int) -> Walkthrough:
        source, target, site, row, edits = _job(number)
        return step_inside(model, source, target, site=site, row=row, intervention=edits)

    numbers = list(range(24))
    alone = [made(number) for number in numbers]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(made, numbers * 2))
    for number, chain in zip(numbers * 2, together, strict=True):
        for stage, other in zip(chain, alone[number], strict=True):
            assert (stage.name, stage.numbers) == (other.name, other.numbers), number
            assert all(np.array_equal(stage[name], other[name]) for name in stage.arrays), number
    assert not modules._global_forward_hooks
