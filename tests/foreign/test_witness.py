"""The witness against attention written out in numpy, and the scoreboard against known faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.foreign import oracle, scoreboard
from tests.foreign.styles import STYLES
from tests.foreign.witness import Attention, Law, Other, Witness, arranged, groups, joined

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 4, 5, 7, 3
A = Attention()


def qkv(seed: int = 0, keys: int = KEYS) -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    shapes = ((QUERIES, WIDTH), (keys, WIDTH), (keys, WIDTH))
    q, k, v = (torch.randn(BATCH, HEADS, *shape, generator=made) for shape in shapes)
    return q, k, v


def by_hand(q: Tensor, k: Tensor, v: Tensor, law: Law | None = None) -> tuple[Any, Any]:
    """Weights and output of one attention in numpy, loops and all."""
    a, b, c = (x.double().numpy() for x in (q, k, v))
    weights, out = np.zeros((*a.shape[:3], b.shape[2])), np.zeros((*a.shape[:3], c.shape[3]))
    for item, head, row in np.ndindex(a.shape[:3]):
        s = np.array([a[item, head, row] @ key for key in b[item, head]])
        s = s / np.sqrt(a.shape[3])
        if law and law.kind == "temperature":
            s = s / law.value
        if law and law.kind == "hidden_key":
            s[law.index] = -np.inf
        if law and law.kind == "cut_link" and row == law.row:
            s[law.index] = -np.inf
        w = np.exp(s - s.max())
        w = w / w.sum()
        if law and law.kind == "weights_off" and head == law.index:
            w = w * 0
        weights[item, head, row] = w
        out[item, head, row] = w @ c[item, head]
    return weights, out


def eager(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / WIDTH**0.5).softmax(-1) @ v


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


LAWS = (
    None,
    Law("temperature", 2.5),
    Law("hidden_key", index=3),
    Law("cut_link", index=3, row=2),
    Law("weights_off", index=1),
)


def test_weights_and_laws_equal_numpy() -> None:
    q, k, v = qkv()
    for attend, law, inference in product((eager, fused), LAWS, (False, True)):
        with torch.inference_mode(inference), Witness((A,), law) as witness:
            out = attend(q, k, v)
        weights, wanted = by_hand(q, k, v, law)
        (event,) = witness.events
        assert np.abs(event.weights.numpy() - weights).max() < 1e-6, (attend, law, inference)
        assert np.abs(out.numpy() - wanted).max() < 1e-6, (attend, law, inference)
        assert event.fused == (attend is fused)


def test_a_fused_kernel_with_mask_scale_groups_and_causal_rows() -> None:
    q, k, v = qkv(keys=QUERIES)
    few = k[:, ::2], v[:, ::2]
    mask = torch.randn(BATCH, 1, QUERIES, QUERIES)
    words: list[dict[str, Any]] = [{"attn_mask": mask, "scale": 0.3}, {"is_causal": True}]
    for word in words:
        with Witness() as kernel:
            F.scaled_dot_product_attention(q, *few, enable_gqa=True, **word)
        scores = q @ few[0].repeat_interleave(2, 1).mT * word.get("scale", WIDTH**-0.5)
        scores = scores + word.get("attn_mask", 0.0)
        if "is_causal" in word:
            scores = scores.masked_fill(torch.ones(QUERIES, QUERIES).triu(1).bool(), -torch.inf)
        assert kernel.events[0].fused
        assert (kernel.events[0].weights - scores.double().softmax(-1)).abs().max() < 1e-6


def test_what_is_no_attention_stays_as_it_is() -> None:
    x = torch.randn(3, 5)
    with Witness((Other("router"),), Law("temperature")) as witness:
        out = x.softmax(-1)
    assert torch.equal(out, x.softmax(-1))
    assert len(witness.events) == 1


AXES = ("bhqk", "hbqk", "bqkh", "qkbh", "bhkq", "(bh)qk", "(hb)qk", "b(hq)k", "b(qh)k", "(bhq)k")


def test_axes_are_put_in_order() -> None:
    sizes = {"b": BATCH, "h": HEADS, "q": QUERIES, "k": KEYS}
    true = torch.arange(BATCH * HEADS * QUERIES * KEYS).view(BATCH, HEADS, QUERIES, KEYS)
    for axes in AXES:
        flat = "".join(groups(axes))
        raw = true.permute(["bhqk".index(letter) for letter in flat])
        shape = [int(np.prod([sizes[letter] for letter in letters])) for letters in groups(axes)]
        role = Attention(axes, heads=HEADS, batch=BATCH)
        assert torch.equal(arranged(raw.reshape(shape), role), true), axes


def test_windows_groups_and_missing_axes() -> None:
    x = torch.randn(2, 3, 4, 5, 6)
    assert torch.equal(arranged(x, Attention("bwhqk")), x.view(6, 4, 5, 6))
    assert torch.equal(arranged(x, Attention("bgrqk")), x.view(2, 12, 5, 6))
    assert torch.equal(arranged(x[0, 0, 0], Attention("qk", heads=1)), x[0, 0, 0][None, None])
    assert arranged(x[0, 0, 0], Attention("bk", heads=1)).shape == (5, 1, 1, 6)
    with pytest.raises(ValueError, match="axes bhqk do not name the axes"):
        arranged(x, A)


def test_parts_are_joined_along_heads_or_queries_and_sinks_are_no_keys() -> None:
    parts = [torch.randn(BATCH, QUERIES, KEYS) for _ in range(4)]
    with Witness() as witness:
        for part in parts:
            part.softmax(-1)
    wanted = torch.stack([part.double().softmax(-1) for part in parts], 1)
    heads = joined(witness.events, Attention("bqk", parts=4))
    assert (heads - wanted).abs().max() < 1e-6
    rows = joined(witness.events, Attention("bqk", heads=1, parts=4, join="q"))
    assert (rows[:, 0] - wanted.flatten(1, 2)).abs().max() < 1e-6
    with Witness() as witness:
        torch.randn(BATCH, HEADS, QUERIES, KEYS).softmax(-1)
    assert joined(witness.events, Attention(sinks=2)).shape[-1] == KEYS - 2


def test_gradients_under_temperature_are_those_of_divided_scores() -> None:
    q, k, v = (x.requires_grad_() for x in qkv())
    wanted = torch.autograd.grad(((q @ k.mT / 2.5).softmax(-1) @ v).square().sum(), (q, k, v))
    with Witness((A,), Law("temperature", 2.5)):
        loss = ((q @ k.mT).softmax(-1) @ v).square().sum()
        got = torch.autograd.grad(loss, (q, k, v))
    assert max(float((a - b).abs().max()) for a, b in zip(got, wanted, strict=True)) < 1e-5


def test_the_witness_edits_what_is_computed_again() -> None:
    """Gradients under checkpointing, both kinds, are those without it."""

    def without(module: Any, x: Tensor) -> Tensor:
        x = x * module.start
        return x + module.wo(module.attend(x))

    for law in ("temperature", "head_off", "hidden_key", "cut_link"):
        once = oracle.witnessed(replace(STYLES["checkpoint_new"], run=without), law)
        for name in ("checkpoint_new", "checkpoint_old"):
            again = oracle.witnessed(STYLES[name], law)
            assert oracle.apart(again.gradients, once.gradients) < 1e-6, (law, name)
            assert len(again.witness.events) == 2


# ------------------------------------------------------------------ the scoreboard


@contextmanager
def showing(*weights: Tensor, said: tuple[str, ...] = ()) -> Iterator[Any]:
    """A probe that shows given weights."""
    run = oracle.Capture(unrecognised=list(said))
    yield run
    run.attentions += [record(one) for one in weights]


def record(weights: Tensor) -> Any:
    names = {"kind": "self", "layer": 0, "offset": 0, "heads": 4, "number": None}
    return SimpleNamespace(weights=weights, shape=tuple(weights.shape[2:]), **names)


def truth(name: str = "plain") -> Tensor:
    style = STYLES[name]
    return oracle.attentions(style, oracle.witnessed(style))[0][0].float()


NOTHING = "no attention found: nothing here multiplies a softmax of scores with values"
NO_VALUES = "a softmax in the model meets no values of its keys"


def test_what_is_shown_must_be_right_and_what_is_not_must_be_said_truly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = truth()
    for name, weights, said, verdict, axes in (
        ("the truth", (true,), (), "ok", "ok"),
        ("other numbers", (true + 0.01,), (), "wrong", "ok"),
        ("axes", (true.transpose(0, 1).reshape(true.shape),), (), "wrong", "exchanged"),
        ("heads as batch", (true.reshape(8, 1, 9, 9),), (), "wrong", "(8, 1, 9, 9)"),
        ("a map too many", (true, torch.eye(9).expand_as(true)), (), "wrong", "(2, 4, 9, 9)"),
        ("nothing, silently", (), (), "silent", "-"),
        ("nothing, and a falsehood", (), (NOTHING,), "silent", "-"),
        ("nothing, and the truth", (), (NO_VALUES,), "said", "-"),
        ("both", (), ("a softmax in the model is odd", "no attention found"), "silent", "-"),
    ):
        monkeypatch.setattr(oracle, "probe", lambda *_, w=weights, s=said: showing(*w, said=s))
        row = scoreboard.row(replace(STYLES["plain"], laws=()))
        assert (row.verdict, row.axes) == (verdict, axes), name


def test_an_error_in_other_words_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("Sizes of tensors must match.")

    monkeypatch.setattr(oracle, "probe", broken)
    assert scoreboard.row(STYLES["plain"]).verdict == "crash"


def test_what_cannot_run_here_is_told_from_what_is_wrong() -> None:
    def missing(module: nn.Module, x: Tensor) -> Tensor:
        raise OSError("no compiler")

    style = replace(STYLES["plain"], run=missing, needs="a compiler")
    rows, (lacking,) = scoreboard.measured([style, STYLES["plain"]])
    assert [row.style for row in rows] == ["plain"]
    assert "does not run here, for it needs a compiler" in lacking
    with pytest.raises(RuntimeError, match="plain does not run here: OSError"):
        scoreboard.row(replace(style, needs=""))


def test_an_error_in_own_words_is_told_from_others() -> None:
    module = nn.Linear(2, 2)
    edits = oracle.Intervention((oracle.edit_of("temperature", STYLES["plain"]),))
    with pytest.raises(ValueError, match="matches no place") as own, oracle.probe(module, edits):
        pass
    assert oracle.in_own_words(own.value)
    with pytest.raises(RuntimeError) as other, oracle.probe(module):
        module(torch.randn(3))
    assert not oracle.in_own_words(other.value)


def test_an_edit_without_effect_and_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that shows the truth and edits nothing; or the neighbour of the right head."""
    style, true = replace(STYLES["plain"], laws=("head_off",)), truth()
    monkeypatch.setattr(oracle, "probe", lambda *_: showing(true))
    assert scoreboard.row(style).head_off == "no effect"

    @contextmanager
    def neighbour(module: nn.Module, edits: Any) -> Iterator[Any]:
        law = Law("weights_off", index=2) if edits else None
        with showing(true) as run, Witness((A,), law):
            yield run

    monkeypatch.setattr(oracle, "probe", neighbour)
    row = scoreboard.row(style)
    assert row.verdict == "wrong"
    assert row.head_off.startswith("off ")


