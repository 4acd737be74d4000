"""Files that a visitor brings to the page Checkpoint, and models of the Hub."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.hub_fixtures import folder, hub
from tests.support.hub_server import Hub
from tests.support.two_vocabularies import SOURCE, TARGET, tutorial_file
from tests.support.widgets import click, keys, put, runs
from transformer_viz import reach
from transformer_viz.app.checkpoint import stored_run, uploads
from transformer_viz.app.engine import hub_models, model_names
from transformer_viz.app.engine.model_catalog import Shelf
from transformer_viz.app.engine.task import Abandoned, Task
from transformer_viz.app.session.keys import private
from transformer_viz.checkpoints.common.bundled import WEIGHTS
from transformer_viz.checkpoints.hub.ids import HubId
from transformer_viz.checkpoints.hub.snapshots import cached

from ...support.page_content import address, go, html, said, tiles, told
from .test_checkpoint import PAGE, facts_agree

__all__ = ["folder", "hub"]
pytestmark = [pytest.mark.app, pytest.mark.usefixtures("proved_once")]
Visit = Callable[..., AppTest]
Folder = Callable[[str], Path]
ID = "tiny/gpt2"


@pytest.fixture
def mine(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tiny model; visits that end are forgotten at once."""
    monkeypatch.setattr(uploads, "GRACE", 0.0)
    return shutil.copytree(shelf / "tiny", tmp_path / "mine")


def drop(app: AppTest, **files: bytes) -> AppTest:
    """Drop files; two strokes in a name stand for a point."""
    came = [(name.replace("__", "."), data, "") for name, data in files.items()]
    return runs(app.file_uploader(key="checkpoint-files").set_value(came).run())


def zipped(folder: Path, top: str = "my model/") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, top + path.name)
    return out.getvalue()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name.replace(".", "__"): path.read_bytes() for path in folder.iterdir()}


# ---- Uploads


def test_several_files_and_a_zip_open_like_the_folder(visit: Visit, mine: Path) -> None:
    shape = tv.trace(tv.load(str(mine)), "The cat sat.", check=False).thumbnail("cross").shape
    for files in (files_of(mine), {"mine__zip": zipped(mine)}):
        app = drop(visit(PAGE), **files)
        assert not app.error
        facts_agree(app, mine)
        name = app.session_state["checkpoint"]
        assert name.startswith("upload:") and address(app)["checkpoint"].count("/") == 0
        click(app, "explore")
        assert not app.error and app.session_state["model"] == name and tiles(app).shape == shape
        stranger = visit(model=name)  # another visit, even one that knows the whole name
        assert "upload it here" in told(stranger) and stranger.session_state["model"] == "tiny"
        stranger = runs(visit(PAGE, checkpoint=name))
        assert "upload it here" in told(stranger) and 'data-what="facts"' not in html(stranger)


def vocabulary(app: AppTest, side: str) -> Any:
    return next(one for one in app.selectbox if one.label == f"{side} vocabulary")


def test_files_whose_side_is_not_clear_are_asked_for(visit: Visit, tmp_path: Path) -> None:
    model = {"model__pt": tutorial_file(tmp_path / "model").read_bytes()}
    model["config__json"] = b'{"heads": 2}'
    first, second = "\n".join(SOURCE).encode(), "\n".join(TARGET).encode()
    lines = second.split(b"\n")
    short = {"first__txt": first.rpartition(b"\n")[0], "second__txt": b"\n".join(lines[:9])}
    app = drop(visit(PAGE), **model, **short)
    assert "tokens are typed as numbers" in html(app) and "No vocabulary was given" not in html(app)
    app = drop(visit(PAGE), **model, first__txt=first, second__txt=second)
    assert "<code>dog</code>" in html(app) and "Taken by its size" in html(app)
    assert "second.txt, by its size" in vocabulary(app, "Target").options
    for side, file in (("Source", "first.txt"), ("Target", "second.txt")):
        assert {"first.txt", "second.txt"} <= set(vocabulary(app, side).options)
        vocabulary(app, side).set_value(file).run()
        assert not app.error and not app.exception, side
    assert "<code>dog</code>" in html(app) and "Give the other" not in html(app)
    name = app.session_state["checkpoint"]
    assert name.endswith('//{"source_vocabulary":"first.txt","target_vocabulary":"second.txt"}')
    assert name.startswith("upload:")
    for side, file, fits in (
        ("Source", "second.txt", None),  # both sides of one file for a moment
        ("Target", "first.txt", False),
        ("Source", "first.txt", None),
        ("Target", "second.txt", True),
    ):
        vocabulary(app, side).set_value(file).run()
        assert not app.exception and fits in (None, not app.error), (side, file)
        if fits is False:
            assert "swap them" in app.error[0].value
    click(app, "said-target_vocabulary")
    assert "second.txt (target)" in html(app) and "Give the other" not in html(app)
    named = drop(visit(PAGE), **model, src__txt=first, tgt__txt=second)
    assert "<code>dog</code>" in html(named)
    assert not [one for one in named.selectbox if one.label == "Source vocabulary"]
    named = drop(visit(PAGE), **model, src__txt=second, tgt__txt=first)
    assert "swap them" in named.error[0].value  # names that say the wrong side
    for side, file in (("Source", "tgt.txt"), ("Target", "src.txt")):
        vocabulary(named, side).set_value(file).run()
    assert not named.error and "<code>dog</code>" in html(named)
    for place in ("../a.txt", "/etc/passwd", ".hidden", "a/b.txt"):
        with pytest.raises(ValueError, match="holds no words of a config"):
            model_names.read_words(json.dumps({"source_vocabulary": place}))


