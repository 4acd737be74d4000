"""Keys and values that are kept give the ids and the numbers of a decoding that keeps none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.conftest import TINY
from tests.support.same_search import same_search
from transformer_viz.capture import Capture, CaptureRequest
from transformer_viz.capture.records import AttentionRecord
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    ScaleResidual,
    ShufflePositions,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.search_tree import Search
from transformer_viz.inference import generation, search
from transformer_viz.inference.decoding import key_value_cache
from transformer_viz.inference.decoding.key_value_cache import may_keep, reads_on
from transformer_viz.inference.generation import Hypothesis, translate, translate_lines
from transformer_viz.inference.search_recorder import Recorder, record
from transformer_viz.model import Transformer
from transformer_viz.model.cache import DecoderCache

SOURCE = [5, 9, 31, 7, 3]
LINES = ["5 9 31 7 3", "8 36 3", "30 3", "11 12 13 14 15 16 17 3", "20 21 22 3"]
VARIANTS = {
    "post": {},
    "pre": {"norm": "pre"},
    "query only": {"norm": "query_only"},
    "learned": {"positions": "learned"},
    "none": {"positions": "none"},
    "rotary": {"positions": "rotary", "d_k": 12, "d_v": 12},
    "additive": {"score": "additive"},
    "location": {"score": "location"},
    "general": {"score": "general"},
}
WAYS = {"greedy": {}, "beam": {"beam": 2}, "sample": {"sample": 1.5, "seed": 4}}
STEADY = {
    "temperature": Temperature(value=2.5),
    "temperature of a head": Temperature(value=0.2, stack="decoder", block="self", head=1),
    "head off": ScaleHead(value=0, stack="decoder", block="self", layer=0, head=0),
    "uniform": UniformHead(stack="decoder"),
    "window": Window(radius=1),
    "hidden key": BlockKeys(keys=(1,), stack="decoder"),
    "hidden keys everywhere": BlockKeys(keys=(1, 2)),
    "cut link": BlockEdges(edges=((2, 1), (3, 0), (4, 4)), stack="decoder"),
    "padding": Pad(count=3),
    "padding seen": Pad(count=2, masked=False),
    "positions": ScalePositions(value=0.5),
    "encoder's causal mask": Causal(on=True, stack="encoder"),
    "encoder's residual": ScaleResidual(value=0.5, stack="encoder"),
}
UNSTEADY = {
    "causal mask off": Causal(on=False),
    "shuffled": ShufflePositions(seed=1),
    "residual": ScaleResidual(value=0.5),
}


@contextmanager
def keeping(monkeypatch: pytest.MonkeyPatch, wanted: bool) -> Iterator[list[int]]:
    """Whether decoders read on is decided here; the list counts how many times one did."""
    count: list[int] = []
    read = key_value_cache.ReadOn.logits

    def counted(self: key_value_cache.ReadOn, *given: object) -> torch.Tensor:
        count.append(1)
        return read(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(key_value_cache.ReadOn, "logits", counted)
        if not wanted:
            patch.setattr(generation, "reads_on", lambda *_: False)
        yield count
    assert bool(count) == wanted


def both(monkeypatch: pytest.MonkeyPatch, run: Callable[[], list[Hypothesis]]) -> None:
    """The same texts with the same numbers, with what was read kept and without."""
    with keeping(monkeypatch, False):
        plain = run()
    with keeping(monkeypatch, True):
        cached = run()
    assert [one.ids for one in cached] == [one.ids for one in plain]
    for one, other in zip(cached, plain, strict=True):
        assert one.steps == pytest.approx(other.steps, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.fixture(params=["encoder-decoder", "decoder-only"])
def model(request: pytest.FixtureRequest, tiny_model: Model, tiny_gpt: Model) -> Model:
    return tiny_model if request.param == "encoder-decoder" else tiny_gpt


@pytest.mark.parametrize("words", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("encoder", [True, False], ids=["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("beam", [1, 4])
def test_every_variant_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
    build_model: Callable[..., Model],
    words: dict[str, object],
    encoder: bool,
    beam: int,
) -> None:
    alone = {} if encoder else {"encoder_layers": 0, "source_vocab": 0}
    made = build_model(**words, **alone)
    both(monkeypatch, lambda: translate(made, SOURCE, beam, max_tokens=9))


@pytest.mark.parametrize("edit", STEADY.values(), ids=STEADY)
@pytest.mark.parametrize("beam", [1, 3])
def test_edits_under_which_earlier_rows_stay(
    monkeypatch: pytest.MonkeyPatch, model: Model, edit: Edit, beam: int
) -> None:
    if edit.stack == "encoder" and model.kind == "decoder-only":
        return
    both(monkeypatch, lambda: translate(model, SOURCE, beam, None, Intervention((edit,))))


@pytest.mark.parametrize("edit", UNSTEADY.values(), ids=UNSTEADY)
def test_edits_under_which_they_change_are_read_anew(
    monkeypatch: pytest.MonkeyPatch, model: Model, edit: Edit
) -> None:
    assert not may_keep(Intervention((Temperature(value=2), edit)))
    with keeping(monkeypatch, False):
        translate(model, SOURCE, 2, None, Intervention((edit,)), max_tokens=4)


def test_a_causal_mask_that_is_off_would_give_other_numbers(
    monkeypatch: pytest.MonkeyPatch, tiny_gpt: Model
) -> None:
    """So the rule above is needed: with what was kept, earlier rows do not see the later ones."""
    edit = Intervention((Causal(on=False),))
    right = translate(tiny_gpt, SOURCE, 1, None, edit, max_tokens=6)[0]
    monkeypatch.setattr(generation, "may_keep", lambda _: True)
    wrong = translate(tiny_gpt, SOURCE, 1, None, edit, max_tokens=6)[0]
    assert right.steps != pytest.approx(wrong.steps, abs=1e-5)


def test_a_sample_draws_the_same_words(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    both(monkeypatch, lambda: translate(model, SOURCE, sample=1.5, seed=3, max_tokens=12))


def test_lines_that_share_their_passes(monkeypatch: pytest.MonkeyPatch, tiny_model: Model) -> None:
    """Lines of other lengths beside each other, some of which end before others."""
    both(monkeypatch, lambda: translate_lines(tiny_model, LINES, beam=3, batch=5))


@pytest.mark.parametrize("edit", [None, STEADY["temperature"], STEADY["window"]])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_search_is_written_down_alike(
    monkeypatch: pytest.MonkeyPatch, model: Model, edit: Edit | None, way: dict[str, float]
) -> None:
    """What each token looked at, too: the last row of a pass over all is that of a pass of one."""
    edits = None if edit is None else Intervention((edit,))

    def run() -> Search:
        return record(model, SOURCE, intervention=edits, max_tokens=6, **way)  # type: ignore[arg-type]

    with keeping(monkeypatch, False):
        plain = run()
    with keeping(monkeypatch, True):
        cached = run()
    same_search(cached, plain)


def test_a_module_reads_on_from_anywhere() -> None:
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


class Forgetful:
    """A reader that has read the last token alone."""

    def __init__(self, model: Model):
        self.model = model

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model.calls.forward(ids[:, -1:], None, None)

    def select(self, rows: torch.Tensor) -> None: ...


class Broken(Forgetful):
    def read(self, ids: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no cache today")


@pytest.mark.parametrize("reader", [Forgetful, Broken])
def test_what_reads_on_wrongly_is_found_out(
    build_model: Callable[..., Model], reader: type[Forgetful]
) -> None:
    made = build_model(encoder_layers=0, source_vocab=0)
    calls = dataclasses.replace(made.calls, reader=lambda *_: reader(made))
    wrong = dataclasses.replace(made, calls=calls)
    assert not reads_on(wrong, SOURCE)
    assert reads_on(build_model(encoder_layers=0, source_vocab=0), SOURCE)
    assert translate(wrong, SOURCE)[0].ids == translate(made, SOURCE)[0].ids


class Late(Forgetful):
    """A reader that is right for a while, as one whose window is shorter than the text."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.text: torch.Tensor | None = None

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        self.text = ids if self.text is None else torch.cat((self.text, ids), dim=1)
        return self.model.calls.forward(self.text[:, -10:], None, None)[:, -1:]

    def select(self, rows: torch.Tensor) -> None:
        assert self.text is not None
        self.text = self.text[rows]


