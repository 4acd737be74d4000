"""A box with the eight tiny models of the labs, with ramp weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import save_file

from transformer_viz.checkpoints.common import bundled as box
from transformer_viz.checkpoints.common.bundled import CONFIG, VOCABULARY, WEIGHTS
from transformer_viz.model import Transformer
from transformer_viz.preprocessing.tokenizers import SentencePieceText

#: What each tiny model has that the baseline has not, and a score that no real one has.
CHOICES: dict[str, dict[str, object]] = {
    "scaled-dot": {},
    "dot": {"score": "dot"},
    "general": {"score": "general"},
    "additive": {"score": "additive"},
    "location": {"score": "location"},
    "learned": {"positions": "learned"},
    "no-positions": {"positions": "none"},
    "post-norm": {"norm": "post", "final_norm": False},
}
BLEU = {name: 20.5 - place for place, name in enumerate(CHOICES)}


@pytest.fixture(scope="session")
def tiny_box(
    tmp_path_factory: pytest.TempPathFactory,
    build_module: Callable[..., Transformer],
    tiny_vocabulary: bytes,
) -> Path:
    """A folder like pretrained/ with nothing but labs/ in it."""
    root = tmp_path_factory.mktemp("box")
    pieces = len(SentencePieceText(tiny_vocabulary).pieces)
    sizes = {"source_vocab": pieces, "target_vocab": pieces, "d_model": 24, "heads": 4}
    for name, words in CHOICES.items():
        folder = root / box.LABS / name
        folder.mkdir(parents=True)
        module = build_module(**sizes, d_k=6, d_v=6, max_positions=97, encoder_layers=2, **words)
        save_file(module.state_dict(), folder / WEIGHTS)
        config = {"layout": "transformer_viz", "bleu": BLEU[name], **module.config.to_dict()}
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
        (folder / VOCABULARY).write_bytes(tiny_vocabulary)
    return root


@pytest.fixture
def labs(tiny_box: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the labs find these tiny models."""
    monkeypatch.setattr(box, "PRETRAINED", tiny_box)
    return tiny_box
