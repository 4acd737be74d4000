"""Checkpoints as other code bases save them, decoded for several visitors at once.

A layout that opens one as the reference Transformer lets its searches share passes: then the ids
are those of the code base's own greedy decoding (`greedy.py`: the whole prefix again for each
token, by the witness of the layout), and the numbers those of each search alone. Others take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import transformer_viz as tv
from tests.inference.batching.test_shared_passes import same, together
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, ScaleHead, Temperature, Window
from transformer_viz.inference.batching.shared_passes import SharedSearch, may_share
from transformer_viz.inference.generation import translate

from . import annotated, gpt, jadore, labml, torch_tutorial
from .greedy import greedy

Logits = Callable[[list[int], list[int]], Tensor]
SOURCES = [4, 9, 6, 1], [7, 5, 1], [8, 3, 10, 9, 4, 6, 5, 1], [12, 1]
EDITS = (), (Temperature(value=2.5),), (Window(radius=1), ScaleHead(value=0.0, layer=0, head=0))
STEPS = 6


def of_annotated(folder: Path) -> tuple[Model, Logits]:
    held, path = annotated.state(), folder / "multi30k_model_final.pt"
    torch.save(held, path)

    def logits(source: list[int], row: list[int]) -> Tensor:
        return annotated.witness(held, torch.tensor([source]), torch.tensor([row]))[1][0]

    return tv.load(path, device="cpu", heads=annotated.H), logits


def of_labml(folder: Path) -> tuple[Model, Logits]:
    variant = labml.VARIANTS["encoder-decoder, learned positions, gelu"]
    held, path = labml.state(variant), folder / "model.pt"
    torch.save(held, path)

    def logits(source: list[int], row: list[int]) -> Tensor:
        given = torch.tensor([source]), torch.tensor([row])
        return labml.witness(held, variant, *given, None)[1][0]

    words = {"heads": labml.H, "activation": "gelu", "bos_id": 0, "eos_id": 2}
    return tv.load(path, device="cpu", **words), logits


def of_nanogpt(folder: Path) -> tuple[Model, Logits]:
    path, held = gpt.nanogpt_file(folder)

    def logits(source: list[int], row: list[int]) -> Tensor:
        return gpt.forward(held, torch.tensor([source + row]), F.gelu)[1][0]

    return tv.load(path, device="cpu"), logits


@pytest.mark.parametrize("made", [of_annotated, of_labml, of_nanogpt])
def test_searches_that_share_give_what_the_code_base_gives(
    made: Callable[[Path], tuple[Model, Logits]], tmp_path: Path
) -> None:
    model, logits = made(tmp_path)
    start = [model.bos_id] if model.kind == "encoder-decoder" else []
    asked = [
        (source, beam, Intervention(EDITS[n % len(EDITS)]))
        for n, (source, beam) in enumerate((s, b) for s in SOURCES for b in (1, 1, 3))
    ]
    assert all(may_share(model, source, edits) for source, _, edits in asked)
    searches = [SharedSearch(model, *one) for one in asked]
    together(searches, seed=1)
    compared = 0
    for search, (source, beam, edits) in zip(searches, asked, strict=True):
        same(search, translate(model, source, beam, None, edits))
        if beam == 1 and not edits:
            found = search.found[0]
            said = greedy(lambda row, s=source: logits(s, row), start, STEPS, model.eos_id)
            assert found.ids[:STEPS] == said[: len(found.ids)]
            steps = [
                float(logits(source, [*start, *said[:n]])[-1].log_softmax(-1)[token])
                for n, token in enumerate(said)
            ]
            assert found.steps[:STEPS] == pytest.approx(steps, abs=2e-5)
            compared += 1
    assert compared


def test_those_of_a_code_base_that_counts_in_its_own_way_take_turns(tmp_path: Path) -> None:
    torch.save(jadore.content("2018", False, False), tmp_path / "model.chkpt")
    padded = tv.load(tmp_path / "model.chkpt", device="cpu")
    (tmp_path / "tutorial").mkdir()
    lone = tv.load(torch_tutorial.save(tmp_path / "tutorial"), device="cpu")
    for model in (padded, lone):
        assert not may_share(model, SOURCES[0], None)