def test_an_upload_goes_when_its_visit_ends_and_stays_where_it_comes_back_in_time(
    visit: Visit, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = drop(visit(PAGE), **files_of(mine))
    room, name = app.session_state["_upload_folder"], app.session_state["checkpoint"]
    engine, folder = room.engine, room.folder
    assert (engine.shelf[name].path / WEIGHTS).is_file() and engine.ready(name)
    monkeypatch.setattr(uploads, "GRACE", 60.0)
    clear_session_resource_cache("test session id")
    assert room.end.is_alive()
    app.run()
    room.end.join(5)
    assert room.open and not room.end.is_alive() and not app.error
    monkeypatch.setattr(uploads, "GRACE", 0.0)
    clear_session_resource_cache("test session id")
    room.end.join(10)
    assert not folder.exists() and name not in engine.shelf and not engine.ready(name)
    assert "upload it here" in told(runs(app.run()))


def test_the_last_uploads_and_the_explored_one_are_kept_and_all_else_stays(
    visit: Visit, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MAX_UPLOADS", 2)
    app = put(visit(beam="8", layer="1"), {"text": "A dog sat."})
    before, names = address(go(app, PAGE)), []
    assert before["text"] == "A dog sat." and before["beam"] == "8"
    for number in range(uploads.MAX_UPLOADS + 1):
        drop(app, **{f"my{number}__zip": zipped(mine)})
        names.append(app.session_state["checkpoint"])
        assert address(app) == before | {"checkpoint": address(app)["checkpoint"]}, number
    room = app.session_state["_upload_folder"]
    kept = [name in room.engine.shelf for name in names]
    assert kept == [False] + [True] * uploads.MAX_UPLOADS
    assert len(list(room.folder.iterdir())) == uploads.MAX_UPLOADS
    go(app, "")
    assert app.session_state["text"] == "A dog sat." and not app.error and not app.warning
    click(go(app, PAGE), "explore")
    explored = app.session_state["model"]
    go(app, PAGE)
    for number in range(uploads.MAX_UPLOADS + 1):
        drop(app, **{f"other{number}__zip": zipped(mine)})
        assert app.session_state["model"] == explored and not app.error, number
    assert explored in room.engine.shelf
    assert len(list(room.folder.iterdir())) == uploads.MAX_UPLOADS
    room.close()


class Payload:
    """A pickle that would leave a file behind where it is opened carelessly."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


def test_hostile_files_are_refused_in_a_sentence(visit: Visit, mine: Path, tmp_path: Path) -> None:
    canary, out = tmp_path / "canary", io.BytesIO()
    torch.save({"weight": torch.zeros(2), "run": Payload(canary)}, out)
    escape = io.BytesIO()
    with zipfile.ZipFile(escape, "w") as archive:
        archive.writestr("../../out.txt", "x")
    for files, words in (
        ({"evil__pt": out.getvalue()}, ""),
        ({"slip__zip": escape.getvalue()}, ""),
        ({"notes__txt": b"hello"}, ""),
        ({"empty__pt": b""}, ""),
        ({"page__safetensors": b"<html>not found</html>"}, ""),
        ({"half__zip": zipped(mine)[:500]}, ""),
        ({"first__zip": zipped(mine), "config__json": b"{}"}, "drop it alone"),
    ):
        app = drop(visit(PAGE), **files)
        (sentence,) = (box.value for box in app.error)
        assert "\n" not in sentence and "Traceback" not in sentence, (list(files), sentence)
        assert words in told(app)
    assert not canary.exists() and not (tmp_path.parent / "out.txt").exists()
    app = drop(visit(PAGE), **{"<img src=x onerror=alert(1)>__zip": zipped(mine)})
    assert "<img" not in html(app)


# ---- Trace files


def test_a_trace_file_opens_as_its_report(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    tv.from_attentions(np.full((2, 3, 5, 5), 0.2), ["<b>", "ä", "c", "d", "e"]).save(path)
    given = path.read_bytes()
    app = drop(visit(PAGE), run__safetensors=given)
    seen = html(app)
    assert "run.safetensors" in seen
    assert "nothing proves that it used them" in seen and 'data-status="green"' not in seen
    frame = app.session_state[type(private).__dict__["stored_run"].key]
    assert frame.page == tv.views.report(tv.Trace.load(path))
    assert "&lt;b&gt;" in frame.page and "<b>" not in frame.page  # nothing in a file is run
    assert "run.safetensors" not in html(runs(click(app, "leave-run")))
    spoilt = given.replace(b'\\"format\\": 1', b'\\"format\\": 9')
    assert spoilt != given
    assert "has trace format 9" in told(drop(visit(PAGE), run__safetensors=spoilt))
    plain = safetensors.numpy.save({"weight": np.ones(3, np.float32)})  # weights are none
    assert stored_run.dropped("model.safetensors", io.BytesIO(plain)) is None
    assert stored_run.dropped("model.pt", io.BytesIO(given)) is None
    found = stored_run.dropped("run.safetensors", io.BytesIO(given))
    assert found is not None and {one.status for one in found.findings} == {"amber"}


# ---- Models of the Hub


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The app as its owner starts it on this machine."""
    monkeypatch.setenv("TRANSFORMER_VIZ_HUB", "any")
    monkeypatch.setenv(reach.REACH, "machine")
    monkeypatch.setattr(hub_models, "_shown", set())
    return monkeypatch


def hub_page(visit: Visit, text: str) -> AppTest:
    return runs(put(visit(PAGE), {"checkpoint-hub": text}), text)


@pytest.mark.usefixtures("at_home")
def test_an_id_its_size_a_click_and_its_picture(visit: Visit, hub: Hub, folder: Folder) -> None:
    hub.add(ID, folder("gpt2"))
    app = hub_page(visit, ID)
    sizes = [path.stat().st_size for path in folder("gpt2").iterdir()]
    assert f"{sum(sizes) / 1000:.0f} kB in {len(sizes)} files" in html(app)
    assert hub.weights_asked() == []  # nothing large before the click
    runs(click(app, "hub-fetch"))
    assert len(hub.weights_asked()) == 1 and "layout hugging_face" in said(app, "facts")
    assert address(click(app, "explore"))["model"] == ID
    later = runs(visit(PAGE, model=ID))  # another visit, from the link alone
    assert "layout hugging_face" in said(later, "facts") and len(hub.weights_asked()) == 1


@pytest.mark.usefixtures("at_home")
@pytest.mark.shipped
def test_a_link_fetches_nothing_and_says_where(visit: Visit, hub: Hub, folder: Folder) -> None:
    hub.add(ID, folder("gpt2"))
    for link, name in (({"model": f"{ID}@main"}, f"hub:{ID}@main"), ({"beside": ID}, f"hub:{ID}")):
        app = runs(visit(**link), link)
        assert hub.asked == [], link
        assert any("is not on this server yet" in one.value for one in app.warning), link
        assert app.session_state["checkpoint"] == name and not app.session_state["beside"]
    assert keys(go(app, PAGE), "hub-fetch") == ["hub-fetch"]
    # The other model of Compare is named like the first.
    hub_models.fetch(hub_models.look(HubId(ID)), Task())
    app = runs(visit("compare", model="en-lm", beside=ID, versus="model"))
    assert address(app)["beside"] == ID
    chosen = app.selectbox(key="compare-model")
    assert chosen.value == f"hub:{ID}" and len(chosen.options) > 1


def test_what_the_hub_and_the_owner_refuse_is_a_sentence(
    visit: Visit, hub: Hub, at_home: pytest.MonkeyPatch
) -> None:
    hub.add("tiny/mamba", {"config.json": b'{"model_type": "mamba"}', "model.safetensors": b"x"})
    for text, read in (
        ("tiny//gpt2", "is no id of the Hub"),
        ("tiny/none", "There is no model tiny/none here"),
        ("tiny/mamba", "A mamba model has no attention that could be shown"),
    ):
        app = hub_page(visit, text)
        assert any(read in one.value.replace("\\", "") for one in app.error), text
        assert hub.weights_asked() == [], text
    hub.asked.clear()
    at_home.setenv("TRANSFORMER_VIZ_HUB", "off")
    app = runs(visit(PAGE, checkpoint=ID))
    assert hub.asked == [] and "checkpoint-hub" not in [one.key for one in app.text_input]
    assert any("opens no models of the Hub" in one.value for one in app.error)
    at_home.setenv("TRANSFORMER_VIZ_HUB", "listed")
    at_home.setenv("TRANSFORMER_VIZ_HUB_LIST", "tiny/gpt2, Tiny/Bert")
    assert hub_models.name_of("tiny/gpt2@v2") == "hub:tiny/gpt2@v2"
    assert hub_models.name_of("tiny/bert") == "hub:tiny/bert"
    with pytest.raises(ValueError, match="opens only some models of the Hub: tiny/gpt2, Tiny/Bert"):
        hub_models.name_of("tiny/marian")


@pytest.mark.usefixtures("at_home")
def test_a_stop_keeps_what_came(hub: Hub, folder: Folder) -> None:
    files = {path.name: path.read_bytes() for path in folder("gpt2").iterdir()}
    hub.add(ID, files | {"model.safetensors": bytes(2**20)})
    plan, task = hub_models.look(HubId(ID)), Task()

    class Stopping(Task):
        def step(self, done: int, of: int) -> None:
            if done > 500_000:
                self.abandon()
            super().step(done, of)

    with pytest.raises(Abandoned):
        hub_models.fetch(plan, Stopping())
    assert cached(HubId(ID)) is None and hub_models.look(HubId(ID)).here > 500_000
    hub_models.fetch(plan, task)
    assert task.done == 1.0 and hub.weights_asked()[-1].startswith("bytes=")


def test_a_stranger_gets_nothing_of_the_owners(
    hub: Hub, folder: Folder, at_home: pytest.MonkeyPatch
) -> None:
    """Neither by the owner's token, nor from the cache that the owner filled with it."""
    hub.add("tiny/mine", folder("gpt2"), token="secret")
    hub.add("tiny/all", folder("bert"))
    at_home.setenv("HF_TOKEN", "secret")
    for name in ("tiny/mine", "tiny/all"):
        hub_models.fetch(hub_models.look(HubId(name)), Task())
    at_home.setattr(hub_models, "_shown", set())  # the server begins anew
    shelf = Shelf("en-de")
    assert shelf["hub:tiny/mine"].path == cached(HubId("tiny/mine"))  # the owner's own machine
    at_home.setenv(reach.REACH, "others")
    for name in ("tiny/mine", "tiny/all"):
        with pytest.raises(model_names.NotHere, match="is not on this server yet"):
            shelf[f"hub:{name}"]
    with pytest.raises(ValueError, match="There is no model tiny/mine here"):
        hub_models.look(HubId("tiny/mine"))
    plan = hub_models.look(HubId("tiny/all"))
    assert plan.left == 0
    hub_models.fetch(plan, Task())
    assert shelf["hub:tiny/all"].is_own


@pytest.mark.usefixtures("at_home")
def test_names_of_links_are_told_apart() -> None:
    for text, name in (
        ("labs/additive", "labs/additive"),  # a bundled model
        ("path:a/b", "path:a/b"),
        ("a/b@v1", "hub:a/b@v1"),
    ):
        assert hub_models.internal(text) == name
    changed = 'a/b//{"heads":2}'
    assert model_names.public_name(hub_models.internal(changed)) == changed
    for words in ('{"allow_pickle": true}', '{"names": "/srv/elsewhere.json"}'):
        with pytest.raises(ValueError, match="holds no words"):
            model_names.read_words(words)
