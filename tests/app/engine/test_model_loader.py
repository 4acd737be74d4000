"""Loaded models: how many stay, what is let go, and what is loaded again."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import until
from transformer_viz import checkpoints, opening
from transformer_viz.app.engine import memory, model_names, trace_jobs
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_catalog import REMEMBERED, Shelf
from transformer_viz.app.engine.model_loader import Loading, Models
from transformer_viz.app.engine.query import File, Question, whole_layer
from transformer_viz.app.engine.task import Abandoned, Task
from transformer_viz.checkpoints.common.bundled import CONFIG
from transformer_viz.checkpoints.common.eyes import Eyes
from transformer_viz.opening.places import NURSERY

Patch = pytest.MonkeyPatch
PLACE = whole_layer("cross", 0)
LONG = 60  # seconds after which a test that hangs gives up


@pytest.fixture
def models(shelf: Path, tmp_path: Path, monkeypatch: Patch) -> Models:
    """Four copies of the tiny model below the allowed folder; two may stay loaded."""
    for name in "abcd":
        shutil.copytree(shelf / "tiny", tmp_path / name)
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    return Models(Shelf(str(shelf / "tiny")), most=2)


def get(models: Models, name: str) -> Any:
    return models.get(f"path:{name}", Task())


def loaded(models: Models) -> str:
    return "".join(name for name in "abcd" if models.ready(f"path:{name}"))


@pytest.mark.slow
def test_the_models_used_last_stay_and_the_others_go(models: Models) -> None:
    assert models.start("path:a").result(timeout=LONG).parameters > 0  # though nobody waits
    assert models.ready("path:a")
    get(models, "b")
    get(models, "a")
    kept = weakref.ref(get(models, "b").module)
    get(models, "a")
    gone = weakref.ref(get(models, "c").module)
    assert loaded(models) == "ac" and kept() is None
    get(models, "d")
    assert loaded(models) == "cd" and gone() is not None
    models.limit = 1  # the newest one stays however large it is
    for name in "ab":
        get(models, name)
        assert loaded(models) == name


def test_a_file_that_was_written_again_is_loaded_and_run_again(models, shelf, tmp_path) -> None:
    engine = Engine(str(shelf / "tiny"))
    question = Question("path:a", "The cat sat.", target="A dog.")
    first = engine.clean(question, PLACE).trace
    assert engine.clean(question, PLACE).trace is first
    words = json.loads((tmp_path / "a" / CONFIG).read_text(encoding="utf-8"))
    (tmp_path / "a" / CONFIG).write_text(json.dumps(words | {"norm": "post"}), encoding="utf-8")
    second = engine.clean(question, PLACE).trace
    assert engine.model("path:a").config["norm"] == "post"
    assert abs(second.attention("cross") - first.attention("cross")).max() > 1e-3


@pytest.mark.slow
def test_cached_runs_and_pictures_do_not_keep_their_model(models: Models, shelf: Path) -> None:
    engine = Engine(str(shelf / "tiny"))
    engine.models.most = 1
    answer = engine.clean(Question("path:a", "The cat sat."), PLACE)
    seen = engine.inspection("path:a")
    module = weakref.ref(engine.model("path:a").module)
    tokenizer = weakref.ref(engine.model("path:a").tokenizer)  # an unknown one has a process
    engine.model("path:b")
    assert module() is None and answer.trace.maps and seen.parameters > 0
    assert tokenizer() is None

    looked: list[bytes] = []
    told: Any = object()
    eyes = Eyes(7, lambda content: looked.append(content) or told, None, None)
    picture = File("1f", "a.png", b"a picture")
    assert trace_jobs.seen(eyes, picture) is told and trace_jobs.seen(eyes, picture) is told
    assert looked == [b"a picture"]
    kept = weakref.ref(eyes)
    del eyes
    gc.collect()
    assert kept() is None


def test_other_options_are_another_model(models: Models) -> None:
    post = model_names.named("path:a", {"norm": "post"})
    first = get(models, "a")
    assert first.config["norm"] == "pre" and get(models, "a") is first
    assert models.get(post, Task()).config["norm"] == "post"
    # A shelf that has seen many names keeps what is loaded.
    for number in range(REMEMBERED + 2):
        assert model_names.named("path:b", {"norm_eps": number}) in models.shelf
    assert get(models, "a") is first


def test_a_model_that_cannot_be_loaded_is_an_error_in_words(models: Models, tmp_path: Path) -> None:
    for name in ("path:gone", "upload:x/1/y", "z", 'z//{"heads":1}', ""):
        with pytest.raises(KeyError) as missing:
            models.start(name)
        assert len(missing.value.args[0]) > 20 and name not in models.shelf, name
    (tmp_path / "a" / CONFIG).write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError) as error:
        get(models, "a")
    # Its traceback keeps no weights.
    passed = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert "_load" not in passed and "build" not in passed
    assert not models.ready("path:a") and "path:a" in models


@pytest.mark.slow
def test_models_of_visitors_are_loaded_one_after_the_other(models, monkeypatch) -> None:
    """Many links at once take the memory of one load, and ours do not wait for them."""
    inside: list[str] = []
    most: list[int] = []
    go_on, load = threading.Event(), Models._load

    def slow(self: Models, loading: Loading) -> None:
        inside.append(loading.name)
        most.append(len(inside))
        if loading.shelved.is_own:
            assert go_on.wait(LONG)
        load(self, loading)
        inside.remove(loading.name)

    monkeypatch.setattr(Models, "_load", slow)
    tasks = {name: Task() for name in "abcd"}
    with ThreadPoolExecutor(4) as pool:
        found = {name: pool.submit(models.get, f"path:{name}", tasks[name]) for name in "abcd"}
        until(lambda: len(models._loadings) == 4 and len(inside) == 1)
        own = models.get(next(iter(models.shelf)), Task())
        assert own.parameters > 0 and len(inside) == 1  # it went past them
        (loading,) = inside
        left = next(name for name in "abcd" if not loading.endswith(name))
        waits = next(name for name in "dcba" if name != left and not loading.endswith(name))
        until(lambda: "Waiting for another model" in tasks[waits].words)
        tasks[left].abandon()
        until(found[left].done)
        go_on.set()
        with pytest.raises(Abandoned):
            found.pop(left).result(LONG)
        assert all(one.result(LONG).name for one in found.values())
    assert max(most) <= 2  # ours was the second
    until(lambda: f"path:{left}" not in models)  # when its turn has come


@pytest.mark.slow
def test_only_bundled_models_are_opened_in_the_server(models, tmp_path, monkeypatch) -> None:
    """Uploads, paths and what the settings name go through another process, unless it is off."""
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
    get(models, "c")
    assert ways == ["apart", "apart", "apart", "here", "here"]


def test_the_process_for_files_starts_once_with_the_first_question(models, monkeypatch) -> None:
    """A link to a visitor's model need not wait for torch first, and for its process then."""
    begun: list[str] = []
    monkeypatch.setattr(type(NURSERY), "warm", lambda self: begun.append("process"))
    for _ in range(3):
        models.expect()
    until(lambda: begun == ["process"])
    begun.clear()
    monkeypatch.setattr(Models, "expect", lambda self: begun.append("process"))
    monkeypatch.setattr(Models, "_load", lambda self, loading: begun.append("load"))
    models.start("path:a")
    until(lambda: len(begun) == 2)
    assert begun == ["process", "load"]


