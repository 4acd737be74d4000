"""Laws of every code base's checkpoints: streams, padding, decoding, tables, gradients.

The witness is the layout's own reference computation, in float64 on the file's tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import transformer_viz as tv
from tests.inference.batching.test_shared_passes import same, together
from transformer_viz.core.interventions import Intervention, Pad, ScaleHead, Temperature, Window
from transformer_viz.inference.batching.shared_passes import SharedSearch, may_share
from transformer_viz.inference.generation import translate, translate_lines

from . import annotated, gpt, jadore, labml, opennmt, torch_tutorial
from .greedy import greedy
from .witness import Streams

SOURCE, TARGET = [4, 9, 6], [2, 7]
STREAMED = ("jadore_2018", "jadore_2019", "jadore_2020", "annotated_transformer", "labml")
LAYOUTS = (*STREAMED, "opennmt", "torch_tutorial_seq2seq")
#: ``(source, target, streams)`` to logits ``[batch, target token, vocabulary]``.
Witness = Callable[[Tensor, Tensor, Streams | None], Tensor]


def content_of(layout: str, folder: Path) -> tuple[Any, dict[str, Any], Witness]:
    """Return a checkpoint's content, the overrides that it needs, and its witness."""
    ends = {"bos_id": 2, "eos_id": 3}
    if layout.startswith("jadore"):
        year = layout[-4:]
        held = jadore.content(year, False, True)
        return held, ends | {"layout": layout}, lambda *a: jadore.witness(year, held, *a)[1]
    if layout == "annotated_transformer":
        held = annotated.state()
        words = {"heads": annotated.H}  # 2 is its padding
        return held, words, lambda *a: annotated.witness(held, *a)[1]
    if layout == "labml":
        held = labml.state({})
        words = ends | {"heads": labml.H, "pad_id": 1}
        return held, words, lambda x, y, s: labml.witness(held, {}, x, y, 1, s)[1]
    if layout == "opennmt":
        variant = opennmt.Variant(qkv_bias=True, share="decoder")
        path, held = opennmt.save(folder, variant)
        content = torch.load(path, weights_only=False)
        del content["vocab"]
        return content, {}, lambda x, y, _: opennmt.forward(held, variant, x, y)[1]
    held, words = torch_tutorial.state(), {"heads": torch_tutorial.H}
    return held, words, lambda x, y, _: torch_tutorial.witness(held, x, y)[1]


def opened(content: Any, words: dict[str, Any], folder: Path) -> tv.Model:
    torch.save(content, folder / "model.pt")
    return tv.load(folder / "model.pt", device="cpu", **words)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[tv.Model, Witness]]:
    found = {}
    for layout in LAYOUTS:
        folder = tmp_path_factory.mktemp(layout)
        content, words, witness = content_of(layout, folder)
        found[layout] = opened(content, words, folder), witness
    return found


def test_streams_are_the_witness_and_masked_padding_changes_nothing(foreign) -> None:
    for layout, (model, witness) in foreign.items():
        assert model.layout == layout
        proved = layout not in STREAMED  # the others are proved with their own layouts
        trace = tv.trace(model, SOURCE, TARGET, keep=("hidden",), check=proved)
        assert not proved or trace.report.status == "green", layout
        streams: Streams = {"encoder": [], "decoder": []}
        logits = witness(torch.tensor([SOURCE]), torch.tensor([TARGET]), streams)[0]
        assert abs(trace.logits - logits.numpy()).max() < 2e-5, layout
        for stack, states in streams.items() if layout in STREAMED else ():
            expected, found = torch.cat(states).numpy(), trace.hidden(stack)
            assert found.shape == expected.shape, (layout, stack)
            assert abs(found - expected).max() < 2e-5, (layout, stack)
        for count in (1, 3):
            edit = Intervention((Pad(count=count),))
            padded = tv.trace(model, SOURCE, TARGET, intervention=edit, check=False)
            assert abs(padded.logits - trace.logits).max() < 1e-5, (layout, count)


def test_decoding_is_the_witness_step_by_step_also_in_a_batch(foreign) -> None:
    lines = ["4 9 6", "5 7 11 8 18 4", "13"]
    for layout, (model, witness) in foreign.items():

        def logits(row: list[int], witness: Witness = witness) -> Tensor:
            return witness(torch.tensor([SOURCE]), torch.tensor([row]), None)[0]

        best = tv.translate(model, SOURCE, max_tokens=8)[0]
        assert best.ids == greedy(logits, [model.bos_id], 8, model.eos_id), layout
        steps = [
            float(logits([model.bos_id, *best.ids[:n]])[-1].log_softmax(-1)[token])
            for n, token in enumerate(best.ids)
        ]
        assert best.steps == pytest.approx(steps, abs=2e-5), layout
        assert tv.trace(model, SOURCE, check=False).produced.ids[: len(best.ids)] == best.ids
        for line, found in zip(lines, translate_lines(model, lines, beam=2), strict=True):
            alone = tv.translate(model, line, beam=2)[0]
            assert found.ids == alone.ids, (layout, line)
            assert found.score == pytest.approx(alone.score, abs=1e-5), (layout, line)


