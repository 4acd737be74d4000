"""The engine: runs that can be abandoned, what is kept of them, and the same words mixed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.paths import ROOT
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_catalog import Shelved
from transformer_viz.app.engine.query import Question, whole_layer
from transformer_viz.app.engine.swap_jobs import compared
from transformer_viz.app.engine.task import WAITING, Abandoned, Task
from transformer_viz.app.engine.trace_cache import Cache
from transformer_viz.checkpoints.common.bundled import EXAMPLE, WEIGHTS
from transformer_viz.core.interventions import Intervention, ScalePositions, Temperature
from transformer_viz.core.trace_parts import Tokens
from transformer_viz.inference.generation import translate
from transformer_viz.preprocessing.token_names import Names, another_order, mark_of
from transformer_viz.preprocessing.tokenizers import PlainIds, SentencePieceText

LONG = 20  # seconds after which a test that hangs gives up
ASKED = Question("tiny", "The cat sat on the mat.", beam=2)
PLACE = whole_layer("cross", 0)


@pytest.fixture
def engine(shelf: Path) -> Engine:
    return Engine(str(shelf / "tiny"))


class Reluctant(Task):
    """A task that is abandoned at a given step."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last, self.heard = last, [(-1, -1)]

    def step(self, done: int, of: int) -> None:
        self.heard.append((done, of))
        if done == self.last:
            self.abandon()
        super().step(done, of)


def test_a_run_that_is_abandoned_leaves_nothing_behind(engine: Engine) -> None:
    engine.model("tiny")
    warm = Intervention((Temperature(value=2.0),))
    for task in (Reluctant(0), Reluctant(2)):
        with pytest.raises(Abandoned):
            engine.free(ASKED, warm, task)
        assert task.heard[-1][0] == task.last
        assert len(engine.cache) == 0 and engine.cache.size == 0
        _all_left(engine)
        assert torch._C._len_torch_function_stack() == 0
    assert engine.free(ASKED, warm, Task()) == engine.free(ASKED, warm)


def test_a_comparison_for_swaps_ends_while_it_writes(engine: Engine) -> None:
    words = (ASKED.text, "The dog sat on the mat.", None, 1, None, ())
    for last in (0, 2):
        with pytest.raises(Abandoned):
            engine.ask("tiny", compared, *words, task=Reluctant(last), stepped=True)
        assert len(engine.cache) == 0
        _all_left(engine)


