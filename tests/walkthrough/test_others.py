"""Models of other code: what is told is the run's own, and what is not known is not told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, ScaleHead, Temperature, Window
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.stages import NO_PRODUCT, PROBLEM, Walkthrough
from transformer_viz.walkthrough import step_inside, terms

from .laws import CLOSE, hold_form, hold_sums, worst


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


def hold_to_run(chain: Walkthrough, run: tv.Trace) -> None:
    """Weights, scores, q, k and v are the run's; each stage's input is the one's before."""
    block = run.block(chain.site.map, chain.site.layer)
    head, row = chain.site.head or 0, chain.row
    assert np.array_equal(chain["mix"]["x"], block.weights[head, row])
    product = chain["score"]["k"].astype(np.float64) @ chain["score"]["q"].astype(np.float64)
    assert worst(chain["score"]["out"], product) <= CLOSE
    assert np.array_equal(chain["between"]["x"], chain["score"]["out"])
    assert block.scores is not None
    keys = len(block.weights[head, row])
    assert np.array_equal(chain["between"]["out"], block.scores[head, row, :keys])
    scale = chain["between"].numbers["scale"]
    if scale:
        seen = chain["between"]["seen"] > 0
        made = product[seen] * scale / chain["between"].numbers["temperature"]
        assert worst(made, chain["between"]["out"][seen]) <= CLOSE


def chain_of(model: Model, ids: Any, name: str, edits: Intervention, row: int = 2) -> Walkthrough:
    site = Site(*MAPS[name], 1, 1)
    return step_inside(model, ids, site=site, row=row, intervention=edits)


@pytest.mark.parametrize(
    "edits",
    [
        Intervention(),
        Intervention((Temperature(value=3.0), Window(radius=1))),
        Intervention((ScaleHead(value=0.5),)),
    ],
    ids=["clean", "edited", "scaled"],
)
def test_pytorchs_own_encoder_is_told_from_q_and_k_on(edits):
    model, ids = tv.load(Vectors(), device="cpu"), [4, 9, 30, 7, 2]
    chain = chain_of(model, ids, "encoder", edits)
    run = tv.trace(model, ids, intervention=edits, keep=("scores", "qkv"))
    assert chain.problem == PROBLEM
    hold_form(chain)
    hold_to_run(chain, run)
    hold_sums(model, chain, most=4)
    assert chain["between"].numbers["scale"] == pytest.approx(5**-0.5, rel=1e-6)
    softmax = [stage.name for stage in chain if stage.kind == "softmax"]
    assert softmax == ([] if "scale_head" in edits.to_json() else ["softmax.self"])


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_models_of_the_transformers_library(family):
    import transformers

    torch.manual_seed(1)
    words: dict[str, Any] = {"vocab_size": 37}
    if family == "gpt2":
        config: Any = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, **words)
    elif family == "bert":
        config = transformers.BertConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=41,
            **words,
        )
    else:  # two heads share their keys
        config = transformers.LlamaConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=41,
            **words,
        )
    module = transformers.AutoModel.from_config(config)
    name = "encoder" if family == "bert" else "decoder"
    model, ids = tv.load(module, device="cpu"), [4, 9, 30, 7, 2]
    chain = chain_of(model, ids, name, Intervention())
    assert chain.problem == PROBLEM
    hold_form(chain)
    hold_to_run(chain, tv.trace(model, ids, keep=("scores", "qkv")))
    assert chain["between"].numbers["scale"] == pytest.approx(8**-0.5, rel=1e-6)
    assert chain["softmax"].words["form"] == "soft"
    hold_sums(model, chain, most=4)


def test_scores_that_are_no_product_are_not_told():
    model, ids = tv.load(Additive(), device="cpu"), [4, 9, 30, 7, 2]
    site = Site("encoder", "self", 0, 0)
    chain = step_inside(model, ids, site=site, row=3)
    assert chain.problem == NO_PRODUCT
    assert [stage.kind for stage in chain] == ["softmax", "mix"]
    block = tv.trace(model, ids, keep=("scores", "qkv")).block("encoder", 0)
    assert np.array_equal(chain["mix"]["x"], block.weights[0, 3])
    assert block.v is not None
    assert np.array_equal(chain["mix"]["v"], block.v[0])
    hold_sums(model, chain, most=4)


def test_a_number_that_is_no_sum_says_so():
    model, ids = tv.load(Vectors(), device="cpu"), [4, 9, 30, 7, 2]
    chain = chain_of(model, ids, "encoder", Intervention())
    with pytest.raises(LookupError, match=r"between\.self/out/1 is no sum that can be opened"):
        terms(model, chain, chain.number("between.self/out/1"))


def test_a_place_that_the_model_lacks_is_named():
    model, ids = tv.load(Vectors(), device="cpu"), [4, 9, 30, 7, 2]
    for site, row, text in (
        (Site("decoder", "cross", 0, 0), 0, "its maps are encoder"),
        (Site("encoder", "self", 2, 0), 0, "This model has no encoder L2 H0"),
        (Site("encoder", "self", 0, 4), 0, "heads 0 to 3; got 4"),
        (Site("encoder", "self", 0, 0), 5, "rows 0 to 4; got 5"),
    ):
        with pytest.raises(LookupError, match=text):
            step_inside(model, ids, site=site, row=row)