def test_a_table_in_the_file_wins_over_the_computed_one(tmp_path: Path) -> None:
    for layout in STREAMED:
        held, words, witness = content_of(layout, tmp_path)
        state, ends = held.get("model", held), (".pe", "positional_encodings")
        tables = [n for n in state if "position_enc" in n or n.endswith(ends)]
        assert len(tables) == 2, layout
        for name in tables:
            state[name] = state[name] * 0.5 + 0.25
        given = torch.tensor([SOURCE]), torch.tensor([TARGET])
        found = opened(held, words, tmp_path).calls.forward(*given).detach()
        assert float((found - witness(*given, None)).abs().max()) < 2e-5, layout


def test_gradients_are_those_of_a_changed_weight(foreign) -> None:
    """Scale one head as a whole: the slope is the sum over weights times gradients."""
    words = {"produced": [7, 5], "check": False}
    for layout, (model, _) in foreign.items():
        trace = tv.trace(model, SOURCE, TARGET, keep=("gradients",), **words)
        slope = (trace.attention("cross", layer=1)[0] * trace.gradients("cross", layer=1)[0]).sum()
        sums = []
        for scale in (0.99, 1.01):
            edit = ScaleHead(value=scale, stack="decoder", block="cross", layer=1, head=0)
            changed = Intervention((edit,))
            edited = tv.trace(model, SOURCE, TARGET, intervention=changed, **words)
            sums.append(float(edited.logits[range(2), [7, 5]].astype(float).sum()))
        assert (sums[1] - sums[0]) / 0.02 == pytest.approx(float(slope), abs=3e-3), layout


# ---- several searches at once --------------------------------------------------------------------

Logits = Callable[[list[int], list[int]], Tensor]
SOURCES = [4, 9, 6, 1], [8, 3, 10, 9, 4, 6, 5, 1], [12, 1]
EDITS = (), (Temperature(value=2.5),), (Window(radius=1), ScaleHead(value=0.0, layer=0, head=0))
STEPS = 6


def sharing(layout: str, folder: Path) -> tuple[tv.Model, Logits]:
    """Return a model whose searches share passes, and its witness's logits of one row."""
    if layout == "nanogpt":
        path, held = gpt.nanogpt_file(folder)
        model = tv.load(path, device="cpu")
        return model, lambda s, row: gpt.forward(held, torch.tensor([s + row]), F.gelu)[1][0]
    if layout == "annotated_transformer":
        held, words = annotated.state(), {"heads": annotated.H}
    else:
        variant = labml.VARIANTS["encoder-decoder, learned positions, gelu"]
        held = labml.state(variant)
        words = {"heads": labml.H, "activation": "gelu", "bos_id": 0, "eos_id": 2}

    def logits(source: list[int], row: list[int]) -> Tensor:
        given = torch.tensor([source]), torch.tensor([row])
        if layout == "annotated_transformer":
            return annotated.witness(held, *given)[1][0]
        return labml.witness(held, variant, *given, None)[1][0]

    return opened(held, words, folder), logits


def test_searches_that_share_passes_give_what_the_code_base_gives(tmp_path: Path) -> None:
    asked = [(s, beam) for s in SOURCES for beam in (1, 1, 3)]
    for layout in ("annotated_transformer", "labml", "nanogpt"):
        (tmp_path / layout).mkdir()
        model, logits = sharing(layout, tmp_path / layout)
        start = [model.bos_id] if model.kind == "encoder-decoder" else []
        edits = [Intervention(EDITS[n % len(EDITS)]) for n in range(len(asked))]
        assert all(may_share(model, s, e) for (s, _), e in zip(asked, edits, strict=True)), layout
        searches = [SharedSearch(model, *one, e) for one, e in zip(asked, edits, strict=True)]
        together(searches, seed=1)
        compared = 0
        for search, (source, beam), edit in zip(searches, asked, edits, strict=True):
            same(search, translate(model, source, beam, None, edit))
            if beam > 1 or edit:
                continue
            found, witness = search.found[0], functools.partial(logits, source)
            said = greedy(witness, start, STEPS, model.eos_id)
            assert found.ids[:STEPS] == said[: len(found.ids)], layout
            steps = [
                float(witness([*start, *said[:n]])[-1].log_softmax(-1)[token])
                for n, token in enumerate(said)
            ]
            assert found.steps[:STEPS] == pytest.approx(steps, abs=2e-5), layout
            compared += 1
        assert compared, layout


def test_code_bases_that_count_in_their_own_way_take_turns(tmp_path: Path, foreign) -> None:
    padded = opened(jadore.content("2018", False, False), {}, tmp_path)
    for model in (padded, foreign["torch_tutorial_seq2seq"][0]):
        assert not may_share(model, SOURCES[0], None)
