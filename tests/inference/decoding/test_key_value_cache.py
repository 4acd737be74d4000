"""Kept keys, values and read sources give the ids and numbers of a decoding without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from tests.conftest import TINY
from tests.support.same_search import same_search
from tests.support.same_trace import same
from transformer_viz import trace
from transformer_viz.capture import Capture, CaptureRequest
from transformer_viz.capture.records import AttentionRecord
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core import interventions as edit
from transformer_viz.core.interventions import Intervention
from transformer_viz.core.search_tree import Search
from transformer_viz.inference import generation, search
from transformer_viz.inference.batching.shared_passes import SharedPasses, SharedSearch
from transformer_viz.inference.decoding import key_value_cache, read_sources
from transformer_viz.inference.decoding.key_value_cache import may_keep, reads_on
from transformer_viz.inference.decoding.read_sources import ReadSources
from transformer_viz.inference.generation import Hypothesis, translate, translate_lines
from transformer_viz.inference.search_recorder import Recorder, record
from transformer_viz.inference.tracing import traced
from transformer_viz.model import Transformer
from transformer_viz.model.cache import DecoderCache

SOURCE = [5, 9, 31, 7, 3]
LINES = ["5 9 31 7 3", "8 36 3", "30 3", "11 12 13 14 15 16 17 3", "20 21 22 3"]
LONE = {"encoder_layers": 0, "source_vocab": 0}
VARIANTS = (
    {},
    {"norm": "pre"},
    {"norm": "query_only"},
    {"positions": "learned"},
    {"positions": "none"},
    {"positions": "rotary", "d_k": 12, "d_v": 12},
    {"score": "additive"},
    {"score": "location"},
    {"score": "general"},
)
WAYS = ({}, {"beam": 2}, {"sample": 1.5, "seed": 4})
#: Edits under which earlier rows stay as they are, and those under which they change.
STEADY = (
    edit.Temperature(value=2.5),
    edit.Temperature(value=0.2, stack="decoder", block="self", head=1),
    edit.ScaleHead(value=0, stack="decoder", block="self", layer=0, head=0),
    edit.UniformHead(stack="decoder"),
    edit.Window(radius=1),
    edit.BlockKeys(keys=(1,), stack="decoder"),
    edit.BlockKeys(keys=(1, 2)),
    edit.BlockEdges(edges=((2, 1), (3, 0), (4, 4)), stack="decoder"),
    edit.Pad(count=3),
    edit.Pad(count=2, masked=False),
    edit.ScalePositions(value=0.5),
    edit.Causal(on=True, stack="encoder"),
    edit.ScaleResidual(value=0.5, stack="encoder"),
)
UNSTEADY = (edit.Causal(on=False), edit.ShufflePositions(seed=1), edit.ScaleResidual(value=0.5))


@contextmanager
def keeping(monkeypatch: pytest.MonkeyPatch, wanted: bool, case: object) -> Iterator[None]:
    """Decide whether decoders read on, and check that they did or did not."""
    count: list[int] = []
    read = key_value_cache.ReadOn.logits

    def counted(self: key_value_cache.ReadOn, *given: object) -> torch.Tensor:
        count.append(1)
        return read(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(key_value_cache.ReadOn, "logits", counted)
        if not wanted:
            patch.setattr(generation, "reads_on", lambda *_: False)
        yield
    assert bool(count) == wanted, case


def close(cached: list[Hypothesis], plain: list[Hypothesis], case: object) -> None:
    assert [one.ids for one in cached] == [one.ids for one in plain], case
    for one, other in zip(cached, plain, strict=True):
        assert one.steps == pytest.approx(other.steps, abs=1e-5), case
        assert one.score == pytest.approx(other.score, abs=1e-5), case


def both(monkeypatch: pytest.MonkeyPatch, run: Callable, case: object, same: Callable = close):
    """Compare the result with the cache to the one without."""
    with keeping(monkeypatch, False, case):
        plain = run()
    with keeping(monkeypatch, True, case):
        same(run(), plain, case)


@pytest.fixture
def models(tiny_model: Model, tiny_gpt: Model) -> tuple[Model, Model]:
    return tiny_model, tiny_gpt


def test_every_variant_of_the_model(monkeypatch, build_model):
    for words in VARIANTS:
        for alone in ({}, LONE):
            made = build_model(**words, **alone)
            for beam in (1, 4):
                case = (words, alone, beam)
                both(monkeypatch, lambda: translate(made, SOURCE, beam, max_tokens=9), case)  # noqa: B023


@pytest.mark.slow
def test_edits_under_which_earlier_rows_stay(monkeypatch, models):
    for model in models:
        for one in STEADY:
            if one.stack == "encoder" and model.kind == "decoder-only":
                continue
            for beam in (1, 3):
                words = {"beam": beam, "intervention": Intervention((one,)), "max_tokens": 15}
                case = (model.kind, one, beam)
                both(monkeypatch, lambda: translate(model, SOURCE, **words), case)  # noqa: B023


def test_under_other_edits_all_rows_are_read_again(monkeypatch, models):
    for one in UNSTEADY:
        assert not may_keep(Intervention((edit.Temperature(value=2), one)))
        for model in models:
            with keeping(monkeypatch, False, one):
                translate(model, SOURCE, 2, None, Intervention((one,)), max_tokens=4)
    # without this rule the numbers are wrong: earlier rows do not see the later ones
    gpt, words = models[1], {"intervention": Intervention(UNSTEADY[:1]), "max_tokens": 6}
    right = translate(gpt, SOURCE, **words)[0]
    monkeypatch.setattr(generation, "may_keep", lambda _: True)
    wrong = translate(gpt, SOURCE, **words)[0]
    assert right.steps != pytest.approx(wrong.steps, abs=1e-5)


def test_samples_and_lines_that_share_their_passes(monkeypatch, models):
    """Lines of other lengths beside each other, some of which end before others."""
    for model in models:
        words = {"sample": 1.5, "seed": 3, "max_tokens": 12}
        both(monkeypatch, lambda: translate(model, SOURCE, **words), model.kind)  # noqa: B023
    both(monkeypatch, lambda: translate_lines(models[0], LINES, beam=3, batch=5), "lines")


@pytest.mark.slow
def test_a_search_is_recorded_alike(monkeypatch, models):
    """Also the rows: the last row of a pass over all is that of a pass of one."""
    for model in models:
        for edits in (None, Intervention(STEADY[:1]), Intervention((edit.Window(radius=1),))):
            for way in WAYS:
                words = way | {"intervention": edits, "max_tokens": 6}
                run = lambda: record(model, SOURCE, **words)  # noqa: B023, E731
                same = lambda one, other, _: same_search(one, other)  # noqa: E731
                both(monkeypatch, run, (model.kind, edits, way), same)


def test_a_module_reads_on_from_anywhere_and_a_wrong_reader_is_not_used(build_model):
    """Some tokens at once, then one by one, with padding among them: the states of one pass."""
    module = Transformer(TINY).eval()
    source = torch.tensor([[5, 9, 31, 7, 3], [8, 36, 3, 0, 0]])
    target = torch.tensor([[2, 6, 40, 11, 5, 6], [2, 12, 0, 33, 9, 1]])
    with torch.inference_mode():
        mask = module.padding_mask(source)
        memory = module.encode(source, mask)
        whole = module.states(target, memory, mask)
        cache = DecoderCache.empty(len(module.decoder.layers))
        parts = [target[:, :3], *target[:, 3:].split(1, dim=1)]
        read = torch.cat([module.extend(part, cache, memory, mask) for part in parts], dim=1)
    torch.testing.assert_close(read, whole, atol=1e-5, rtol=0)
    for reader in (Forgetful, Broken):
        made = build_model(**LONE)
        wrong = with_reader(made, reader)
        assert not reads_on(wrong, SOURCE), reader
        assert reads_on(build_model(**LONE), SOURCE)
        assert translate(wrong, SOURCE)[0].ids == translate(made, SOURCE)[0].ids, reader


class Forgetful:
    """A reader that has read the last token alone."""

    def __init__(self, model: Model):
        self.model = model
        self.text: torch.Tensor | None = None

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model.calls.forward(ids[:, -1:], None, None)

    def select(self, rows: torch.Tensor) -> None: ...


class Broken(Forgetful):
    def read(self, ids: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no cache today")


class Late(Forgetful):
    """A reader that is right for a while, as one whose window is shorter than the text."""

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        self.text = ids if self.text is None else torch.cat((self.text, ids), dim=1)
        return self.model.calls.forward(self.text[:, -10:], None, None)[:, -1:]

    def select(self, rows: torch.Tensor) -> None:
        self.text = self.text[rows]


class Full(Late):
    """A reader that holds ten tokens and raises at the next."""

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        logits = super().read(ids)
        if self.text.shape[1] > 10:
            raise IndexError("the cache is full")
        return logits


def with_reader(made: Model, reader: type[Forgetful]) -> Model:
    calls = dataclasses.replace(made.calls, reader=lambda *_: reader(made))
    return dataclasses.replace(made, calls=calls)


@pytest.mark.slow
def test_a_reader_that_fails_in_a_longer_text_is_found_out_at_its_end(monkeypatch, build_model):
    """What was recorded of the wrong search is forgotten with it."""
    for where in (generation, search):
        monkeypatch.setattr(where, "known_to_read_on", lambda _: False)
    for reader in (Late, Full):
        for banned in ((), (1, 39)):
            for way in WAYS:
                case, words = (reader, banned, way), way | {"max_tokens": 15}
                made = build_model(**LONE)
                made = dataclasses.replace(made, config={**made.config, "banned_ids": banned})
                wrong = with_reader(made, reader)
                right, written = translate(made, SOURCE, **words), record(made, SOURCE, **words)
                for run in (translate, record):
                    del key_value_cache._EQUAL[made.module]
                    assert reads_on(wrong, SOURCE), case
                    found = run(wrong, SOURCE, **words)
                    assert not reads_on(wrong, SOURCE), case
                    if isinstance(found, Search):
                        same_search(found, written)
                        continue
                    assert [one.ids for one in found] == [one.ids for one in right], case
                    assert found[0].steps == pytest.approx(right[0].steps, abs=1e-5), case


def test_passes_that_agree_with_nothing(monkeypatch, build_model):
    """A pass over the whole text then shows something else than the passes that wrote it."""
    path, causal = search.Path((7, 8, 9), (-1.0, -1.0, -1.0), -3.0), torch.ones(1, 2, 4, 4).tril()

    def reviewed(weights: torch.Tensor, block: str = "decoder") -> tuple[bool, list[int]]:
        recorder = Recorder(block, (), None)
        kind = "self" if block == "decoder" else "cross"
        recorder.watch(Capture(CaptureRequest()))
        recorder.unseen = True  # as after a search of which no pass was watched
        seen = AttentionRecord("a", kind, "decoder", 0, heads=2, weights=weights)
        recorder.capture.attentions.append(seen)
        told = recorder.reviewed(path)
        return told, [layers[0].shape[-1] for layers in recorder.rows if layers]

    assert reviewed(causal) == (True, [2, 3, 4])
    ahead = causal.clone()
    ahead[0, 1, 2, 3] = 1e-3
    assert reviewed(ahead)[0] is False
    assert reviewed(causal[:, :, :2])[0] is False  # rows of tokens are missing
    assert reviewed(causal[..., :2])[0] is False  # so are keys
    assert reviewed(torch.ones(1, 2, 4, 2), "cross") == (True, [2, 2, 2])
    batch = search.Batch(build_model(**LONE), [SOURCE], None, 3)
    path = batch.search(1)[0][0]
    assert batch.gives([path])
    for told in (torch.nan, -torch.inf):
        logits = torch.full((1, len(path.ids), 40), told)
        monkeypatch.setattr(batch, "logits", lambda *_, logits=logits: logits)
        assert not batch.gives([path]), told


TARGET = [2, 8, 11, 4]
#: Edits behind the encoder, and edits that change what it reads.
LATE = (
    (),
    (edit.Temperature(value=2.5, stack="decoder"),),
    (edit.Temperature(value=0.4, stack="decoder", block="cross", layer=0, head=1),),
    (edit.BlockKeys(keys=(1, 2), stack="decoder"), edit.UniformHead(stack="decoder", head=0)),
    (edit.Pad(count=2), edit.ScaleHead(value=0, stack="decoder", block="self", layer=0, head=0)),
)
EARLY = (
    (edit.Temperature(value=2.5),),
    (edit.ScalePositions(value=0.5, stack="encoder"),),
    (
        edit.Temperature(value=2.5, stack="decoder"),
        edit.ScaleHead(value=0, stack="encoder", head=0),
    ),
)


@pytest.mark.slow
def test_trace_and_best_text_are_the_same(tiny_model):
    for edits in (*LATE, *EARLY):
        known, change = ReadSources(), Intervention(edits)
        words = {"target": TARGET, "intervention": change, "check": False}
        words |= {"keep": ("weights", "scores", "hidden")}
        alone = trace(tiny_model, SOURCE, **words)
        for _ in range(2):  # read, and then known
            same(traced(tiny_model, SOURCE, known=known, **words), alone)
        assert len(known) == (edits in LATE), edits
        known = ReadSources()
        for beam in (1, 4, 6):
            best = translate(tiny_model, SOURCE, beam=beam, intervention=change)[0]
            search = SharedSearch(tiny_model, SOURCE, beam, change, best_only=True, known=known)
            search.begin()
            while not search.ended:
                passes = SharedPasses([search])
                passes.step()
                passes.part()
            assert search.error is None and search.found[0].ids == best.ids, (edits, beam)
            assert search.found[0].score == pytest.approx(best.score, abs=1e-5), (edits, beam)


def test_another_sentence_and_another_request_are_read_again(tiny_model):
    known = ReadSources()
    words = {"target": TARGET, "check": False}
    traced(tiny_model, SOURCE, known=known, **words)
    other = traced(tiny_model, SOURCE[::-1], known=known, **words)
    kept = traced(tiny_model, SOURCE, keep="scores", known=known, **words)
    plain = trace(tiny_model, SOURCE[::-1], **words)
    assert np.array_equal(other.attention("encoder", layer=0), plain.attention("encoder", layer=0))
    assert kept.block("encoder", 0).scores is not None and len(known) == 3
    lost = Intervention((edit.ScaleHead(value=0, stack="decoder", head=99),))
    with pytest.raises(ValueError, match="matches no place"):
        traced(tiny_model, SOURCE, intervention=lost, known=ReadSources(), **words)


def test_the_latest_sources_stay(monkeypatch):
    monkeypatch.setattr(read_sources, "SMALL", 0)
    known, made = ReadSources(100), []
    for key in "ababcab":  # 40 bytes each: two fit
        known.get(key, lambda key=key: made.append(key) or torch.zeros(10))
    assert made == ["a", "b", "c", "a", "b"] and len(known) == 2 and known.size == 80
    known.get("large", lambda: torch.zeros(30))
    assert len(known) == known.size == 0
