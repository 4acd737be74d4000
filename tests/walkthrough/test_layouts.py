"""Checkpoints of other code bases that fill our Transformer: their chains are their runs' own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.checkpoints import annotated, fairseq, gpt, jadore, labml, opennmt
from tests.support.cases import case
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, Pad
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.walkthrough import step_inside

from .laws import hold, hold_to_block, hold_together, same

SOURCE, TARGET = [5, 11, 8, 4, 7], [2, 4, 9, 6]


def _jadore(version: str) -> Callable[[Path], Model]:
    def made(folder: Path) -> Model:
        torch.save(jadore.content(version, False, True), folder / "model.pt")
        return tv.load(folder / "model.pt", device="cpu", layout=f"jadore_{version}")

    return made


def _annotated(folder: Path) -> Model:
    torch.save(annotated.state(), folder / "model.pt")
    return tv.load(folder / "model.pt", device="cpu", heads=annotated.H)


def _labml(folder: Path) -> Model:
    torch.save(labml.state({}), folder / "model.pt")
    return tv.load(folder / "model.pt", device="cpu", heads=labml.H, pad_id=1)


def _fairseq(**words: bool) -> Callable[[Path], Model]:
    return lambda folder: tv.load(fairseq.save(folder, fairseq.Variant(**words))[0], device="cpu")


LAYOUTS: dict[str, Callable[[Path], Model]] = {
    "jadore 2018": _jadore("2018"),
    "jadore 2019": _jadore("2019"),
    "jadore 2020": _jadore("2020"),
    "annotated": _annotated,
    "labml": _labml,
    "fairseq": _fairseq(),
    "fairseq, learned": _fairseq(before=True, learned=True, embedding_norm=True),
    "opennmt": lambda folder: tv.load(opennmt.save(folder, opennmt.Variant())[0], device="cpu"),
    "nanogpt": lambda folder: tv.load(gpt.nanogpt_file(folder)[0], device="cpu"),
    "mingpt": lambda folder: tv.load(gpt.mingpt_file(folder)[0], device="cpu"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Model]:
    return {name: make(tmp_path_factory.mktemp("layout")) for name, make in LAYOUTS.items()}


@pytest.mark.slow
def test_a_foreign_checkpoint_is_told_whole(models):
    """The chain has no gap, ends where the run's own stream goes on, and every number is its sum;
    also at a row of padding, which some code bases empty."""
    for layout, model in models.items():
        lone = model.kind != "encoder-decoder"
        target = None if lone else TARGET
        clean = tv.trace(model, SOURCE, target, keep=("hidden", "scores", "qkv"), check=False)
        for name in clean.maps:
            for layer in range(clean.layers(name)):
                with case(layout, name, layer):
                    site, row = Site(*MAPS[name], layer, 1), 1 + layer
                    chain = step_inside(model, SOURCE, target, site=site, row=row)
                    hold(model, chain, most=2)
                    same(chain.stages[-1]["out"], clean.hidden(site.stack)[layer + 1][row])
                    hold_to_block(chain, clean.block(name, layer))
        padded = Intervention() if model.pad_id is None or lone else Intervention((Pad(count=2),))
        site, row = Site(*MAPS[clean.maps[0]], 1, 0), len(SOURCE) + 1 if padded else 2
        with case(layout, "padded"):
            chain = step_inside(model, SOURCE, target, site=site, row=row, intervention=padded)
            hold_together(chain, post=model.config["norm"] == "post")


def test_zeros_at_padding_are_a_stage_of_their_own(models):
    site, words = Site("encoder", "self", 0, 0), {"intervention": Intervention((Pad(count=2),))}
    chains = {
        name: step_inside(models[name], SOURCE, TARGET, site=site, row=len(SOURCE), **words)
        for name in ("jadore 2018", "fairseq, learned")
    }
    assert "zeroed.embedding" in chains["fairseq, learned"]
    for block in ("self", "feed_forward"):
        stage = chains["jadore 2018"][f"zeroed.{block}"]
        assert stage["x"].any() and not np.any(stage["out"]), block
