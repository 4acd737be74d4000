"""`from_attentions(outputs, tokens)` for relatives of the families in tests/families."""

from __future__ import annotations

import pytest
import torch
import transformers

import transformer_viz as tv
from tests.families.catalogue import TEXT
from tests.families.more import MORE, REFUSED

from .outputs import IDS, given_weights_are_the_captured_ones, given_weights_are_those_of_a_trace

pytestmark = pytest.mark.families
#: What outputs hold: nothing, or numbers that are not a weight for each pair of words.
NOTHING = {"mamba", "mamba2", "falcon_mamba", "fnet", "mra"}
OTHERWISE = {"rwkv": "32 columns", "longformer": "5 columns", "yoso": "32 columns"}


@pytest.mark.parametrize("part", range(3))
def test_given_weights_are_captured_and_traced(part: int) -> None:
    failed = {}
    for family in MORE[part::3]:
        try:
            given_weights_are_the_captured_ones(family, "eager")
            if family in MORE[::6]:  # each is opened from a folder
                given_weights_are_those_of_a_trace(family, "eager")
        except AssertionError as error:
            failed[family.name] = str(error)
    assert failed == {}
    assert len(MORE) >= 60


def test_outputs_without_weights_of_words_are_refused() -> None:
    for name in (*NOTHING, *OTHERWISE):
        cls, words = REFUSED[name]
        config = getattr(transformers, f"{cls}Config")(**(TEXT | words))
        torch.manual_seed(1)
        module = getattr(transformers, f"{cls}Model")(config).eval()
        takes = name not in ("mamba", "mamba2", "falcon_mamba", "fnet")
        out = module(torch.tensor([IDS]), **({"output_attentions": True} if takes else {}))
        said = "holds no weights" if name in NOTHING else OTHERWISE[name]
        with pytest.raises(ValueError, match=said):
            tv.from_attentions(out, [f"w{n}" for n in range(len(IDS))])
            pytest.fail(name)