class Full(Late):
    """A reader that holds ten tokens and raises at the next."""

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        logits = super().read(ids)
        assert self.text is not None
        if self.text.shape[1] > 10:
            raise IndexError("the cache is full")
        return logits


@pytest.mark.parametrize("banned", [(), (1, 39)], ids=["any token", "two tokens banned"])
@pytest.mark.parametrize("reader", [Late, Full])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_goes_wrong_in_a_longer_text_is_found_out_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
    build_model: Callable[..., Model],
    way: dict[str, float],
    reader: type[Late],
    banned: tuple[int, ...],
) -> None:
    """What was written down of the wrong search is forgotten with it."""
    made = build_model(encoder_layers=0, source_vocab=0)
    made = dataclasses.replace(made, config={**made.config, "banned_ids": banned})
    wrong = dataclasses.replace(
        made, calls=dataclasses.replace(made.calls, reader=lambda *_: reader(made))
    )
    right = translate(made, SOURCE, max_tokens=15, **way)  # type: ignore[arg-type]
    written = record(made, SOURCE, max_tokens=15, **way)  # type: ignore[arg-type]
    for where in (generation, search):
        monkeypatch.setattr(where, "known_to_read_on", lambda _: False)
    for run in (translate, record):
        del key_value_cache._EQUAL[made.module]
        assert reads_on(wrong, SOURCE)
        found = run(wrong, SOURCE, max_tokens=15, **way)
        assert not reads_on(wrong, SOURCE)
        if isinstance(found, Search):
            same_search(found, written)
            continue
        assert [one.ids for one in found] == [one.ids for one in right]
        assert found[0].steps == pytest.approx(right[0].steps, abs=1e-5)


