"""Words that do not fit are named, whether a config or the user gave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.cases import each
from transformer_viz.checkpoints import CheckpointError, load

from ..test_loader import BOTH, ramp_model

BAD_WORDS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown word": ({"hedas": 3}, "Unknown configuration word 'hedas'"),
    "kind of value": ({"heads": "3"}, "heads needs a whole number from 0; got '3'"),
    "truth": ({"gated": 1}, "gated needs true or false; got 1"),
    "choice": ({"norm": "sideways"}, "norm='sideways' is not supported"),
    "does not divide": ({"heads": 5}, "cannot be split"),
    "other size": (
        {"d_model": 24},
        r"is \[17, 12\] in w\.pt, but the rest of the model makes it \[17, 24\]",
    ),
    "huge table": ({"max_positions": 10**12}, "a position table of 12,000,000,000,000 numbers"),
    "endless matrix": ({"d_ff": 10**13}, "d_ff=10000000000000 is too large"),
    "endless layers": ({"decoder_layers": 10**12}, "asks for 1000000000002 layers, but w.pt holds"),
    "tie": ({"tied": "all"}, "holds two different matrices; override tied="),
}


def test_overrides_that_do_not_fit_are_named(tmp_path: Path) -> None:
    def check_refusal(path: Path, message: str, words: dict[str, Any]) -> None:
        with pytest.raises(CheckpointError, match=message):
            load(path, device="cpu", **words)

    path = tmp_path / "w.pt"
    torch.save(ramp_model().state_dict(), path)
    each(BAD_WORDS.items(), lambda case: check_refusal(path, case[1], BOTH | case[0]))
    check_refusal(path, r"lacks 'd_model'.*give the words as overrides", {})
    state = ramp_model().state_dict()
    state["decoder.norm.biass"] = state.pop("decoder.norm.bias")
    torch.save(state, path)
    check_refusal(path, r"the nearest name is decoder\.norm\.biass", BOTH)
