"""Models that accelerate spreads over devices and disk compute the same numbers."""

from __future__ import annotations

import accelerate  # noqa: F401 - the library loads it by itself
import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.support.versions import at_most

from .hugging_face import CASES, IDS, folder_of
from .opening import refused


@pytest.mark.slow
def test_spreading_a_model_changes_no_number(tmp_path):
    folder = folder_of(CASES["llama"], "safetensors", tmp_path / "llama")
    alone = tv.load(folder, device="cpu")
    ids = IDS[0].tolist()
    expected = tv.trace(alone, ids)
    with torch.inference_mode():
        logits = alone.calls.forward(IDS[:1])
    # accelerate up to 1.14 cannot put a whole model on disk
    rooms = (15_000,) if at_most("accelerate", "1.14") else (15_000, 100)
    disk = [{"max_memory": {"cpu": n}, "offload_folder": tmp_path / f"rest{n}"} for n in rooms]
    for words in ({"device": "auto"}, {"max_memory": {"cpu": "1GB"}}, *disk):
        model = tv.load(folder, **words)
        with torch.inference_mode():
            assert torch.equal(model.calls.forward(IDS[:1]), logits), words
        if words in disk:
            assert any(p.is_meta for p in model.module.parameters()), words
            assert model.device == "cpu", words
            last = words is disk[-1]
            found = tv.trace(model, ids, check=last)
            assert not last or found.report.status == expected.report.status == "green"
            for one, other in zip(found.attentions, expected.attentions, strict=True):
                assert np.array_equal(one.weights, other.weights), words
    for room, message in (
        (100, "does not fit into what max_memory allows"),
        ("lots", r"accelerate cannot spread the model so: .*lots"),
    ):
        refused(folder, message, device=None, max_memory={"cpu": room})