def test_a_row_that_looks_ahead_is_no_row_of_a_step() -> None:
    """A pass over the whole text then shows something else than the passes that wrote it."""
    path, causal = search.Path((7, 8, 9), (-1.0, -1.0, -1.0), -3.0), torch.ones(1, 2, 4, 4).tril()

    def reviewed(weights: torch.Tensor, block: str = "decoder") -> tuple[bool, list[int]]:
        witness = Recorder(block, (), None)
        kind = "self" if block == "decoder" else "cross"
        witness.watch(Capture(CaptureRequest()))
        witness.unseen = True  # as after a search of which no pass was watched
        assert witness.capture is not None
        seen = AttentionRecord("a", kind, "decoder", 0, heads=2, weights=weights)
        witness.capture.attentions.append(seen)
        told = witness.reviewed(path)
        return told, [layers[0].shape[-1] for layers in witness.rows if layers]

    assert reviewed(causal) == (True, [2, 3, 4])
    ahead = causal.clone()
    ahead[0, 1, 2, 3] = 1e-3
    assert reviewed(ahead)[0] is False
    assert reviewed(causal[:, :, :2])[0] is False  # rows of tokens are missing
    assert reviewed(causal[..., :2])[0] is False  # so are keys
    assert reviewed(torch.ones(1, 2, 4, 2), "cross") == (True, [2, 2, 2])


@pytest.mark.parametrize("told", [torch.nan, -torch.inf])
def test_a_pass_that_gives_no_numbers_agrees_with_nothing(
    monkeypatch: pytest.MonkeyPatch, build_model: Callable[..., Model], told: float
) -> None:
    batch = search.Batch(build_model(encoder_layers=0, source_vocab=0), [SOURCE], None, 3)
    path = batch.search(1)[0][0]
    assert batch.gives([path])
    monkeypatch.setattr(batch, "logits", lambda *_: torch.full((1, len(path.ids), 40), told))
    assert not batch.gives([path])
