"""Laws of every code base's checkpoints: streams, padding, decoding, tables, gradients.

The witness is the layout's own reference computation, in float64 on the file's tensors.
`test_table.py` compares attention and logits of each layout with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import transformer_viz as tv
from tests.inference.batching.test_shared_passes import same, together
from tests.support.cases import case
from transformer_viz.core.interventions import Intervention, Pad, ScaleHead, Temperature, Window
from transformer_viz.inference.batching.shared_passes import SharedSearch, may_share
from transformer_viz.inference.generation import translate, translate_lines

from . import annotated, fairseq, gpt, jadore, labml, opennmt, torch_tutorial
from .greedy import greedy
from .witness import Streams

STREAMED = ("jadore_2018", "jadore_2019", "jadore_2020", "annotated_transformer", "labml")
LAYOUTS = (*STREAMED, "labml, one stack", "opennmt", "torch_tutorial_seq2seq", "fairseq", "nanogpt")
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
    if layout.startswith("labml"):
        kind = {} if layout == "labml" else {"kind": "decoder-only"}
        held, words = labml.state(kind), {"heads": labml.H}
        if kind:
            return held, words, lambda _, y, s: labml.witness(held, kind, y, None, None, s)[1]
        words |= ends | {"pad_id": 1}
        return held, words, lambda x, y, s: labml.witness(held, {}, x, y, 1, s)[1]
    if layout == "torch_tutorial_seq2seq":
        held, words = torch_tutorial.state(), {"heads": torch_tutorial.H}
        return held, words, lambda x, y, _: torch_tutorial.witness(held, x, y)[1]
    if layout == "opennmt":
        variant = opennmt.Variant(qkv_bias=True, share="decoder")
        path, held = opennmt.save(folder, variant)
        witness = lambda x, y, _: opennmt.forward(held, variant, x, y)[1]  # noqa: E731
    elif layout == "fairseq":
        spelt = fairseq.Variant(learned=True, embedding_norm=True)
        path, held = fairseq.save(folder, spelt)
        witness = lambda x, y, _: fairseq.forward(held, spelt, x, y)[1]  # noqa: E731
    else:
        path, held = gpt.nanogpt_file(folder, bias=False)
        witness = lambda _, y, __: gpt.forward(held, y, F.gelu)[1]  # noqa: E731
    content = torch.load(path, weights_only=False)
    content.pop("vocab", None)
    return content, {}, witness


def opened(content: Any, words: dict[str, Any], folder: Path) -> tv.Model:
    torch.save(content, folder / "model.pt")
    return tv.load(folder / "model.pt", device="cpu", **words)


@dataclass(frozen=True)
class Foreign:
    """A model of another code base, and the witness of its logits."""

    model: tv.Model
    witness: Witness

    @property
    def decoder_only(self) -> bool:
        return self.model.kind == "decoder-only"

    def logits(self, source: Sequence[int], row: Sequence[int]) -> Tensor:
        """The witness's logits ``[token, vocabulary]`` of a row after its source."""
        first = [] if self.decoder_only else list(source)
        row = [*source, *row] if self.decoder_only else list(row)
        return self.witness(torch.tensor([first]), torch.tensor([row]), None)[0]

    def decoded(self, source: Sequence[int], found: Any, length: int) -> None:
        """Compare a greedy search's first tokens, and its steps, with the witness."""
        start = [] if self.decoder_only else [self.model.bos_id]
        said = greedy(lambda row: self.logits(source, row), start, length, self.model.eos_id)
        assert found.ids[:length] == said
        steps = [
            float(self.logits(source, [*start, *said[:n]])[-1].log_softmax(-1)[token])
            for n, token in enumerate(said)
        ]
        assert found.steps[:length] == pytest.approx(steps, abs=2e-5)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Foreign]:
    found = {}
    for layout in LAYOUTS:
        folder = tmp_path_factory.mktemp("layout")
        content, words, witness = content_of(layout, folder)
        found[layout] = Foreign(opened(content, words, folder), witness)
        assert found[layout].model.layout == layout.partition(",")[0]
    return found


SOURCE, TARGET = [4, 9, 6], [2, 7]
TEXT = [4, 9, 6, 12, 5]


