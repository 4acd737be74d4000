"""The engine: runs that can be abandoned, what is kept of them, and the same words mixed."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.paths import ROOT
from tests.support.waiting import until
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_catalog import Shelved
from transformer_viz.app.engine.query import Question, whole_layer
from transformer_viz.app.engine.swap_jobs import compared
from transformer_viz.app.engine.task import Abandoned, Task
from transformer_viz.checkpoints.common.bundled import EXAMPLE, WEIGHTS
from transformer_viz.core.interventions import Intervention, ScalePositions, Temperature
from transformer_viz.core.trace_parts import Tokens
from transformer_viz.inference.generation import translate
from transformer_viz.preprocessing.token_names import Names, another_order, mark_of
from transformer_viz.preprocessing.tokenizers import PlainIds, SentencePieceText

LONG = 20  # seconds after which a test that hangs gives up
ASKED = Question("tiny", "The cat sat on the mat.", beam=2)
PLACE = whole_layer("cross", 0)


def warm(value: float = 2.0) -> Intervention:
    return Intervention((Temperature(value=value),))


@pytest.fixture
def engine(shelf: Path) -> Engine:
    return Engine(str(shelf / "tiny"))


def all_left(engine: Engine) -> None:
    """Wait until all places are free and the thread of the searches has seen that all is done."""
    gate = engine.gate
    until(lambda: gate.free == 2 and gate.free_long == 1 and not engine.shared._queues)


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


@pytest.mark.slow
def test_an_abandoned_run_leaves_nothing_behind(engine: Engine) -> None:
    engine.model("tiny")
    words = (ASKED.text, "The dog sat on the mat.", None, 1, None, ())
    for last in (0, 2):
        for run in (
            lambda task: engine.free(ASKED, warm(), task),
            lambda task: engine.ask("tiny", compared, *words, task=task, stepped=True),
        ):
            task = Reluctant(last)
            with pytest.raises(Abandoned):
                run(task)
            assert task.heard[-1][0] == last
            assert len(engine.cache) == 0 and engine.cache.size == 0
            all_left(engine)
            assert torch._C._len_torch_function_stack() == 0
    given_up = Task()
    given_up.abandon()  # before it began
    with pytest.raises(Abandoned):
        engine.clean(ASKED, PLACE, given_up)
    assert len(engine.cache) == 0 and engine.gate.free == 2
    assert engine.free(ASKED, warm(), Task()) == engine.free(ASKED, warm())


@pytest.mark.slow
def test_a_slider_does_not_wait_for_others_who_are_translated_for(engine: Engine) -> None:
    class Waiting(Task):
        """A task that says when its run has begun, and goes on when it may."""

        begun = False

        def __init__(self) -> None:
            super().__init__()
            self.may = threading.Event()

        def step(self, done: int, of: int) -> None:
            self.begun = True
            assert self.may.wait(LONG)
            super().step(done, of)

    answer = engine.clean(ASKED, PLACE)
    slow = [Waiting() for _ in range(4)]
    with ThreadPoolExecutor(len(slow)) as pool:
        found = [
            pool.submit(engine.free, ASKED, warm(2.0 + n), task) for n, task in enumerate(slow)
        ]
        try:
            said = {"Waiting for 3 other runs ..."}
            until(lambda: {t.words for t in slow} == said and any(t.begun for t in slow))
            frame = engine.changed(ASKED, answer, warm(3.0), PLACE)
            assert frame.logits.shape == answer.trace.logits.shape  # while all of them waited
            assert engine.gate.free == 1 and not any(one.done() for one in found)
        finally:
            for task in slow:
                task.may.set()
        assert all(isinstance(one.result(LONG), str) for one in found)
    all_left(engine)


def test_a_task_reports_its_progress_and_runs_keep_what_the_pages_show(engine: Engine) -> None:
    task = Reluctant(-7)
    answer = engine.clean(ASKED, PLACE, task)
    done, of = zip(*task.heard[1:], strict=True)
    assert done == tuple(range(len(done))) and len(set(of)) == 1
    assert task.done == done[-1] / of[0] and not task.words
    heard = len(task.heard)
    assert engine.clean(ASKED, PLACE, task).trace is answer.trace  # remembered: no step
    assert len(task.heard) == heard
    for trace in (answer.trace, engine.changed(ASKED, answer, warm(), PLACE)):
        assert trace.hidden("encoder").shape[:2] == (4, len(trace.source))
        assert trace.hidden("decoder").shape[:2] == (3, len(trace.target))
        assert trace.block("cross", 0).scores is not None and "output_mean" in trace.norms


def test_a_visitor_who_leaves_does_not_stop_the_loading(engine, monkeypatch) -> None:
    go, load, task = threading.Event(), engine.models._load, Task()
    monkeypatch.setattr(engine.models, "_load", lambda *words: (go.wait(LONG), load(*words)))
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(engine.model, "tiny", task)
        until(lambda: bool(task.words))
        assert task.words == "Loading tiny ..."
        task.abandon()
        with pytest.raises(Abandoned):
            asking.result(LONG)
    go.set()
    assert engine.model("tiny").parameters > 0


def test_an_old_stored_run_is_no_example(engine: Engine, tmp_path: Path, shelf: Path) -> None:
    trace = engine.clean(ASKED, PLACE).trace
    (tmp_path / WEIGHTS).write_bytes((shelf / "tiny" / WEIGHTS).read_bytes())

    def is_example(**words: Any) -> bool:
        replace(trace, **words).save(tmp_path / EXAMPLE)
        return Shelved("tiny", tmp_path).example is not None

    assert is_example()
    assert not is_example(hiddens={})
    assert not is_example(norms=trace.norms.drop(columns="output_mean"))
    assert not is_example(norms=trace.norms.assign(output_mean=float("nan")))


@pytest.mark.process
@pytest.mark.shipped
def test_the_vocabulary_is_read_without_torch(engine: Engine) -> None:
    name = "en-de-small"  # only bundled models are read by the server itself
    code = (
        "import sys; from transformer_viz.app.engine.engine import Engine; "
        f"engine = Engine({name!r}); names = engine.pieces({name!r}); "
        "print(len(names), *names[5:9]); sys.exit('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    asked = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    engine.model(name)
    names = engine.pieces(name)
    assert asked.stdout.split() == [str(len(names)), *names[5:9]]


def test_a_search_that_never_ends_stops_where_the_model_does(engine: Engine) -> None:
    short = replace(engine.model("tiny"), max_tokens=13, eos_id=None)
    engine.model = lambda name, task=None: short
    answer = engine.clean(ASKED, PLACE)
    assert len(translate(short, ASKED.text, beam=2)[0].ids) == 13
    assert len(answer.trace.target.ids) == 13


# ---- names and orders of tokens ----------------------------------------------------------------


def test_names_tell_beginnings_from_continuations(tiny_vocabulary: bytes) -> None:
    text = SentencePieceText(tiny_vocabulary)
    names = Names(text)
    at = {piece: number for number, piece in enumerate(text.pieces)}
    for piece, name in (
        ("▁the", "the"), ("he", "…he"), ("<0x01>", "U+0001"), (".", "."), ("</s>", "</s>"),
    ):  # fmt: skip
        assert names[at[piece]] == name
    assert len(names) == len(text.pieces) and names[-1] == names[len(names) - 1]
    assert names[len(names)] == f"#{len(names)}"  # a model may write more ids than it can spell
    assert list(names) == [names[number] for number in range(len(names))]
    with pytest.raises(IndexError):
        names[-len(names) - 1]
    assert list(Names(PlainIds(5))) == ["0", "1", "2", "3", "4"]
    for pieces, mark in (  # the mark of a vocabulary is the one that most pieces bear
        (("<unk>", "▁the", "▁cat", "##", "s"), "▁"),  # "##" is a word of its own there
        (("[CLS]", "the", "##s", "##ing", "▁"), "##"),
        (("!", "a", "Ġthe"), "Ġ"),
        (tuple("abc"), ""),
        (("#", *["x"] * 5000, "##s"), "##"),  # far behind
    ):
        assert mark_of(pieces) == mark


def test_another_order_keeps_words_marks_and_the_end(tiny_vocabulary: bytes) -> None:
    vocabulary = SentencePieceText(tiny_vocabulary)
    for text in ("The cat sat on the mat.", "Why did the dog run?", "cat dog"):
        ids = vocabulary.source_ids(text)
        tokens = vocabulary.tokens(ids)
        orders = [another_order(tokens, seed) for seed in range(5)]
        for order in orders:
            assert sorted(order) == sorted(ids) and order != tuple(ids), text
            assert order[-1] == ids[-1] == vocabulary.eos_id, text
            assert text[-1] not in ".?" or order[-2] == ids[-2], text
        assert orders == [another_order(tokens, seed) for seed in range(5)], text
        assert len(set(orders)) > 1 or len(ids) == 3, text  # two tokens have one other order
    named = {2: "<s>", 3: "</s>", 4: ".", 7: "the"}
    for ids in ((3,), (4, 3), (7, 7, 7, 3), (7, 4, 3), (2, 7, 3)):  # these have no other order
        labels, special = tuple(named[n] for n in ids), tuple(n < 4 for n in ids)
        assert another_order(Tokens(ids, labels, labels, (*range(len(ids)),), special), 3) == ids


def test_the_engine_mixes_the_sentence_and_says_what_it_reads(engine: Engine) -> None:
    ids, model = engine.reordered(ASKED, 1), engine.model("tiny")
    assert sorted(ids) == sorted(model.tokenizer.source_ids(ASKED.text))
    assert ids == engine.reordered(ASKED, 1)
    assert engine.text_of("tiny", ids) == model.tokenizer.decode(ids)
    found = translate(model, ids, beam=2)[0].text
    assert engine.free_ids(ASKED, ids, Intervention()) == found
    size = len(engine.cache)
    assert engine.free_ids(ASKED, list(ids), Intervention(), Task()) == found
    assert len(engine.cache) == size  # remembered
    # Without positions the source is a bag of words.
    dropped = Intervention((ScalePositions(value=0, stack="encoder"),))
    straight = engine.free(ASKED, dropped)
    mixed = {engine.free_ids(ASKED, engine.reordered(ASKED, n), dropped) for n in range(3)}
    assert mixed == {straight} != {engine.free(ASKED, Intervention())}
