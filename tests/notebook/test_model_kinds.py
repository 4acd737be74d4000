"""The widget with models of a library and of all kinds in the box: sliders, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import transformer_viz as tv
from tests.notebook.front_end import FrontEnd, step
from transformer_viz.core.interventions import Intervention, Temperature

HOT = Intervention((Temperature(value=2.0),))
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16}
BERT = SMALL | {"intermediate_size": 32, "vocab_size": 50}


def _gpt() -> Any:
    config = hf.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32)
    config.bos_token_id = config.eos_token_id = 0
    return hf.GPT2LMHeadModel(config)


def _vit() -> Any:
    config = hf.ViTConfig(**SMALL, intermediate_size=32, image_size=8, patch_size=4, num_channels=1)
    return hf.ViTForImageClassification(config)


LIBRARY: dict[str, tuple[Callable[[], Any], Any]] = {
    "decoder": (_gpt, [5, 7, 11, 3]),
    "masked": (lambda: hf.BertForMaskedLM(hf.BertConfig(**BERT)), [2, 7, 11, 3]),
    "classes": (
        lambda: hf.BertForSequenceClassification(hf.BertConfig(**BERT, num_labels=3)),
        [2, 7, 11, 3],
    ),
    "picture": (_vit, Image.linear_gradient("L").resize((8, 8))),
}


def _moves(model: Any, source: Any, **words: Any) -> None:
    """A slider of everything is moved: the picture is that of the changed run."""
    widget = tv.explore(model, source, **words)
    clean = widget.trace
    browser = FrontEnd(widget)
    answer = browser.wish(("scope", "everything"), ("temperature", step("2.0", 1)))
    assert answer["problem"] == "" and answer["changed"] and widget.intervention == HOT
    assert answer["arrays"].keys() >= {"atlas", "head", "outcome"}
    produced = {"produced": list(clean.produced.ids)} if clean.produced is not None else {}
    alone = tv.trace(model, source, intervention=HOT, check=False, **produced, **words)
    name = clean.maps[0]
    found = widget.trace.attention(name, layer=0)
    np.testing.assert_allclose(found, alone.attention(name, layer=0), atol=1e-6)
    assert np.abs(found - clean.attention(name, layer=0)).max() > 1e-6
    widget.intervention = None
    assert not FrontEnd(widget, "another").wish(("view", "lines"))["changed"]
    widget.close()


@pytest.mark.families
@pytest.mark.parametrize("kind", LIBRARY)
def test_models_of_a_library(kind: str) -> None:
    make, source = LIBRARY[kind]
    torch.manual_seed(3)
    _moves(tv.load(make().eval()), source)


@pytest.mark.shipped
@pytest.mark.parametrize("masked", [(), (2,)])
def test_masked_words(masked: tuple[int, ...]) -> None:
    _moves(tv.load("en-mlm"), "The cat sat on the mat.", masked=masked)


@pytest.mark.shipped
def test_a_picture_from_a_file(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8), dtype=np.uint8)
    pixels[2:6, 3:5] = 255
    Image.fromarray(pixels).save(tmp_path / "one.png")
    _moves(tv.load("digits"), str(tmp_path / "one.png"))