@pytest.mark.slow
def test_traces_are_the_witness_and_masked_padding_changes_nothing(foreign) -> None:
    for layout, one in foreign.items():
        given = (TEXT, None) if one.decoder_only else (SOURCE, TARGET)
        trace = tv.trace(one.model, *given, keep=("hidden",))
        report = trace.report
        assert (report.status, report.output_difference) == ("green", 0.0), (layout, report)
        assert max(report.rebuilt.values()) < 1e-5 and report.unrecognised == (), layout
        stacks = ("decoder",) if one.decoder_only else ("encoder", "decoder")
        if layout != "torch_tutorial_seq2seq":  # whose target of two tokens shows no table
            assert set(trace.positions) == {f"table.{stack}" for stack in stacks}, layout
        streams: Streams = {"encoder": [], "decoder": []}
        source, target = given if given[1] else ([], given[0])
        logits = one.witness(torch.tensor([source]), torch.tensor([target]), streams)[0]
        assert abs(trace.logits - logits.numpy()).max() < 2e-5, layout
        for stack, states in streams.items() if layout in STREAMED else ():
            expected, found = torch.cat(states).numpy(), trace.hidden(stack)
            assert found.shape == expected.shape, (layout, stack)
            assert abs(found - expected).max() < 2e-5, (layout, stack)
        for count in () if one.decoder_only else (1, 3):
            edit = Intervention((Pad(count=count),))
            padded = tv.trace(one.model, *given, intervention=edit, check=False)
            assert abs(padded.logits - trace.logits).max() < 1e-5, (layout, count)


@pytest.mark.slow
def test_decoding_is_the_witness_step_by_step_also_in_a_batch(foreign) -> None:
    lines = ["4 9 6", "5 7 11 8 18 4", "13"]
    for layout, one in foreign.items():
        source = TEXT if one.decoder_only else SOURCE
        best = tv.translate(one.model, source, max_tokens=8)[0]
        with case(layout):
            one.decoded(source, best, 8)
        if one.decoder_only:
            continue
        produced = tv.trace(one.model, SOURCE, check=False).produced.ids
        assert produced[: len(best.ids)] == best.ids, layout
        for line, found in zip(lines, translate_lines(one.model, lines, beam=2), strict=True):
            alone = tv.translate(one.model, line, beam=2)[0]
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
    for layout, one in foreign.items():
        if one.decoder_only:
            continue
        trace = tv.trace(one.model, SOURCE, TARGET, keep=("gradients",), **words)
        slope = (trace.attention("cross", layer=1)[0] * trace.gradients("cross", layer=1)[0]).sum()
        sums = []
        for scale in (0.99, 1.01):
            edit = ScaleHead(value=scale, stack="decoder", block="cross", layer=1, head=0)
            changed = Intervention((edit,))
            edited = tv.trace(one.model, SOURCE, TARGET, intervention=changed, **words)
            sums.append(float(edited.logits[range(2), [7, 5]].astype(float).sum()))
        assert (sums[1] - sums[0]) / 0.02 == pytest.approx(float(slope), abs=3e-3), layout


# ---- several searches at once --------------------------------------------------------------------

SOURCES = [4, 9, 6, 1], [8, 3, 10, 9, 4, 6, 5, 1], [12, 1]
EDITS = (), (Temperature(value=2.5),), (Window(radius=1), ScaleHead(value=0.0, layer=0, head=0))


@pytest.mark.slow
def test_searches_that_share_passes_give_what_the_code_base_gives(tmp_path: Path, foreign) -> None:
    variant = labml.VARIANTS["encoder-decoder, learned positions, gelu"]
    held = labml.state(variant)
    words = {"heads": labml.H, "activation": "gelu", "bos_id": 0, "eos_id": 2}
    witness = lambda x, y, _: labml.witness(held, variant, x, y, None)[1]  # noqa: E731
    placed = Foreign(opened(held, words, tmp_path), witness)
    asked = [(s, beam) for s in SOURCES for beam in (1, 1, 3)]
    for one in (foreign["annotated_transformer"], placed, foreign["nanogpt"]):
        layout, model = one.model.layout, one.model
        edits = [Intervention(EDITS[n % len(EDITS)]) for n in range(len(asked))]
        assert all(may_share(model, s, e) for (s, _), e in zip(asked, edits, strict=True)), layout
        searches = [SharedSearch(model, *each, e) for each, e in zip(asked, edits, strict=True)]
        together(searches, seed=1)
        compared = 0
        for search, (source, beam), edit in zip(searches, asked, edits, strict=True):
            with case(layout):
                same(search, translate(model, source, beam, None, edit))
                if beam == 1 and not edit:
                    one.decoded(source, search.found[0], 6)
                    compared += 1
        assert compared, layout


def test_code_bases_that_count_in_their_own_way_take_turns(tmp_path: Path, foreign) -> None:
    padded = opened(jadore.content("2018", False, False), {}, tmp_path)
    for model in (padded, foreign["torch_tutorial_seq2seq"].model):
        assert not may_share(model, SOURCES[0], None)
