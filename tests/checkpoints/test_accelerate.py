"""Models spread over devices and disk by accelerate compute what they compute in one place."""

from __future__ import annotations

from pathlib import Path

import accelerate  # noqa: F401 - the library loads it by itself
import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.support.versions import at_most
from transformer_viz.checkpoints import CheckpointError

from .hugging_face import CASES, IDS, folder_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(CASES["llama"], "safetensors", tmp_path / "llama")


def logits(folder: Path, **words: object) -> torch.Tensor:
    with torch.inference_mode():
        return tv.load(folder, **words).calls.forward(IDS[:1])


def test_a_roomy_map_changes_nothing(folder):
    alone = logits(folder, device="cpu")
    for words in ({"device": "auto"}, {"max_memory": {"cpu": "1GB"}}):
        assert torch.equal(logits(folder, **words), alone)


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(
            100,
            marks=pytest.mark.skipif(
                at_most("accelerate", "1.14"), reason="it cannot put a whole model on disk"
            ),
        ),
        15_000,
    ],
)
def test_what_has_no_room_lies_on_disk(room, folder, tmp_path):
    words = {"max_memory": {"cpu": room}, "offload_folder": tmp_path / "rest"}
    model = tv.load(folder, **words)
    assert any(p.is_meta for p in model.module.parameters())
    assert model.device == "cpu"
    with torch.inference_mode():
        assert torch.equal(model.calls.forward(IDS[:1]), logits(folder, device="cpu"))
    ids = IDS[0].tolist()
    found, alone = tv.trace(model, ids), tv.trace(tv.load(folder, device="cpu"), ids)
    assert (found.report.status, alone.report.status) == ("green", "green")
    for one, other in zip(found.attentions, alone.attentions, strict=True):
        assert np.array_equal(one.weights, other.weights)


def test_no_room_and_no_folder(folder):
    with pytest.raises(CheckpointError, match="does not fit into what max_memory allows"):
        tv.load(folder, max_memory={"cpu": 100})


def test_room_that_is_no_size(folder):
    with pytest.raises(CheckpointError, match=r"accelerate cannot spread the model so: .*lots"):
        tv.load(folder, max_memory={"cpu": "lots"})
