"""Cost of a proof: bytes alive and passes; and a shorter pass sees as much."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import transformer_viz as tv
from tests.foreign.blind_spots import WORDS, Attention, Model, causal, strong
from transformer_viz.inference import run_card
from transformer_viz.inference.proof import exchanging
from transformer_viz.inference.proof.kernels import flat

TOKENS, LAYERS, HEADS, VOCABULARY = 128, 12, 4, 2500
MOST_FIRST, MOST_LATER = 8, 3  # forward passes, DESIGN section 4


class Alive(TorchDispatchMode):
    """Counts the bytes of the tensors that calls made and that are still alive, at their height."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[StorageWeakRef, int] = {}
        self.now = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in flat(out):
            place = StorageWeakRef(x.untyped_storage())
            if place not in self.sizes:
                self.sizes[place] = x.untyped_storage().nbytes()
                self.now += self.sizes[place]
        if self.now > self.most:
            self.sizes = {x: size for x, size in self.sizes.items() if not x.expired()}
            self.now = sum(self.sizes.values())
            self.most = max(self.most, self.now)
        return out


def test_a_proof_holds_less_than_three_copies_of_the_maps(monkeypatch) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    monkeypatch.setattr(exchanging, "LEAST", 0)  # small texts may fill larger batches
    torch.manual_seed(0)
    sizes = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": 16, "vocab_size": VOCABULARY}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    module = GPT2LMHeadModel(config).eval()
    model, passes = tv.load(module), []
    module.register_forward_pre_hook(lambda *_: passes.append(1))
    maps, logits = 4 * LAYERS * HEADS * TOKENS**2, 4 * TOKENS * VOCABULARY
    most = {}
    for name, check in (("unchecked", False), ("first", True), ("later", True)):
        ids = torch.randint(1, VOCABULARY, (TOKENS,)).tolist()
        passes.clear()
        with Alive() as alive:
            report = tv.trace(model, ids, check=check).report
        most[name] = alive.most, len(passes)
        assert report.status == ("green" if check else "unchecked"), (name, report.untold)
    free, _ = most["unchecked"]
    assert most["first"][0] - free < 3 * maps + logits, most
    assert most["later"][0] - free < 2 * maps + logits, most
    assert most["first"][1] <= MOST_FIRST and most["later"][1] <= MOST_LATER, most


class Ended(Model):
    """A model with something in front of its output layer, or behind it."""

    def __init__(self, before: Any = None, after: Any = None, hooked: Any = None):
        super().__init__(Attention(causal), Attention(causal))
        self.before, self.after = before, after
        if hooked is not None:
            self.head.register_forward_pre_hook(lambda part, given: (hooked(given[0]),))

    def forward(self, ids: Tensor) -> Tensor:
        if self.before is not None:
            self.behind = lambda model, x: self.before(x)
        x = super().forward(ids)
        return x if self.after is None else self.after(x)


def test_mixing_around_the_output_layer_is_seen_without_its_output(monkeypatch) -> None:
    def mixes(x: Tensor) -> Tensor:
        return x + 0.5 * x.cumsum(1)

    text, linear = list(range(3, 15)), torch.nn.functional.linear
    for name, words, sound, cut in (
        ("nothing", {}, True, True),
        ("each row alone in front", {"before": torch.tanh}, True, True),
        ("each row alone behind", {"after": torch.tanh}, True, False),
        ("mixing in front", {"before": mixes}, False, True),
        ("mixing behind", {"after": mixes}, False, False),
        ("mixing in place behind", {"after": lambda x: x.add_(x.cumsum(1))}, False, False),
        ("mixing in a hook", {"hooked": mixes}, False, False),
    ):
        model = tv.load(strong(Ended(**words)))
        seen: list[int] = []

        def counted(x: Tensor, weight: Tensor, bias: Tensor | None = None, seen=seen) -> Tensor:
            if weight.shape[0] == WORDS:
                seen.append(x.shape[:-1].numel())
            return linear(x, weight, bias)

        with monkeypatch.context() as patch:
            patch.setattr(torch.nn.functional, "linear", counted)
            report = tv.trace(model, text).report
        assert (report.status == "green") == sound, (name, report.untold)
        assert (1 in seen) == cut, (name, seen)
        assert sound or any("output" in why for why in report.untold), (name, report.untold)


def test_the_hash_of_weights_in_memory_is_remembered_while_they_stay(monkeypatch) -> None:
    module = strong(Model(Attention()))
    model, made = tv.load(module), []
    whole = run_card._hash_of
    monkeypatch.setattr(run_card, "_hash_of", lambda m: made.append(1) or whole(m))
    first = run_card.hash_of(model)
    assert run_card.hash_of(model) == first == whole(model) and len(made) == 1

    def replaced() -> None:
        module.words.weight = nn.Parameter(module.words.weight.detach().clone() + 1)

    added = lambda: module.head.weight.detach().add_(1)  # noqa: E731
    for change in (added, lambda: module.head.bias.data.mul_(2), replaced):
        before = run_card.hash_of(model)
        change()
        assert run_card.hash_of(model) == whole(model) != before, change
