"""Modules of one's own in many styles of writing: what they are, and how they are called.

Witness: each module's own call with the inputs that its author would give, and the weights that
its attentions keep meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transformer_viz as tv
from transformer_viz.checkpoints.files.errors import CheckpointError

from .own_models import VS as V
from .own_models import D, H, Handwritten

IDS, TARGET = [4, 8, 15, 16, 3], [2, 7, 9]
SOURCE, OTHER = torch.tensor([IDS]), torch.tensor([TARGET])
SEEN, AHEAD = torch.ones(1, 5, dtype=torch.bool), torch.ones(5, 5).tril().bool()
LATER = torch.ones(3, 3).tril().bool()
TUTORIAL = (SOURCE.T, OTHER.T, ~AHEAD & False, ~LATER, ~SEEN, ~SEEN[:, :3], ~SEEN)


class Gpt(nn.Module):
    """The last row alone without targets, as nanoGPT."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(16, D)
        self.attend, self.head = Handwritten(True), nn.Linear(D, V)

    def states(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        ahead = torch.ones(ids.shape[1], ids.shape[1]).tril() if mask is None else mask
        return x + self.attend(x, x, ahead)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> Any:
        if targets is None:
            return self.head(self.states(idx)[:, [-1]]), None
        logits = self.head(self.states(idx))
        return logits, F.cross_entropy(logits.view(-1, V), targets.view(-1))


class Flat(Gpt):
    def forward(self, idx: Tensor, targets: Tensor | None = None) -> Any:
        logits = self.head(self.states(idx))
        return {"loss": logits.mean(), "logits": logits.log_softmax(-1).flatten(0, 1)}


class Outside(Gpt):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.states(x, mask))


class Unnamed(Gpt):
    """A mask ``[batch, key]`` without a telling name, true where a token is hidden."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head(self.states(a, ~b[:, None, None]))[:, :, :3].mean(1)


class Numbers(Gpt):
    """A mask that must be a number, and labels that may be None."""

    def forward(self, ids: Tensor, keep: Tensor, labels: Tensor) -> Any:
        x = self.states(ids, 1.0 - (1 - keep[:, None, None]))
        logits = self.head(x)[:, 0, :3]
        return (logits,) if labels is None else (F.cross_entropy(logits, labels), logits)


class TokensFirst(nn.Module):
    """PyTorch's tutorial: tokens first, causal by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(V, D), nn.Parameter(torch.randn(20, 1, D))
        self.core = nn.TransformerEncoderLayer(D, H, 32, 0.0)
        self.head = nn.Linear(D, V)

    def forward(self, src: Tensor) -> Tensor:
        ahead = nn.Transformer.generate_square_subsequent_mask(len(src))
        return self.head(self.core(self.words(src) + self.places[: len(src)], ahead))


class Pair(nn.Module):
    """The Annotated Transformer: states, with a generator that forward leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(V, D), nn.Embedding(V, D)
        self.places = nn.Parameter(torch.randn(20, D))
        self.own, self.cross, self.read = Handwritten(True), Handwritten(True), Handwritten(True)
        self.generator = nn.Sequential(nn.Linear(D, V), nn.LogSoftmax(-1))

    def states(self, src: Tensor, tgt: Tensor, seen: Any, later: Any) -> Tensor:
        x = self.source(src) + self.places[: src.shape[1]]
        y = self.target(tgt) + self.places[: tgt.shape[1]]
        x = x + self.read(x, x, seen)
        y = y + self.own(y, y, later)
        return y + self.cross(y, x, seen)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        return self.states(src, tgt, src_mask[:, None], tgt_mask[:, None])


class Strict(Pair):
    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        assert c.shape[1:3] == (1, 1) and d.shape[1] == 1 and c.dtype == d.dtype == torch.bool
        return self.generator(self.states(a, b, c, d))


class Inside(Pair):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.generator(self.states(a, b, None, torch.ones(2 * b.shape[1:]).tril()))


class TargetFirst(Inside):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return super().forward(b, a)


class Torch(nn.Module):
    """The masks of PyTorch's translation tutorial, all needed, tokens first."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(V, D)
        self.core, self.head = nn.Transformer(D, H, 1, 1, 32, 0.0), nn.Linear(D, V)

    def forward(self, src: Tensor, trg: Tensor, src_mask: Tensor, tgt_mask: Tensor,
                src_padding_mask: Tensor, tgt_padding_mask: Tensor,
                memory_key_padding_mask: Tensor) -> Tensor:  # fmt: skip
        padding = (src_padding_mask, tgt_padding_mask, memory_key_padding_mask)
        x, y = self.words(src), self.words(trg)
        return self.head(self.core(x, y, src_mask, tgt_mask, None, *padding))


class Batched(Pair):
    def forward(self, batch: Any) -> Tensor:
        return self.generator(
            self.states(batch.src, batch.tgt, batch.src_mask[:, None], batch.tgt_mask[:, None])
        )


class Keyed(Gpt):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.head(self.states(batch["ids"], batch["mask"][:, None, None]))