WARM = """
import sys
from transformer_viz.app.engine import model_loader
from transformer_viz.opening import places

places.NURSERY.warm()
model_loader._warm_up()
print(places.NURSERY.process, "torch" in sys.modules)
"""
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
words = ModelConfig(d_model=384, heads=8, d_ff=1536, encoder_layers=3, decoder_layers=3,
                    source_vocab=4500, target_vocab=4500)
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
    """Four models of 60 MB one after the other take less than one and a half of them."""

    def printed(*words: str) -> str:
        command = [sys.executable, "-c", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    process, torch = printed(WARM).split()
    assert int(process) > 0 and torch == "False"  # it begins before torch is here
    found = json.loads(printed(MEMORY, str(tmp_path)).splitlines()[-1])
    assert found["one"] > 55
    assert max(found["sizes"][1:]) - found["sizes"][0] < found["one"] / 2, found


def test_memory_is_handed_back_once_for_several_large_runs(monkeypatch: Patch) -> None:
    handed, timers = [], []
    still = SimpleNamespace(start=lambda: None)  # waits for the test to act
    # An earlier test may still wait to hand over.
    monkeypatch.setattr(memory, "_waiting", threading.Lock())
    monkeypatch.setattr(memory, "trim", lambda: handed.append(1))
    monkeypatch.setattr(memory.threading, "Timer", lambda _, act: timers.append(act) or still)
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


def test_the_model_of_an_adapter_stands_below_the_roots_too(models: Models, tmp_path: Path) -> None:
    from tests.checkpoints.hugging_face import CASES, D, folder_of
    from tests.checkpoints.test_adapters import Q, adapter, factors

    inside = folder_of(CASES["llama"], "safetensors", tmp_path / "llama")
    adapter(tmp_path / "tuned", factors(Q, D, D), base_model_name_or_path=str(inside))
    assert "merged into llama" in get(models, "tuned").notes[-1]
    outside = shutil.copytree(inside, tmp_path.parent / f"{tmp_path.name}-outside")
    adapter(tmp_path / "other", factors(Q, D, D), base_model_name_or_path=str(outside))
    with pytest.raises(ValueError, match="is outside of what may be opened here"):
        get(models, "other")


class OutOfMemoryError(RuntimeError):
    """As torch raises it; known by its name."""


def test_a_full_graphics_card_is_left_and_reported(models, shelf, monkeypatch) -> None:
    asked: list[str | None] = []
    real = checkpoints.load

    def load(thing: str, device: str | None = None, **words: Any) -> Any:
        asked.append(device)
        return replace(real(thing, device="cpu", **words), device=device or "cuda:0")

    def runs(model: Any) -> str:
        if model.device != "cpu":
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return str(model.device)

    monkeypatch.setattr(checkpoints, "load", load)
    monkeypatch.setenv("TRANSFORMER_VIZ_APART", "off")
    engine = Engine(str(shelf / "tiny"))
    monkeypatch.setattr(engine, "models", models)
    with pytest.raises(ValueError, match=r"too little memory .* on the processor from now on"):
        engine.ask("path:a", runs)
    assert engine.ask("path:a", runs) == "cpu"
    assert asked == [None, "cpu"]
    models.leave_full_card(OutOfMemoryError(), get(models, "a"))  # on no card
    models.leave_full_card(MemoryError(), None)
