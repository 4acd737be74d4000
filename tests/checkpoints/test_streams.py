"""What flows between the layers of foreign checkpoints, and what padding and gradients do there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention, Pad
from transformer_viz.inference.generation import translate_lines

from . import annotated, jadore, labml

SOURCE, TARGET = [4, 9, 6], [2, 7]
Witness = Callable[..., tuple[list[Tensor], Tensor]]


def foreign(layout: str) -> tuple[dict[str, Any], dict[str, Any], Witness]:
    """A file's content, the overrides that it needs, and what its code computes from it."""
    if layout.startswith("jadore"):
        held = jadore.content(layout[-4:], False, True)
        return held, {"layout": layout}, lambda *a: jadore.witness(layout[-4:], held, *a)
    if layout == "annotated_transformer":
        held = annotated.state()
        return held, {"heads": annotated.H}, lambda *a: annotated.witness(held, *a)
    held = labml.state({})
    words = {"heads": labml.H, "pad_id": 1}
    return held, words, lambda x, y, streams: labml.witness(held, {}, x, y, 1, streams)


LAYOUTS = ("jadore_2018", "jadore_2019", "jadore_2020", "annotated_transformer", "labml")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_streams_are_those_of_the_code_and_masked_padding_changes_nothing(layout, tmp_path):
    held, words, witness = foreign(layout)
    torch.save(held, tmp_path / "model.pt")
    model = tv.load(tmp_path / "model.pt", device="cpu", **words)
    assert model.layout == layout
    trace = tv.trace(model, SOURCE, TARGET, keep=("hidden",))
    streams: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}
    witness(torch.tensor([SOURCE]), torch.tensor([TARGET]), streams)
    for stack, states in streams.items():
        expected, found = torch.cat(states).numpy(), trace.hidden(stack)
        assert found.shape == expected.shape
        assert abs(found - expected).max() < 2e-5
    padded = tv.trace(model, SOURCE, TARGET, intervention=Intervention((Pad(count=3),)))
    assert abs(padded.logits - trace.logits).max() < 1e-5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_decoded_together_are_those_decoded_alone(layout, tmp_path):
    held, words, _ = foreign(layout)
    torch.save(held, tmp_path / "model.pt")
    model = tv.load(tmp_path / "model.pt", device="cpu", bos_id=2, eos_id=3, **words)
    lines = ["4 9 6", "5 7 11 8 18 4", "13"]
    for line, together in zip(lines, translate_lines(model, lines, beam=2), strict=True):
        alone = tv.translate(model, line, beam=2)[0]
        assert together.ids == alone.ids
        assert together.score == pytest.approx(alone.score, abs=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_in_the_file_wins_over_the_one_that_is_computed(layout, tmp_path):
    held, words, witness = foreign(layout)
    state = held.get("model", held)
    tables = [
        n for n in state if "position_enc" in n or n.endswith((".pe", "positional_encodings"))
    ]
    assert len(tables) == 2
    for name in tables:
        state[name] = state[name] * 0.5 + 0.25
    torch.save(held, tmp_path / "model.pt")
    model = tv.load(tmp_path / "model.pt", device="cpu", **words)
    given = torch.tensor([SOURCE]), torch.tensor([TARGET])
    _, logits = witness(*given, None)
    assert float((model.calls.forward(*given).detach() - logits).abs().max()) < 2e-5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_those_of_a_changed_weight(layout, tmp_path):
    """d(logit)/d(weight) of one head scaled as a whole: the sum over weights times gradients."""
    from transformer_viz.core.interventions import ScaleHead

    held, words, _ = foreign(layout)
    torch.save(held, tmp_path / "model.pt")
    model = tv.load(tmp_path / "model.pt", device="cpu", **words)
    said = [7, 5]
    trace = tv.trace(model, SOURCE, TARGET, keep=("gradients",), produced=said)
    slope = (trace.attention("cross", layer=1)[0] * trace.gradients("cross", layer=1)[0]).sum()
    sums = []
    for scale in (0.99, 1.01):
        edit = ScaleHead(value=scale, stack="decoder", block="cross", layer=1, head=0)
        edited = tv.trace(model, SOURCE, TARGET, produced=said, intervention=Intervention((edit,)))
        sums.append(float(edited.logits[range(2), said].astype(float).sum()))
    assert (sums[1] - sums[0]) / 0.02 == pytest.approx(float(slope), abs=3e-3)