class Waiting(Task):
    """A task that says when its run has begun, and goes on when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may = threading.Event(), threading.Event()

    def step(self, done: int, of: int) -> None:
        self.begun.set()
        assert self.may.wait(LONG)
        super().step(done, of)


def test_a_slider_does_not_wait_for_others_who_are_translated_for(engine: Engine) -> None:
    answer = engine.clean(ASKED, PLACE)
    slow = [Waiting() for _ in range(4)]

    def translated(number: int) -> str:
        warm = Intervention((Temperature(value=2.0 + number),))
        return engine.free(ASKED, warm, slow[number])

    with ThreadPoolExecutor(len(slow)) as pool:
        found = [pool.submit(translated, number) for number in range(len(slow))]
        end = time.monotonic() + LONG
        try:
            said = {"Waiting for 3 other runs ..."}
            while {t.words for t in slow} != said or not any(t.begun.is_set() for t in slow):
                assert time.monotonic() < end
                time.sleep(0.01)
            frame = engine.changed(ASKED, answer, Intervention((Temperature(value=3.0),)), PLACE)
            assert frame.logits.shape == answer.trace.logits.shape  # while all of them waited
            assert engine.gate.free == 1 and not any(one.done() for one in found)
        finally:
            for task in slow:
                task.may.set()
        assert all(isinstance(one.result(LONG), str) for one in found)
    _all_left(engine)


def _all_left(engine: Engine) -> None:
    """All places are free, at once or when the thread of the searches has seen that all is done."""
    end = time.monotonic() + LONG
    while engine.gate.free != 2 or engine.gate.free_long != 1 or engine.shared._queues:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_task_given_up_before_it_began_runs_nothing(engine: Engine) -> None:
    engine.model("tiny")
    task = Task()
    task.abandon()
    with pytest.raises(Abandoned):
        engine.clean(ASKED, PLACE, task)
    assert len(engine.cache) == 0 and engine.gate.free == 2


def test_a_task_hears_how_far_its_run_is(engine: Engine) -> None:
    task = Reluctant(-7)
    answer = engine.clean(ASKED, PLACE, task)
    done, of = zip(*task.heard[1:], strict=True)
    assert done == tuple(range(len(done))) and len(set(of)) == 1
    assert task.done == done[-1] / of[0] and not task.words
    heard = len(task.heard)
    assert engine.clean(ASKED, PLACE, task).trace is answer.trace  # remembered: nothing to hear
    assert len(task.heard) == heard


def test_who_gives_up_waiting_for_a_model_leaves_it_loading(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, load, found = threading.Event(), engine.models._load, []
    monkeypatch.setattr(engine.models, "_load", lambda *words: (go.wait(LONG), load(*words)))
    task = Task()

    def ask() -> None:
        try:
            engine.model("tiny", task)
        except Abandoned:
            found.append("gave up")

    asking = threading.Thread(target=ask)
    asking.start()
    while not task.words:
        asking.join(0.005)
    assert task.words == "Loading tiny ..."
    task.abandon()
    asking.join(LONG)
    assert found == ["gave up"]
    go.set()
    assert engine.model("tiny").parameters > 0


def test_who_waits_for_anothers_run_makes_it_when_that_is_abandoned() -> None:
    cache, began, end = Cache(), threading.Event(), threading.Event()
    task, found = Task(), []

    def abandoned() -> str:
        began.set()
        end.wait(LONG)
        raise Abandoned

    def first() -> None:
        with pytest.raises(Abandoned):
            cache.get("a", abandoned)

    threads = [
        threading.Thread(target=first),
        threading.Thread(target=lambda: found.append(cache.get("a", lambda: "made", task))),
    ]
    threads[0].start()
    assert began.wait(LONG)
    threads[1].start()
    while not task.words:
        threads[1].join(0.005)
    assert task.words == WAITING
    end.set()
    for thread in threads:
        thread.join(LONG)
    assert found == ["made"] and "a" in cache and not task.words


def test_who_gives_up_waiting_for_anothers_run_leaves_it_alone() -> None:
    cache, began, end = Cache(), threading.Event(), threading.Event()
    task = Task()
    task.abandon()
    found: list[str] = []

    def slow() -> str:
        began.set()
        end.wait(LONG)
        return "made"

    first = threading.Thread(target=lambda: found.append(cache.get("a", slow)))
    first.start()
    assert began.wait(LONG)
    with pytest.raises(Abandoned):
        cache.get("a", lambda: pytest.fail("it is being made"), task)
    end.set()
    first.join(LONG)
    assert found == ["made"] and "a" in cache


def test_runs_keep_what_the_pages_show(engine: Engine) -> None:
    answer = engine.clean(ASKED, PLACE)
    warm = engine.changed(ASKED, answer, Intervention((Temperature(value=2.0),)), PLACE)
    for trace in (answer.trace, warm):
        assert trace.target is not None
        assert trace.hidden("encoder").shape[:2] == (4, len(trace.source))
        assert trace.hidden("decoder").shape[:2] == (3, len(trace.target))
        assert trace.block("cross", 0).scores is not None and "output_mean" in trace.norms


def test_an_old_stored_run_is_no_example(engine: Engine, tmp_path: Path, shelf: Path) -> None:
    trace = engine.clean(ASKED, PLACE).trace
    (tmp_path / WEIGHTS).write_bytes((shelf / "tiny" / WEIGHTS).read_bytes())

    def stored(**words: object) -> bool:
        replace(trace, **words).save(tmp_path / EXAMPLE)
        return Shelved("tiny", tmp_path).example is not None

    assert stored()
    assert not stored(hiddens={})
    assert not stored(norms=trace.norms.drop(columns="output_mean"))
    assert not stored(norms=trace.norms.assign(output_mean=float("nan")))


@pytest.mark.process
@pytest.mark.shipped
def test_the_vocabulary_is_read_without_torch(engine: Engine) -> None:
    name = "en-de-small"  # only what is in the box is read by the server itself
    code = (
        "import sys; from transformer_viz.app.engine.engine import Engine; "
        f"engine = Engine({name!r}); names = engine.pieces({name!r}); "
        "print(len(names), *names[5:9]); sys.exit('torch' in sys.modules)"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    engine.model(name)
    names = engine.pieces(name)
    assert asked.stdout.split() == [str(len(names)), *names[5:9]]


def test_names_tell_beginnings_from_what_goes_on(tiny_vocabulary: bytes) -> None:
    text = SentencePieceText(tiny_vocabulary)
    names = Names(text)
    at = {piece: number for number, piece in enumerate(text.pieces)}
    assert names[at["▁the"]] == "the" and names[at["he"]] == "…he"
    assert names[at["<0x01>"]] == "U+0001"
    assert names[at["."]] == "." and names[at["</s>"]] == "</s>"
    assert len(names) == len(text.pieces) and names[-1] == names[len(names) - 1]
    assert names[len(names)] == f"#{len(names)}"  # a model may write more ids than it can spell
    assert list(names) == [names[number] for number in range(len(names))]
    with pytest.raises(IndexError):
        names[-len(names) - 1]
    assert list(Names(PlainIds(5))) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("text", ["The cat sat on the mat.", "Why did the dog run?", "cat dog"])
def test_another_order_keeps_words_marks_and_the_end(text: str, tiny_vocabulary: bytes) -> None:
    vocabulary = SentencePieceText(tiny_vocabulary)
    ids = vocabulary.source_ids(text)
    tokens = vocabulary.tokens(ids)
    orders = [another_order(tokens, seed) for seed in range(5)]
    for order in orders:
        assert sorted(order) == sorted(ids) and order != tuple(ids)
        assert order[-1] == ids[-1] == vocabulary.eos_id
        if text[-1] in ".?":
            assert order[-2] == ids[-2]
    assert orders == [another_order(tokens, seed) for seed in range(5)]
    assert len(set(orders)) > 1 or len(ids) == 3  # two tokens have one other order


@pytest.mark.parametrize("ids", [(3,), (4, 3), (7, 7, 7, 3), (7, 4, 3), (2, 7, 3)])
def test_what_has_no_other_order_stays(ids: tuple[int, ...]) -> None:
    names = {2: "<s>", 3: "</s>", 4: ".", 7: "the"}
    labels = tuple(names[token] for token in ids)
    special = tuple(token < 4 for token in ids)
    tokens = Tokens(ids, labels, labels, tuple(range(len(ids))), special)
    assert another_order(tokens, 3) == ids


def test_the_engine_mixes_the_sentence_and_says_what_it_reads(engine: Engine) -> None:
    ids = engine.reordered(ASKED, 1)
    model = engine.model("tiny")
    assert sorted(ids) == sorted(model.tokenizer.source_ids(ASKED.text))
    assert ids == engine.reordered(ASKED, 1)
    assert engine.text_of("tiny", ids) == model.tokenizer.decode(ids)
    found = translate(model, ids, beam=2)[0].text
    assert engine.free_ids(ASKED, ids, Intervention()) == found
    size = len(engine.cache)
    assert engine.free_ids(ASKED, list(ids), Intervention(), Task()) == found
    assert len(engine.cache) == size  # remembered


def test_without_positions_the_source_is_a_bag_of_words(engine: Engine) -> None:
    dropped = Intervention((ScalePositions(value=0, stack="encoder"),))
    straight = engine.free(ASKED, dropped)
    mixed = {engine.free_ids(ASKED, engine.reordered(ASKED, n), dropped) for n in range(3)}
    assert mixed == {straight}
    assert engine.free(ASKED, Intervention()) != straight  # so the positions were there before


def test_a_search_that_never_ends_is_held_as_far_as_the_model_reads(engine: Engine) -> None:
    model = engine.model("tiny")
    short = replace(model, max_tokens=13, eos_id=None)
    engine.model = lambda name, task=None: short  # type: ignore[method-assign]
    answer = engine.clean(ASKED, PLACE)
    assert len(translate(short, ASKED.text, beam=2)[0].ids) == 13
    assert len(answer.trace.target.ids) == 13


@pytest.mark.parametrize(
    ("pieces", "mark"),
    [
        (("<unk>", "▁the", "▁cat", "##", "s"), "▁"),  # "##" is a word of its own there
        (("[CLS]", "the", "##s", "##ing", "▁"), "##"),
        (("!", "a", "Ġthe"), "Ġ"),
        (tuple("abc"), ""),
        (("#", *["x"] * 5000, "##s"), "##"),  # far behind
    ],
)
def test_the_mark_of_a_vocabulary_is_the_one_that_most_pieces_bear(
    pieces: tuple[str, ...], mark: str
) -> None:
    assert mark_of(pieces) == mark
