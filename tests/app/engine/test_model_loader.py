"""Models that are loaded: how many stay, what is let go, and what is loaded anew."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from transformer_viz.app.engine import memory, model_names, trace_jobs
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_catalog import REMEMBERED, Shelf
from transformer_viz.app.engine.model_loader import Loading, Models
from transformer_viz.app.engine.query import File, Question, whole_layer
from transformer_viz.app.engine.task import Abandoned, Task
from transformer_viz.checkpoints.common.bundled import CONFIG
from transformer_viz.checkpoints.common.eyes import Eyes


@pytest.fixture
def models(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Models:
    """Four copies of the tiny model below the allowed folder; two may stay loaded."""
    for name in ("a", "b", "c", "d"):
        shutil.copytree(shelf / "tiny", tmp_path / name)
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    return Models(Shelf(str(shelf / "tiny")), most=2)


def loaded(models: Models) -> str:
    return "".join(name for name in "abcd" if models.ready(f"path:{name}"))


def test_the_models_used_last_stay_and_the_others_go(models: Models) -> None:
    for name in "ab":
        models.get(f"path:{name}", Task())
    models.get("path:a", Task())
    kept = weakref.ref(models.get("path:b", Task()).module)
    models.get("path:a", Task())
    gone = weakref.ref(models.get("path:c", Task()).module)
    assert loaded(models) == "ac" and kept() is None
    models.get("path:d", Task())
    assert loaded(models) == "cd" and gone() is not None


def test_the_newest_one_stays_however_large_it_is(models: Models) -> None:
    models.limit = 1
    for name in "ab":
        models.get(f"path:{name}", Task())
        assert loaded(models) == name


def test_a_file_that_was_written_anew_is_loaded_anew_and_asked_anew(
    models: Models, shelf: Path, tmp_path: Path
) -> None:
    engine = Engine(str(shelf / "tiny"))
    question = Question("path:a", "The cat sat.", target="A dog.")
    first = engine.clean(question, whole_layer("cross", 0)).trace
    assert engine.clean(question, whole_layer("cross", 0)).trace is first
    words = json.loads((tmp_path / "a" / CONFIG).read_text(encoding="utf-8"))
    (tmp_path / "a" / CONFIG).write_text(json.dumps(words | {"norm": "post"}), encoding="utf-8")
    second = engine.clean(question, whole_layer("cross", 0)).trace
    assert engine.model("path:a").config["norm"] == "post"
    assert abs(second.attention("cross") - first.attention("cross")).max() > 1e-3


def test_runs_that_are_remembered_do_not_keep_their_model(models: Models, shelf: Path) -> None:
    engine = Engine(str(shelf / "tiny"))
    engine.models.most = 1
    answer = engine.clean(Question("path:a", "The cat sat."), whole_layer("cross", 0))
    seen = engine.inspection("path:a")
    module = weakref.ref(engine.model("path:a").module)
    words = weakref.ref(engine.model("path:a").tokenizer)  # a stranger's has a process
    engine.model("path:b")
    assert module() is None and answer.trace.maps and seen.parameters > 0
    assert words() is None


def test_pictures_that_are_remembered_do_not_keep_the_eyes_that_saw_them() -> None:
    looked: list[bytes] = []
    told: Any = object()

    def look(content: bytes) -> Any:
        looked.append(content)
        return told

    eyes = Eyes(7, look, lambda text, count: text, lambda ids, count: list(ids))
    picture = File("1f", "a.png", b"a picture")
    assert trace_jobs.seen(eyes, picture) is told and trace_jobs.seen(eyes, picture) is told
    assert looked == [b"a picture"]
    kept = weakref.ref(eyes)
    del eyes
    gc.collect()
    assert kept() is None


def test_a_shelf_that_has_seen_much_keeps_what_is_loaded(models: Models) -> None:
    first = models.get("path:a", Task())
    for number in range(REMEMBERED + 2):
        assert model_names.named("path:b", {"norm_eps": number}) in models.shelf
    assert models.get("path:a", Task()) is first


def test_other_words_are_another_model(models: Models) -> None:
    one, two = "path:a", model_names.named("path:a", {"norm": "post"})
    assert models.get(one, Task()).config["norm"] == "pre"
    assert models.get(two, Task()).config["norm"] == "post"
    assert models.get(one, Task()) is models.get(one, Task())


@pytest.mark.parametrize("name", ["path:gone", "upload:x/1/y", "z", 'z//{"heads":1}', ""])
def test_a_model_that_is_not_here_is_a_sentence(models: Models, name: str) -> None:
    with pytest.raises(KeyError) as error:
        models.start(name)
    assert len(error.value.args[0]) > 20 and name not in models.shelf


def test_what_visitors_bring_is_loaded_one_after_the_other(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many links at once take the memory of one load, and ours do not wait for them."""
    inside: list[str] = []
    most: list[int] = []
    go_on = threading.Event()
    load = Models._load

    def slow(self: Models, loading: Loading) -> None:
        inside.append(loading.name)
        most.append(len(inside))
        if loading.shelved.is_own:
            assert go_on.wait(20)
        load(self, loading)
        inside.remove(loading.name)

    monkeypatch.setattr(Models, "_load", slow)
    tasks = {name: Task() for name in "abcd"}
    found: dict[str, object] = {}

    def visit(name: str) -> None:
        try:
            found[name] = models.get(f"path:{name}", tasks[name]).name
        except Abandoned as error:
            found[name] = error

    threads = [threading.Thread(target=visit, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    until(lambda: len(models._loadings) == 4 and len(inside) == 1)
    own = models.get(next(iter(models.shelf)), Task())
    assert own.parameters > 0 and len(inside) == 1  # it went past them
    (loading,) = inside
    left = next(name for name in "abcd" if not loading.endswith(name))
    waits = next(name for name in "dcba" if name != left and not loading.endswith(name))
    until(lambda: "Waiting for another model" in tasks[waits].words)
    tasks[left].abandon()
    until(lambda: left in found)
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert isinstance(found.pop(left), Abandoned)
    assert len(found) == 3 and all(isinstance(name, str) for name in found.values())
    assert max(most) <= 2  # ours was the second
    until(lambda: f"path:{left}" not in models)  # when its turn has come


def test_what_is_prepared_is_loaded_though_nobody_waits(models: Models) -> None:
    assert models.start("path:a").result(timeout=20).parameters > 0
    assert models.ready("path:a")


def test_only_what_is_in_the_box_is_opened_in_the_server(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads, paths and what the settings name go through another process, unless it is off."""
    import transformer_viz.checkpoints as checkpoints
    import transformer_viz.opening as opening

    ways: list[str] = []
    load = checkpoints.load

    def way(name: str) -> Callable[..., object]:
        def note(thing: str, **words: object) -> object:
            ways.append(name)
            return load(thing, **words | {"device": "cpu"})

        return note

    monkeypatch.setattr(checkpoints, "load", way("here"))
    monkeypatch.setattr(opening, "open_apart", way("apart"))
    models.shelf.put("upload:x", tmp_path / "b")
    for name in ("path:a", "upload:x", next(iter(models.shelf)), "en-de-small"):
        models.get(name, Task())
    monkeypatch.setenv("TRANSFORMER_VIZ_APART", "off")
    models.get("path:c", Task())
    assert ways == ["apart", "apart", "apart", "here", "here"]


def test_the_process_for_files_is_started_once(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer_viz.opening.places import NURSERY

    begun: list[int] = []
    monkeypatch.setattr(type(NURSERY), "warm", lambda self: begun.append(1))
    for _ in range(3):
        models.expect()
    until(lambda: begun == [1])


def test_the_process_for_files_starts_with_the_question_for_one(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a stranger's model need not wait for torch first, and for its process then."""
    began: list[str] = []
    monkeypatch.setattr(Models, "expect", lambda self: began.append("process"))
    monkeypatch.setattr(Models, "_load", lambda self, loading: began.append("load"))
    models.start("path:a")
    until(lambda: len(began) == 2)
    assert began == ["process", "load"]


WARM = """
import sys
from transformer_viz.app.engine import model_loader
from transformer_viz.opening import places

places.NURSERY.warm()
model_loader._warm_up()
print(places.NURSERY.process, "torch" in sys.modules)
"""


@pytest.mark.process
def test_the_process_for_files_is_begun_before_torch_is_here() -> None:
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=True)
    process, torch = done.stdout.split()
    assert int(process) > 0 and torch == "False"


def until(ready: Callable[[], bool]) -> None:
    """Wait for something that other threads bring about."""
    end = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


MEMORY = """
import os, sys, json
from pathlib import Path
import torch
from safetensors.torch import save_file
from transformer_viz.model import ModelConfig, Transformer
from transformer_viz.app.engine.model_loader import Loading, Models
from transformer_viz.app.engine.model_catalog import REMEMBERED, Shelf
from transformer_viz.app.engine.task import Task

folder = Path(sys.argv[1])
words = ModelConfig(d_model=384, heads=8, d_ff=1536, encoder_layers=6, decoder_layers=6,
                    source_vocab=9000, target_vocab=9000)
module = Transformer(words)
save_file(module.state_dict(), folder / "weights.safetensors")
for name in "abcd":
    (folder / name).mkdir()
    os.link(folder / "weights.safetensors", folder / name / "weights.safetensors")
    config = {"layout": "transformer_viz"} | words.to_dict()
    (folder / name / "config.json").write_text(json.dumps(config))
del module
os.environ["TRANSFORMER_VIZ_ROOTS"] = str(folder)
models = Models(Shelf(""), most=1)

def resident():
    text = Path("/proc/self/status").read_text()
    return int(next(l for l in text.splitlines() if l.startswith("RssAnon")).split()[1]) / 1e3

sizes = []
for name in "abcd":
    model = models.get(f"path:{name}", Task())
    one = 4e-6 * model.parameters
    del model
    sizes.append(resident())
print(json.dumps({"one": one, "sizes": sizes}))
"""


@pytest.mark.process
def test_memory_comes_back_when_the_model_is_changed(tmp_path: Path) -> None:
    """Four models of 100 MB one after the other take less than one and a half of them."""
    words = [sys.executable, "-c", MEMORY, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["one"] > 90
    assert max(found["sizes"][1:]) - found["sizes"][0] < found["one"] / 2, found


def test_what_could_not_be_loaded_keeps_no_weights(models: Models, tmp_path: Path) -> None:
    (tmp_path / "a" / CONFIG).write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError) as error:
        models.get("path:a", Task())
    passed = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert "_load" not in passed and "build" not in passed
    assert not models.ready("path:a") and "path:a" in models


def test_memory_is_handed_back_once_for_several_large_runs(monkeypatch):
    handed, timers = [], []
    # An earlier test may still wait to hand over.
    monkeypatch.setattr(memory, "_waiting", threading.Lock())
    monkeypatch.setattr(memory, "trim", lambda: handed.append(1))
    monkeypatch.setattr(memory.threading, "Timer", lambda _, act: timers.append(act) or _Still())
    for size in (memory.LARGE - 1, memory.LARGE, memory.LARGE):
        memory.after_a_run(size)
    assert len(timers) == 1
    timers[0]()
    memory.after_a_run(memory.LARGE)
    assert (len(handed), len(timers)) == (1, 2)
    timers[1]()
    memory.after_a_run(1, long=True)  # what many passes leave is more than what they give
    assert (len(handed), len(timers)) == (2, 3)
    timers[2]()


class _Still:
    def start(self) -> None:
        """Wait for the test to act."""


def test_the_model_of_an_adapter_stands_below_the_roots_too(models: Models, tmp_path: Path) -> None:
    from tests.checkpoints.hugging_face import CASES, D, folder_of
    from tests.checkpoints.test_adapters import Q, adapter, factors

    inside = folder_of(CASES["llama"], "safetensors", tmp_path / "llama")
    adapter(tmp_path / "tuned", factors(Q, D, D), base_model_name_or_path=str(inside))
    assert "merged into llama" in models.get("path:tuned", Task()).notes[-1]
    outside = shutil.copytree(inside, tmp_path.parent / f"{tmp_path.name}-outside")
    adapter(tmp_path / "other", factors(Q, D, D), base_model_name_or_path=str(outside))
    with pytest.raises(ValueError, match="is outside of what may be opened here"):
        models.get("path:other", Task())


class OutOfMemoryError(RuntimeError):
    """As torch raises it; known by its name."""


def test_a_full_graphics_card_is_left_and_said(
    models: Models, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformer_viz.checkpoints as checkpoints

    asked: list[str | None] = []
    real = checkpoints.load

    def load(thing: str, device: str | None = None, **words: Any) -> Any:
        asked.append(device)
        return replace(real(thing, device="cpu", **words), device=device or "cuda:0")

    monkeypatch.setattr(checkpoints, "load", load)
    monkeypatch.setenv("TRANSFORMER_VIZ_APART", "off")
    engine = Engine(str(shelf / "tiny"))
    monkeypatch.setattr(engine, "models", models)

    def runs(model: Any) -> str:
        if model.device != "cpu":
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return str(model.device)

    with pytest.raises(ValueError, match=r"too little memory .* on the processor from now on"):
        engine.ask("path:a", runs)
    assert engine.ask("path:a", runs) == "cpu"
    assert asked == [None, "cpu"]
    models.leave_full_card(OutOfMemoryError(), models.get("path:a", Task()))  # on no card
    models.leave_full_card(MemoryError(), None)