class WrappedObject(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        return self.inner(SimpleNamespace(src=src, tgt=tgt, src_mask=src_mask, tgt_mask=tgt_mask))


class Segments(Gpt):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        x = self.words(a) + self.places(b)
        return self.head(x + self.attend(x, x, None))


def wrapped() -> nn.Module:
    return WrappedObject(Batched())


ONE, TWO, BOTH = "decoder-only", "encoder-only", "encoder-decoder"
CASES: list[tuple[Callable[[], Any], dict[str, str], str, str, Callable[[Any], Tensor]]] = [
    (Gpt, {}, ONE, "words", lambda m: m(SOURCE, SOURCE)[0]),
    (Gpt, {"kind": TWO}, TWO, "words", lambda m: m(SOURCE, SOURCE)[0]),
    (Flat, {}, ONE, "words", lambda m: m(SOURCE)["logits"][None]),
    (TokensFirst, {}, ONE, "words", lambda m: m(SOURCE.T).transpose(0, 1)),
    (Outside, {}, TWO, "words", lambda m: m(SOURCE, torch.ones_like(AHEAD))),
    (Outside, {"kind": ONE}, ONE, "words", lambda m: m(SOURCE, AHEAD)),
    (Unnamed, {}, TWO, "classes", lambda m: m(SOURCE, ~SEEN)),
    (Unnamed, {"kind": TWO, "task": "multi_label"}, TWO, "classes", lambda m: m(SOURCE, ~SEEN)),
    (Numbers, {}, TWO, "classes", lambda m: m(SOURCE, SEEN.long(), None)[0]),
    (Inside, {}, BOTH, "words", lambda m: m(SOURCE, OTHER)),
    (Inside, {"kind": BOTH}, BOTH, "words", lambda m: m(SOURCE, OTHER)),
    (TargetFirst, {}, BOTH, "words", lambda m: m(OTHER, SOURCE)),
    (Pair, {}, BOTH, "words", lambda m: m.generator(m(SOURCE, OTHER, SEEN[:, None], LATER[None]))),
    (Strict, {}, BOTH, "words", lambda m: m(SOURCE, OTHER, SEEN[:, None, None], LATER[None, None])),
    (wrapped, {}, BOTH, "words", lambda m: m(SOURCE, OTHER, SEEN[:, None], LATER[None])),
    (Torch, {}, BOTH, "words", lambda m: m(*TUTORIAL).transpose(0, 1)),
    (Segments, {"kind": TWO}, TWO, "words", lambda m: m(SOURCE, 0 * SOURCE)),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:Support for mismatched")
def test_a_module_is_what_its_trial_shows_and_is_called_as_its_author_calls_it() -> None:
    for make, words, kind, gives, call in CASES:
        case = (make.__name__, words)
        torch.manual_seed(0)
        module = make().eval()
        model = tv.load(module, **words)
        assert (model.kind, model.gives) == (kind, gives), case
        trace = tv.trace(model, IDS, TARGET if kind == BOTH else None, check=False)
        with torch.inference_mode():
            expected = call(module)[0].numpy()
        assert trace.logits is not None and trace.logits.shape == expected.shape, case
        assert np.abs(trace.logits - expected).max() < 1e-5, case
        kept = {name: m.seen for name, m in module.named_modules() if isinstance(m, Handwritten)}
        for name, weights in kept.items():
            ends = {"own": "decoder", "cross": "cross"}
            ahead = bool(weights.triu(1).any())  # the probe names a stack by what it does
            block = ends.get(name.split(".")[-1], "encoder" if ahead else "decoder")
            assert np.abs(trace.attention(block)[0] - weights[0].numpy()).max() < 1e-6, (case, name)
        if kind == ONE and not words:
            assert model.provenance["kind"] == "module", case
            assert any("no token looks at a later one" in note for note in model.notes), case


def test_padding_is_hidden_in_the_form_that_the_module_takes() -> None:
    padded, seen = torch.tensor([[*IDS, 0, 0]]), torch.tensor([[True] * 5 + [False] * 2])
    for make, call in (
        (Pair, lambda m: m.generator(m(padded, OTHER, seen[:, None], LATER[None]))),
        (Strict, lambda m: m(padded, OTHER, seen[:, None, None], LATER[None, None])),
        (Unnamed, lambda m: m(padded, ~seen)),
        (Numbers, lambda m: m(padded, seen.long(), None)[0]),
    ):
        module = make().eval()
        model = tv.load(module, pad_id=0)
        other = OTHER if model.kind == BOTH else None
        with torch.inference_mode():
            given = model.calls.forward(padded, other, seen)
            assert torch.allclose(given, call(module), atol=1e-6), make.__name__


def test_inputs_that_cannot_be_told_are_refused_with_what_to_do() -> None:
    for make, words, said in (
        (Segments, {}, r"forward\(a, b\) needs b, and no trial shows .* Give kind="),
        (Segments, {"kind": BOTH}, r"needs a forward that takes a source and a target"),
        (Gpt, {"kind": BOTH}, r"needs a forward that takes a source and a target"),
        (Batched, {}, r"reads batch.src, batch.tgt, batch.src_mask, .*SimpleNamespace\(src=src"),
        (Keyed, {}, r'forward\(ids, mask\) returns inner\({"ids": ids, "mask": mask}\)'),
    ):
        with pytest.raises(CheckpointError, match=said):
            tv.load(make(), **words)
