"""What holds of every chain: equal to the witness, without gaps, and each number is its sum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.stages import FORMS, OPENS, REASONS, Number, Stage, Terms, Walkthrough
from transformer_viz.core.trace_parts import Attention
from transformer_viz.walkthrough import terms

#: Stages whose only input is what the one before gave.
ALONG = ("scale", "mask", "temperature", "softmax", "mix", "concat", "project", "outer")
CLOSE = 1e-5  # of the largest number of the vector, matrix or row that a number stands in


def worst(found: Any, expected: Any) -> float:
    """The largest difference, as a part of the largest number that was expected.

    Numbers that are infinite must be so in both.
    """
    a, b = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert a.shape == b.shape, (a.shape, b.shape)
    endless = np.isinf(b)
    assert np.array_equal(a[endless], b[endless])
    a, b = a[~endless], b[~endless]
    if not a.size or np.array_equal(a, b):
        return 0.0
    largest = np.abs(b).max()
    return float(np.abs(a - b).max() / largest) if largest else math.inf


def differences(chain: Walkthrough, notes: dict[tuple[str, str], Any]) -> dict[str, float]:
    """Every array and number of a chain against a witness, by ``stage/array``.

    A mean, or the largest of some scores, may be close to zero, so these are measured by the
    largest number that they were taken from.
    """
    found: dict[str, float] = {}
    for stage in chain:
        for name, array in stage.arrays.items():
            found[f"{stage.name}/{name}"] = worst(array, notes.pop((stage.name, name)))
        for name in ("mean", "variance", "spread", "most", "total"):
            if name in stage.numbers:
                expected = notes.pop((stage.name, name))
                taken = np.abs(stage["x"][np.isfinite(stage["x"])])
                scale = taken.max() if name in ("mean", "most") else abs(expected)
                off = abs(stage.numbers[name] - expected)
                found[f"{stage.name}/{name}"] = off / scale if off else 0.0
    assert not notes, f"the chain does not show {sorted(notes)}"
    return found


def hold_form(chain: Walkthrough) -> None:
    """Kinds, axes, words and numbers are those that insides.py promises; nothing can be changed."""
    names = [stage.name for stage in chain]
    assert len(set(names)) == len(names)
    for stage in chain:
        sizes: dict[str, int] = {}
        assert set(stage.arrays) <= set(FORMS[stage.kind])
        for name, array in stage.arrays.items():
            assert array.dtype == np.float32
            assert not array.flags.writeable
            assert array.ndim == len(FORMS[stage.kind][name])
            for axis, size in stage.shape(name):
                assert sizes.setdefault(axis, size) == size
        assert all(math.isfinite(number) for number in stage.numbers.values())
        assert set(stage.why) <= set(REASONS)


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert np.array_equal(a, b, equal_nan=True)


def hold(model: Model, chain: Walkthrough, most: int, seed: int = 0) -> int:
    """Hold the form, the joints and the sums of a chain; return how many numbers were opened."""
    hold_form(chain)
    hold_together(chain, post=model.config["norm"] == "post")
    return hold_sums(model, chain, most, seed)


def hold_to_block(chain: Walkthrough, block: Attention) -> None:
    """Weights, scores and values of a chain are those of a run, number by number."""
    head, row = chain.site.head or 0, chain.row
    assert block.scores is not None and block.v is not None
    same(chain["softmax"]["out"], block.weights[head, row])
    same(chain["softmax"]["x"], block.scores[head, row])
    same(chain["mix"]["v"], block.v[head])


def hold_together(chain: Walkthrough, post: bool) -> None:
    """Each stage's input is what an earlier one gave, number by number."""
    stream = work = chain.stages[0]["out"]
    for stage in chain.stages[1:]:
        if stage.kind in ("residual", "beside"):
            same(stage["x"], stream)
            if stage.kind == "residual":
                same(stage["added"], work)
        elif stage.kind == "norm" and not post and stage.block in ("self", "cross", "feed_forward"):
            same(stage["x"], stream)
            work = stage["out"]
            continue
        elif stage.kind in ("qkv", "inner"):
            same(stage["x"], stream if post else work)
            work = stage["q"] if stage.kind == "qkv" else stage["out"]
            continue
        elif stage.kind in ("turn", "score"):
            work = _asked(chain, stage, work)
            continue
        elif stage.kind in ALONG:
            same(stage["x"], work)
            work = stage["out"]
            continue
        else:
            same(stage["x"], stream)
        stream = stage["out"]
    block = chain.site.block
    mix, qkv, concat = (chain[f"{kind}.{block}"] for kind in ("mix", "qkv", "concat"))
    same(mix["v"], qkv["v"])
    same(concat["heads"][chain.site.head or 0], concat["x"])


def _asked(chain: Walkthrough, stage: Stage, work: np.ndarray) -> np.ndarray:
    qkv = chain[f"qkv.{stage.block}"]
    turn = f"turn.{stage.block}"
    if stage.kind == "turn":
        same(stage["q_before"], work)
        if "k" in qkv.arrays:
            same(stage["k_before"], qkv["k"])
        return stage["q"]
    same(stage["q"], work)
    if "k" in qkv.arrays:
        before = chain[turn] if turn in chain else qkv  # noqa: SIM401 (a chain is no mapping)
        same(stage["k"], before["k"])
    return stage["out"]


# ---- the sums -----------------------------------------------------------------------------------


THEN = {
    "": lambda x: x,
    "exp": math.exp,
    "tanh": math.tanh,
    "sqrt": math.sqrt,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "identity": lambda x: x,
}


def numbers(chain: Walkthrough, most: int, seed: int = 0) -> Iterator[Number]:
    """Numbers that can be opened, at most so many of each array, drawn at random."""
    draw = np.random.default_rng(seed)
    for stage in chain:
        for name in OPENS[stage.kind]:
            if name in stage.numbers:
                yield Number(stage.name, name, ())
            if name not in stage.arrays:
                continue
            opens = np.isfinite(stage[name])
            if name == "exponentials":
                opens &= np.isfinite(stage["x"])  # e to the power of an endless score is no sum
            places = np.argwhere(opens)
            for place in draw.permutation(places)[:most]:
                yield Number(stage.name, name, tuple(map(int, place)))


def hold_sums(model: Model, chain: Walkthrough, most: int, seed: int = 0) -> int:
    """Opened numbers are the sums that are shown for them; return how many were opened."""
    count = 0
    for number in numbers(chain, most, seed):
        opened = terms(model, chain, number)
        assert opened.number == chain.number(str(number)) == number
        assert opened.total == chain.value(number)
        assert opened.a.shape == opened.b.shape
        assert not opened.labels or len(opened.labels) == len(opened.a)
        off = abs(THEN[opened.then](by_hand(opened)) - opened.total)
        assert off <= CLOSE * max(scale(opened), _largest(chain, number)), (str(number), off)
        count += 1
    return count


def _largest(chain: Walkthrough, number: Number) -> float:
    """The largest number that stands beside this one."""
    found = chain[number.stage].arrays.get(number.array, np.zeros(1))
    return float(np.abs(found[np.isfinite(found)]).max(initial=0.0))


def by_hand(opened: Terms) -> float:
    """One product after another, as at the board."""
    total = 0.0
    for a, b in zip(opened.a.tolist(), opened.b.tolist(), strict=True):
        total += a * b
    return (total + (opened.bias or 0.0)) / opened.divisor


def scale(opened: Terms) -> float:
    """The size of what is added up: what rounding is a part of."""
    parts = np.abs(opened.products).sum() + abs(opened.bias or 0.0)
    return max(float(parts / abs(opened.divisor)), abs(opened.total))
