"""Models of other code: what is told is the run's own, and what is not known is not told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import transformer_viz as tv
from tests.support.cases import case
from tests.support.refusals import refuses
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Edit, Intervention, ScaleHead, Temperature, Window
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.stages import NO_PRODUCT, PROBLEM
from transformer_viz.walkthrough import step_inside, terms

from .laws import CLOSE, hold_form, hold_sums, same, worst

IDS = [4, 9, 30, 7, 2]
KEPT: dict[str, Any] = {"keep": ("scores", "qkv"), "check": False}


class Vectors(nn.Module):
    """PyTorch's own encoder over embeddings."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(31, 20)
        layer = nn.TransformerEncoderLayer(20, 4, 29, batch_first=True)
        self.core = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        return self.core(self.embedding(source))


class Additive(nn.Module):
    """Attention whose scores are no product of q and k."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embedding = nn.Embedding(31, 20)
        self.parts = nn.ModuleList(nn.Linear(20, 20) for _ in range(3))
        self.vector = nn.Parameter(torch.randn(20))

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        x = self.embedding(source)
        q, k, v = (part(x) for part in self.parts)
        pairs = torch.tanh(q[:, None, :, None] + k[:, None, None])  # [batch, 1, query, key, width]
        weights = torch.softmax(pairs @ self.vector, dim=-1)
        return x + (weights @ v[:, None])[:, 0]


def library(family: str) -> nn.Module:
    """Return a tiny random model of the transformers library, its heads 8 wide."""
    import transformers

    torch.manual_seed(1)
    words: dict[str, Any] = {"vocab_size": 37}
    if family == "gpt2":
        config: Any = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, **words)
    else:
        words |= {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 41}
        words["num_attention_heads"] = 4
        if family == "bert":
            config = transformers.BertConfig(**words)
        else:  # two heads share their keys
            config = transformers.LlamaConfig(num_key_value_heads=2, **words)
    return transformers.AutoModel.from_config(config)


def hold_to_run(model: Model, name: str, width: int, *edits: Edit) -> None:
    """Hold a chain to its run from q and k on: each stage's input is the one's before."""
    changes = Intervention(edits)
    site, run = Site(*MAPS[name], 1, 1), tv.trace(model, IDS, intervention=changes, **KEPT)
    chain = step_inside(model, IDS, site=site, row=2, intervention=changes)
    assert chain.problem == PROBLEM
    hold_form(chain)
    block, between = run.block(name, 1), chain["between"]
    same(chain["mix"]["x"], block.weights[1, 2])
    product = chain["score"]["k"].astype(np.float64) @ chain["score"]["q"].astype(np.float64)
    assert worst(chain["score"]["out"], product) <= CLOSE
    same(between["x"], chain["score"]["out"])
    assert block.scores is not None
    same(between["out"], block.scores[1, 2, : block.weights.shape[-1]])
    assert between.numbers["scale"] == pytest.approx(width**-0.5, rel=1e-6)
    seen = between["seen"] > 0
    made = product[seen] * between.numbers["scale"] / between.numbers["temperature"]
    assert worst(made, between["out"][seen]) <= CLOSE
    hold_sums(model, chain, most=4)
    softmax = [stage.name for stage in chain if stage.kind == "softmax"]
    assert softmax == ([] if "scale_head" in changes.to_json() else ["softmax.self"])
    assert not softmax or edits or chain["softmax"].words["form"] == "soft"


def test_other_code_is_told_from_q_and_k_on():
    model = tv.load(Vectors(), device="cpu")
    for edits in ((), (Temperature(value=3.0), Window(radius=1)), (ScaleHead(value=0.5),)):
        with case("PyTorch", edits):
            hold_to_run(model, "encoder", 5, *edits)
    for family in ("gpt2", "bert", "llama"):
        with case(family):
            name = "encoder" if family == "bert" else "decoder"
            hold_to_run(tv.load(library(family), device="cpu"), name, 8)


def test_scores_that_are_no_product_are_not_told():
    model = tv.load(Additive(), device="cpu")
    chain = step_inside(model, IDS, site=Site("encoder", "self", 0, 0), row=3)
    assert chain.problem == NO_PRODUCT
    assert [stage.kind for stage in chain] == ["softmax", "mix"]
    block = tv.trace(model, IDS, **KEPT).block("encoder", 0)
    assert block.v is not None
    same(chain["mix"]["x"], block.weights[0, 3])
    same(chain["mix"]["v"], block.v[0])
    hold_sums(model, chain, most=4)


def test_a_number_that_is_no_sum_and_a_place_that_the_model_lacks_are_named():
    model = tv.load(Vectors(), device="cpu")
    chain = step_inside(model, IDS, site=Site("encoder", "self", 1, 1), row=2)
    number = chain.number("between.self/out/1")
    said = r"between\.self/out/1 is no sum that can be opened"
    refuses(said, terms, model, chain, number, error=LookupError)
    for site, row, text in (
        (Site("decoder", "cross", 0, 0), 0, "its maps are encoder"),
        (Site("encoder", "self", 2, 0), 0, "This model has no encoder L2 H0"),
        (Site("encoder", "self", 0, 4), 0, "heads 0 to 3; got 4"),
        (Site("encoder", "self", 0, 0), 5, "rows 0 to 4; got 5"),
    ):
        refuses(text, step_inside, model, IDS, site=site, row=row, error=LookupError)
