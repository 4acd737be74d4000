"""`from_attentions(outputs, tokens)` is what `tv.trace` shows of the same model, opened from its
folder; and outputs of models that give no weights of words are refused in a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

import transformer_viz as tv
from tests.families.catalogue import FAMILIES, TEXT, Family, built
from tests.families.more import MORE, REFUSED
from tests.families.table import AT_ODDS, opened
from tests.support.versions import at_most
from transformer_viz.checkpoints import Model

pytestmark = pytest.mark.families
IDS = (5, 9, 33, 12, 5, 40, 61, 7)
#: Rows that sum to less than 1 beside a learned sink, which takes the rest.
SINKS = ("gpt_oss",)
#: Its fused code, asked for weights, returns those of other numbers: without the causal mask.
EAGER_ONLY = ["falcon"]
if at_most("transformers", "5.22"):  # there the two halves of T5 do not hear of the other code
    EAGER_ONLY.append("t5")
#: Readers of text; of those with fewer laws every sixth, since each is opened from a folder.
READERS = [
    family
    for family in (*FAMILIES, *MORE[::6])
    if family.inputs in ("text", "pair") and family.name not in AT_ODDS
]


def test_there_are_enough_families() -> None:
    assert len(READERS) >= 40


@pytest.mark.parametrize("family", READERS, ids=str)
def test_given_weights_are_what_a_trace_shows(family: Family) -> None:
    model = opened(family)
    assert isinstance(model, Model), model
    module = model.module
    if family.name in EAGER_ONLY:
        module = built(family)
    else:
        module.set_attn_implementation("eager")  # fused attention returns no weights
    trace = tv.trace(model, " ".join(map(str, IDS)))
    ids = {"input_ids": torch.tensor([trace.source.ids])}
    if trace.target is not None:
        ids["decoder_input_ids"] = torch.tensor([trace.target.ids])
    with torch.inference_mode():
        out = module(**ids, output_attentions=True)
    target = None if trace.target is None else trace.target.labels
    sums = family.name not in SINKS
    mine = tv.from_attentions(out, trace.source.labels, target_tokens=target, check_sums=sums)
    assert len(mine.maps) == len(trace.maps)
    for given, seen in zip(mine.maps, trace.maps, strict=True):
        theirs, ours = mine.blocks(given), trace.blocks(seen)
        assert len(theirs) == len(ours)
        for a, b in zip(theirs, ours, strict=True):
            assert a.weights is not None and b.weights is not None
            assert np.abs(a.weights - b.weights).max() <= 2e-6


#: What their outputs hold: nothing, or numbers that are not a weight for each pair of words.
NOTHING = {"mamba", "mamba2", "falcon_mamba", "fnet", "mra"}
OTHERWISE = {"rwkv": "32 columns", "longformer": "5 columns", "yoso": "32 columns"}


@pytest.mark.parametrize("name", [*sorted(NOTHING), *OTHERWISE])
def test_outputs_without_weights_of_words_are_refused(name: str) -> None:
    cls, words = REFUSED[name]
    config = getattr(transformers, f"{cls}Config")(**(TEXT | words))
    torch.manual_seed(1)
    module = getattr(transformers, f"{cls}Model")(config).eval()
    takes = name not in ("mamba", "mamba2", "falcon_mamba", "fnet")
    asked = {"output_attentions": True} if takes else {}
    out = module(torch.tensor([IDS]), **asked)
    said = "holds no weights" if name in NOTHING else OTHERWISE[name]
    with pytest.raises(ValueError, match=said):
        tv.from_attentions(out, [f"w{n}" for n in range(len(IDS))])
