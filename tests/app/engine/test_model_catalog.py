"""Which models a visitor can choose."""

from __future__ import annotations

from pathlib import Path

from transformer_viz.app.engine.model_catalog import Shelf
from transformer_viz.checkpoints.common.bundled import available


def test_a_further_folder_offers_what_has_a_folder_of_its_own_there(tmp_path: Path) -> None:
    for place in (
        "native/weights.safetensors",
        "library/model.safetensors",
        "split/model.safetensors.index.json",
        "pickled/pytorch_model.bin",
        ".cache/model.safetensors",
        "en-de/model.safetensors",
        "notes/readme.txt",
        "loose.pt",
    ):
        file = tmp_path / place
        file.parent.mkdir(exist_ok=True)
        file.touch()
    further = ("library", "native", "pickled", "split")
    assert tuple(Shelf("", str(tmp_path))) == (*available(), *further)
    assert Shelf("", str(tmp_path))["en-de"].in_the_box  # the box keeps its names
    first, *_ = Shelf(str(tmp_path / "split"), str(tmp_path))
    assert first == "split"
    assert tuple(Shelf("")) == available()