def test_a_changed_module_and_random_numbers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(module: nn.Module) -> None:
        module.norm.calls += 1  # type: ignore[union-attr,operator]

    for name, touch, unchanged in (
        ("norm_counts", count, "calls norm 1 -> 2"),
        ("plain", lambda module: torch.rand(1), "random numbers were consumed"),
    ):
        true = truth(name)

        @contextmanager
        def touching(module: nn.Module, *_: Any, touch=touch, true=true) -> Iterator[Any]:
            touch(module)
            with showing(true) as run:
                yield run

        monkeypatch.setattr(oracle, "probe", touching)
        row = scoreboard.row(replace(STYLES[name], laws=()))
        assert (row.verdict, row.unchanged) == ("wrong", unchanged)


# ------------------------------------------------------------------ the catalogue


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_the_witness_accounts_for_every_softmax_and_its_laws_make_a_difference(step: int) -> None:
    """It changes nothing of its own accord; a law without effect would let an idle probe pass."""
    for style in list(STYLES.values())[::step]:
        seen, before = oracle.witnessed(style), oracle.unwatched(style)
        assert seen.error is None, (style.name, seen.error)
        assert len(seen.witness.events) == len(oracle.roles(style.truth)), style.name
        if style.plain is None:
            assert scoreboard.apart_from(seen, before) == 0, style.name
            assert torch.equal(seen.random, before.random), style.name
        for law in style.asked if style.attentions else ():
            after = oracle.witnessed(style, law)
            assert after.error is None, (style.name, law, after.error)
            assert scoreboard.apart_from(after, before) > 1e-3, (style.name, law)


def test_the_catalogue_covers_the_known_faults() -> None:
    rows = {style.row for style in STYLES.values()}
    assert {f"S{number}" for number in range(1, 20)} | {"section 3"} <= rows
    assert len(STYLES) >= 120
    assert [style.name for style in STYLES.values() if not style.about] == []
