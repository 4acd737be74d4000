"""The page Checkpoint: every control, every number against a separate look, every refusal."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from tests.support.two_vocabularies import SOURCE, TARGET, tutorial_file
from transformer_viz.app.checkpoint import uploads
from transformer_viz.app.checkpoint.facts import block_table
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_names import parted, read_words
from transformer_viz.app.ui.progress import MARKS
from transformer_viz.checkpoints import load, loader
from transformer_viz.checkpoints.common import native
from transformer_viz.checkpoints.common.bundled import CONFIG, VOCABULARY, WEIGHTS
from transformer_viz.inference.inspection import inspect
from transformer_viz.inference.tracing import trace

from ...support.page_content import address, array, chart, go, html, said, tiles, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
PAGE = "checkpoint"


@pytest.fixture(autouse=True)
def below(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below which paths may be opened, with a copy of the tiny model: ``runs/mine``."""
    shutil.copytree(shelf / "tiny", tmp_path / "runs" / "mine")
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path / "runs"))
    monkeypatch.setattr(uploads, "GRACE", 0.0)
    return tmp_path / "runs"


@pytest.fixture
def guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own layout as one that must guess a scale and where the norm stands."""
    monkeypatch.setenv("TRANSFORMER_VIZ_APART", "off")  # another process knows nothing of it

    class Guessing:
        NAME, WORDS, NAMES = native.NAME, native.WORDS, native.NAMES
        recognise = staticmethod(native.recognise)

        @staticmethod
        def open(found: Any, tokenizer: Any, overrides: dict[str, Any]) -> Any:
            model = native.open(found, tokenizer, overrides)
            guessed = {
                "embedding_scale": "calibration",
                "norm": "convention",
                "final_norm": "convention",
            } | dict.fromkeys(() if "heads" in overrides else ("heads", "d_k", "d_v"), "convention")
            origins = model.provenance | {w: o for w, o in guessed.items() if w not in overrides}
            return replace(model, provenance=origins, notes=("Its scale was guessed.",))

    monkeypatch.setattr(loader, "layouts", (Guessing,))


def look(visit: Visit, **link: str) -> AppTest:
    app = go(visit(**link), PAGE)
    assert not app.exception
    return app


def open_path(app: AppTest, text: str) -> AppTest:
    return app.text_input(key="checkpoint-path").set_value(text).run()


def say(app: AppTest, word: str, value: str) -> AppTest:
    """Say of a word what it is, and open the model with it."""
    app.selectbox(key="override-word").set_value(word)
    app.text_input(key="override-value").set_value(value)
    return app.button(key="override-open").click().run()


def drop(app: AppTest, **files: bytes) -> AppTest:
    """Drop files; two strokes in a name stand for a point."""
    came = [(name.replace("__", "."), data, "") for name, data in files.items()]
    return app.file_uploader(key="checkpoint-files").set_value(came).run()


def row(app: AppTest, word: str) -> str:
    """The line of the table about a word."""
    return next(line for line in html(app).split("<tr ") if f'data-word="{word}"' in line)


def facts_agree(app: AppTest, path: Path, **overrides: Any) -> None:
    """What the page says is what a separate look at the file says."""
    seen = inspect(load(str(path), **overrides))
    assert f"{seen.parameters:,} parameters" in said(app, "facts")
    assert f"sha256 {seen.hash[:12]}" in said(app, "facts")
    assert f"layout {seen.layout}" in said(app, "facts")
    for number, finding in enumerate(seen.findings):
        shown = said(app, f"finding-{number}")
        assert f'data-status="{finding.status}"' in shown and finding.sentence in shown
    for word in seen.config:
        assert f"<td>{word.value}</td>" in row(app, word.word)
        assert word.meaning in row(app, word.word)
    for piece in seen.vocabulary.sample[3:6]:
        assert f"<code>{escape(piece)}</code>" in html(app)


# ---- What is shown ------------------------------------------------------------------------------


def test_the_page_says_what_a_separate_look_at_the_model_says(visit: Visit, shelf: Path) -> None:
    app = look(visit)
    facts_agree(app, shelf / "tiny")
    assert app.expander[0].label.startswith("Every place that was found or checked")
    assert "encoder self L2: 2 heads" in html(app)
    assert not app.error and not app.warning


@pytest.mark.parametrize(("lang", "heading"), [("en", "setting"), ("zh", "设置")])
def test_the_first_column_of_the_config_is_of_settings(
    visit: Visit, lang: str, heading: str
) -> None:
    assert f"<tr><th>{heading}</th>" in html(visit("checkpoint", lang=lang))


def test_the_bars_of_the_parameters_sum_to_the_model(visit: Visit, shelf: Path) -> None:
    model = load(str(shelf / "tiny"))
    counted = {"embedding": 0}
    for name, parameter in model.module.named_parameters():
        place = name.split(".")
        bar = f"{place[0]} L{place[2]}" if place[1] == "layers" else "embedding"
        bar = bar if "layers" in name or "embedding" in name else place[0]
        counted[bar] = counted.get(bar, 0) + parameter.numel()
    figure = chart(look(visit), "parameters")
    shown: dict[str, float] = {}
    for bars in figure["data"]:
        for place, count in zip(bars["y"], array(bars["x"]), strict=True):
            shown[place] = shown.get(place, 0) + int(count)
    assert (
        sum(shown.values()) == model.parameters == block_table(inspect(model))["parameters"].sum()
    )
    for place in ("encoder L0", "encoder L2", "decoder L1"):
        assert shown[place] == counted[place]


def test_the_card_and_the_licence_are_shown_as_they_are_written(visit: Visit, below: Path) -> None:
    (below / "mine" / "README.md").write_text("# A <b>card</b>", encoding="utf-8")
    (below / "mine" / "LICENSE").write_text("Apache & co", encoding="utf-8")
    page = html(open_path(look(visit), "mine"))
    assert "# A &lt;b&gt;card&lt;/b&gt;" in page and "Apache &amp; co" in page


def test_another_model_is_chosen_from_the_list(visit: Visit, below: Path) -> None:
    app = open_path(look(visit), "mine")
    box = app.radio(key="checkpoint-box")
    assert box.value == "path:mine" and len(box.options) == len(set(box.options)) >= 2
    box.set_value("tiny").run()
    assert address(app)["checkpoint"] == "tiny"
    app.radio(key="checkpoint-box").set_value("path:mine").run()
    assert address(app)["checkpoint"] == "path:mine"


def test_opening_can_be_stopped_and_taken_up_again(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = go(visit(), "about")
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "ready", lambda engine, name: False)
        app.session_state[MARKS] = {"inspection": "tiny"}
        go(app, PAGE)
        assert "Stopped." in html(app) and 'data-what="facts"' not in html(app)
    go(app, PAGE)  # the model is open: its proof alone was stopped
    assert "Stopped." in html(app) and 'data-what="facts"' in html(app)
    assert re.findall(r'data-status="(\w+)"', html(app)) == 5 * ["unchecked"]
    assert not app.error and app.text_input(key="checkpoint-path")
    next(button for button in app.button if button.label == "go on").click().run()
    assert re.findall(r'data-status="(\w+)"', html(app)) == 5 * ["green"]


# ---- A path on the server -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["mine", "mine/weights.safetensors", "./mine/../mine", "{below}/mine"]
)
def test_a_path_below_the_allowed_folders_is_opened(visit: Visit, below: Path, text: str) -> None:
    app = open_path(look(visit), text.format(below=below))
    assert not app.error
    facts_agree(app, below / "mine")
    ends = "/weights.safetensors" if text.endswith("safetensors") else ""
    assert address(app)["checkpoint"] == f"path:mine{ends}"
    again = go(visit(**address(app)), PAGE)
    assert said(again, "facts") == said(app, "facts")


def test_a_path_too_long_for_the_system_is_refused_in_words(visit: Visit) -> None:
    app = open_path(look(visit), "word " * 200)
    said = [alert.value for alert in (*app.error, *app.warning)]
    assert len(said) == 1 and " " in said[0] and said[0].endswith(".")


@pytest.mark.parametrize("text", ["/etc/passwd", "../../secret", "nothing.pt", "mine\0", "~/x"])
def test_a_path_that_may_not_be_opened_is_refused_and_kept(
    visit: Visit, below: Path, text: str
) -> None:
    app = open_path(look(visit), text)
    (sentence,) = (box.value for box in app.error)
    assert str(below.name) in sentence and "Traceback" not in sentence
    assert app.text_input(key="checkpoint-path").value == text
    assert 'data-what="facts"' in html(app)  # the model that was looked at before still is


def test_the_page_never_says_where_on_the_server_things_are(visit: Visit, below: Path) -> None:
    (below / "empty").mkdir()
    for name in ("a.pt", "b.pt"):
        (below / "mine" / name).write_bytes(b"x")
    (below / "mine" / WEIGHTS).unlink()
    app = look(visit)
    for text in ("empty", "mine", "gone", "mine/a.pt", "/etc/passwd"):
        app = open_path(app, text)
        assert app.error, text
        assert str(below.parent) not in html(app) + told(app) + str(address(app))
    app = drop(app, a__pt=b"x", b__pt=b"y")
    assert app.error
    assert "/transformer-viz-" not in html(app) + told(app) and "/tmp" not in told(app)


def test_a_link_out_of_the_folder_is_refused(visit: Visit, below: Path, shelf: Path) -> None:
    (below / "sly").symlink_to(shelf / "tiny")
    app = open_path(look(visit), "sly")
    assert len(app.error) == 1 and "outside" in told(app)


def test_a_file_that_cannot_be_opened_says_why_in_a_sentence(visit: Visit, below: Path) -> None:
    (below / "broken.safetensors").write_bytes(b"no weights")
    app = open_path(look(visit), "broken.safetensors")
    (sentence,) = (box.value for box in app.error)
    assert "broken" in sentence and "\n" not in sentence
    assert app.text_input(key="checkpoint-path").value == "broken.safetensors"
    assert not [button for button in app.button if button.key == "explore"]


# ---- Words that the visitor knows better --------------------------------------------------------


def test_a_word_is_overridden_and_taken_back(visit: Visit, below: Path) -> None:
    app = say(open_path(look(visit), "mine"), "embedding_scale", "2.5")
    facts_agree(app, below / "mine", embedding_scale=2.5)
    assert "you said so" in row(app, "embedding_scale") and "the file says so" in row(
        app, "d_model"
    )
    assert address(app)["checkpoint"] == 'path:mine//{"embedding_scale":2.5}'
    app = say(app, "norm", "post")
    assert address(app)["checkpoint"] == 'path:mine//{"embedding_scale":2.5,"norm":"post"}'
    app.button(key="said-embedding_scale").click().run()
    facts_agree(app, below / "mine", norm="post")
    app.button(key="said-norm").click().run()
    assert address(app)["checkpoint"] == "path:mine"


def test_a_model_of_the_box_can_be_overridden_too(visit: Visit, shelf: Path) -> None:
    app = say(look(visit), "norm", "post")
    assert address(app)["checkpoint"] == 'tiny//{"norm":"post"}'
    facts_agree(app, shelf / "tiny", norm="post")


def test_a_word_that_does_not_fit_is_refused_where_it_can_be_taken_back(
    visit: Visit, below: Path
) -> None:
    app = say(open_path(look(visit), "mine"), "norm", "sideways")
    assert len(app.error) == 1 and "sideways" in app.error[0].value
    assert app.selectbox(key="override-word").options[0] == "norm"  # named in the sentence
    assert app.text_input(key="override-value").value == "sideways"
    app.button(key="said-norm").click().run()
    assert not app.error and address(app)["checkpoint"] == "path:mine"


@pytest.mark.parametrize("value", ["[1]", "NaN", "1e999", '{"a": 1}'])
def test_a_value_that_is_none_is_refused(visit: Visit, value: str) -> None:
    app = say(look(visit), "norm", value)
    assert len(app.error) == 1 and "norm takes one value" in app.error[0].value
    assert "checkpoint" not in address(app)


def test_what_was_tried_in_a_lab_is_no_value_that_was_refused_here(visit: Visit) -> None:
    app = go(visit(), "labs")
    app.button(key="step-on").click().run()
    assert app.session_state["_other_labs"]
    assert not go(app, PAGE).error


def test_a_state_dict_without_config_says_what_it_needs_and_opens_when_told(
    visit: Visit, below: Path
) -> None:
    words = json.loads((below / "mine" / CONFIG).read_text(encoding="utf-8"))
    (below / "mine" / CONFIG).unlink()
    (below / "mine" / VOCABULARY).unlink()
    app = open_path(look(visit), "mine")
    assert len(app.error) == 1 and app.selectbox(key="override-word").options
    words = {word: value for word, value in words.items() if word in native.WORDS}
    words["mask_fill"] = -1e9
    for word, value in words.items():
        app = say(app, word, str(value))
    assert not app.error, app.error[0].value
    facts_agree(app, below / "mine", **words)
    assert "No vocabulary is in use for the source" in html(app)


def test_guesses_stand_first_each_with_its_control(
    visit: Visit, below: Path, guessing: None
) -> None:
    app = open_path(look(visit), "mine")
    assert "Nothing on disk says these 4 words for certain" in html(app)
    assert not any(box.label in ("d_k", "d_v") for box in app.text_input)  # they follow from heads
    assert "Its scale was guessed." in html(app)
    for word in ("embedding_scale", "norm", "final_norm"):
        assert "tv-badge-guess" in row(app, word)
    scale = next(box for box in app.text_input if box.label == "embedding_scale")
    app = scale.set_value("2.5").run()
    assert address(app)["checkpoint"] == 'path:mine//{"embedding_scale":2.5}'
    assert "these 3 words" in html(app) and "you said so" in row(app, "embedding_scale")
    norm = next(box for box in app.selectbox if box.label == "norm")
    assert list(norm.options) == ["pre", "post", "query_only"] and norm.value == "pre"
    app = norm.set_value("post").run()
    app = say(app, "final_norm", "true")  # a guess that is right
    heads = json.loads((below / "mine" / CONFIG).read_text(encoding="utf-8"))["heads"]
    app = say(app, "heads", str(heads))
    assert "Nothing on disk" not in html(app)
    facts = {"embedding_scale": 2.5, "norm": "post", "final_norm": True, "heads": heads}
    assert address(app)["checkpoint"] == "path:mine//" + json.dumps(
        facts, sort_keys=True, separators=(",", ":")
    )


# ---- Exploring it -------------------------------------------------------------------------------


def test_explore_makes_it_the_model_of_the_visit(visit: Visit, below: Path) -> None:
    app = say(open_path(look(visit), "mine"), "norm", "post")
    app = app.button(key="explore").click().run()
    assert not app.exception and not app.error
    assert address(app)["model"] == "path:mine" and address(app)["set"] == '{"norm":"post"}'
    assert "mine (norm=post)" in "".join(app.selectbox(key="model").options)
    run = trace(load(str(below / "mine"), norm="post"), "The cat sat.")
    shown = tiles(app)
    assert shown.shape == run.thumbnail("cross").shape
    again = visit(**address(app))
    assert not again.error and not again.warning, told(again)
    assert np.array_equal(tiles(again), shown)
    assert again.session_state["model"] == 'path:mine//{"norm":"post"}'
    plain = visit(model="path:mine")
    assert not np.array_equal(tiles(plain), shown)
    assert "set" not in address(plain)


@pytest.mark.parametrize(
    ("model", "words", "says"),
    [
        ("path:/etc/passwd", "", "outside"),
        ("path:gone.pt", "", "no folder or file"),
        ("upload:ckpt.pt", "", "upload it here"),
        ("upload:0123456789abcdef/1/ckpt.pt", "", "upload it here"),
        ("nowhere", "", "There is no model"),
        ("path:mine", "[1]", "JSON such as"),
        ("path:mine", '{"device":"cuda"}', "JSON such as"),
    ],
)
def test_a_link_to_a_model_that_is_not_here_says_so(
    visit: Visit, model: str, words: str, says: str
) -> None:
    app = visit(model=model, set=words)
    assert not app.exception and says in told(app), told(app)
    assert len(app.warning) == 1


# ---- Uploads ------------------------------------------------------------------------------------


def zipped(folder: Path, top: str = "my model/") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, top + path.name)
    return out.getvalue()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name.replace(".", "__"): path.read_bytes() for path in folder.iterdir()}


def test_several_files_and_a_zip_open_like_the_folder(visit: Visit, below: Path) -> None:
    for files in (files_of(below / "mine"), {"mine__zip": zipped(below / "mine")}):
        app = drop(look(visit), **files)
        assert not app.error
        facts_agree(app, below / "mine")
        name = app.session_state["checkpoint"]
        assert name.startswith("upload:") and address(app)["checkpoint"].count("/") == 0
        app = app.button(key="explore").click().run()
        assert not app.error and app.session_state["model"] == name
        assert (
            tiles(app).shape
            == trace(load(str(below / "mine")), "The cat sat.").thumbnail("cross").shape
        )
        stranger = visit(model=name)  # another visit, even one that knows the whole name
        assert "upload it here" in told(stranger) and stranger.session_state["model"] == "tiny"
        stranger = look(visit, checkpoint=name)
        assert "upload it here" in told(stranger) and 'data-what="facts"' not in html(stranger)


def test_files_whose_side_is_not_clear_are_asked_for(visit: Visit, tmp_path: Path) -> None:
    weights = tutorial_file(tmp_path / "model").read_bytes()
    words = {"first__txt": "\n".join(SOURCE).encode(), "second__txt": "\n".join(TARGET).encode()}
    short = {name: content.rpartition(b"\n")[0] for name, content in words.items()}
    short["second__txt"] = b"\n".join(short["second__txt"].split(b"\n")[:9])
    app = drop(look(visit), model__pt=weights, config__json=b'{"heads": 2}', **short)
    assert "tokens are typed as numbers" in html(app) and "No vocabulary was given" not in html(app)
    app = drop(look(visit), model__pt=weights, config__json=b'{"heads": 2}', **words)
    assert "<code>dog</code>" in html(app) and "Taken by its size" in html(app)
    asked = next(one for one in app.selectbox if one.label == "Target vocabulary")
    assert "second.txt, by its size" in asked.options
    for label, file in {
        "Source vocabulary": "first.txt",
        "Target vocabulary": "second.txt",
    }.items():
        asked = next(one for one in app.selectbox if one.label == label)
        assert {"first.txt", "second.txt"} <= set(asked.options)
        app = asked.set_value(file).run()
        assert not app.error and not app.exception
    assert "<code>dog</code>" in html(app) and "Give the other" not in html(app)
    name = app.session_state["checkpoint"]
    assert name.endswith('//{"source_vocabulary":"first.txt","target_vocabulary":"second.txt"}')
    assert name.startswith("upload:")
    for label, file, fits in (
        ("Source vocabulary", "second.txt", None),  # both sides of one file for a moment
        ("Target vocabulary", "first.txt", False),
        ("Source vocabulary", "first.txt", None),
        ("Target vocabulary", "second.txt", True),
    ):
        asked = next(one for one in app.selectbox if one.label == label)
        app = asked.set_value(file).run()
        assert not app.exception and fits in (None, not app.error), (label, file)
        if fits is False:
            assert "swap them" in app.error[0].value
    app.button(key="said-target_vocabulary").click().run()
    assert "second.txt (target)" in html(app) and "Give the other" not in html(app)
    named = drop(look(visit), model__pt=weights, config__json=b'{"heads": 2}',
                 src__txt=words["first__txt"], tgt__txt=words["second__txt"])  # fmt: skip
    assert "<code>dog</code>" in html(named)
    assert not [one for one in named.selectbox if one.label == "Source vocabulary"]
    named = drop(look(visit), model__pt=weights, config__json=b'{"heads": 2}',
                 src__txt=words["second__txt"], tgt__txt=words["first__txt"])  # fmt: skip
    assert "swap them" in named.error[0].value  # names that say the wrong side
    for label, file in {"Source vocabulary": "tgt.txt", "Target vocabulary": "src.txt"}.items():
        named = next(one for one in named.selectbox if one.label == label).set_value(file).run()
    assert not named.error and "<code>dog</code>" in html(named)
    for place in ("../a.txt", "/etc/passwd", ".hidden", "a/b.txt"):
        with pytest.raises(ValueError, match="holds no words of a config"):
            read_words(json.dumps({"source_vocabulary": place}))


def test_an_upload_goes_when_its_visit_ends(visit: Visit, below: Path) -> None:
    app = drop(look(visit), **files_of(below / "mine"))
    room = app.session_state["_upload_folder"]
    folder = room.folder
    engine = room.engine
    name = app.session_state["checkpoint"]
    assert (engine.shelf[name].path / WEIGHTS).is_file() and engine.ready(name)
    clear_session_resource_cache("test session id")
    room.end.join(10)
    assert not folder.exists() and name not in engine.shelf and not engine.ready(name)
    app.run()
    assert not app.exception and "upload it here" in told(app)


def test_a_visit_that_comes_back_in_time_keeps_its_files(
    visit: Visit, below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = drop(look(visit), **files_of(below / "mine"))
    room = app.session_state["_upload_folder"]
    monkeypatch.setattr(uploads, "GRACE", 60.0)
    clear_session_resource_cache("test session id")
    assert room.end.is_alive()
    app.run()
    room.end.join(5)
    assert room.open and not room.end.is_alive() and not app.error
    room.close()


def test_only_the_last_uploads_of_a_visit_are_kept(visit: Visit, below: Path) -> None:
    app, names = look(visit), []
    for number in range(uploads.MAX_UPLOADS + 1):
        app = drop(app, **{f"my{number}__zip": zipped(below / "mine")})
        names.append(app.session_state["checkpoint"])
    room = app.session_state["_upload_folder"]
    kept = [name in room.engine.shelf for name in names]
    assert kept == [False] + [True] * uploads.MAX_UPLOADS
    assert len(list(room.folder.iterdir())) == uploads.MAX_UPLOADS
    room.close()


def test_a_zip_among_other_files_is_refused(visit: Visit, below: Path) -> None:
    files = {"first__zip": zipped(below / "mine"), "config__json": b"{}"}
    app = drop(look(visit), **files)
    assert "drop it alone" in told(app) and len(app.error) == 1


def test_the_visit_keeps_its_state_however_long_one_looks_at_checkpoints(
    visit: Visit, below: Path
) -> None:
    app = visit(beam="8", layer="1")
    app = app.text_input(key="text").set_value("A dog sat.").run()
    app = go(app, PAGE)
    before = address(app)
    assert before["text"] == "A dog sat." and before["beam"] == "8"
    for number in range(3):
        app = drop(app, **{f"my{number}__zip": zipped(below / "mine")})
        assert address(app) == before | {"checkpoint": address(app)["checkpoint"]}
    app = go(app, "")
    assert app.session_state["text"] == "A dog sat." and not app.error and not app.warning


def test_the_upload_that_is_explored_stays(visit: Visit, below: Path) -> None:
    app = drop(look(visit), my__zip=zipped(below / "mine"))
    app = app.button(key="explore").click().run()
    name = app.session_state["model"]
    app = go(app, PAGE)
    for number in range(uploads.MAX_UPLOADS + 1):
        app = drop(app, **{f"my{number}__zip": zipped(below / "mine")})
        assert app.session_state["model"] == name and not app.error
    room = app.session_state["_upload_folder"]
    assert name in room.engine.shelf and len(list(room.folder.iterdir())) == uploads.MAX_UPLOADS
    room.close()


class Payload:
    """A pickle that would leave a file behind where it is opened carelessly."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


def test_hostile_files_are_refused_in_a_sentence(visit: Visit, tmp_path: Path) -> None:
    canary, out = tmp_path / "canary", io.BytesIO()
    torch.save({"weight": torch.zeros(2), "run": Payload(canary)}, out)
    escape = io.BytesIO()
    with zipfile.ZipFile(escape, "w") as archive:
        archive.writestr("../../out.txt", "x")
    for files in (
        {"evil__pt": out.getvalue()},
        {"slip__zip": escape.getvalue()},
        {"notes__txt": b"hello"},
        {"empty__pt": b""},
        {"page__safetensors": b"<html>not found</html>"},
        {"half__zip": zipped(tmp_path / "runs" / "mine")[:500]},
    ):
        app = drop(look(visit), **files)
        assert not app.exception
        (sentence,) = (box.value for box in app.error)
        assert "\n" not in sentence and "Traceback" not in sentence, sentence
    assert not canary.exists() and not (tmp_path.parent / "out.txt").exists()


def test_names_of_what_was_uploaded_are_shown_as_text(visit: Visit, below: Path) -> None:
    files = {"<img src=x onerror=alert(1)>__zip": zipped(below / "mine")}
    app = drop(look(visit), **files)
    assert "<img" not in html(app)
    assert not app.exception


def test_the_type_of_the_files_numbers_is_named_and_can_be_chosen(
    visit: Visit, below: Path
) -> None:
    weights = below / "mine" / WEIGHTS
    half = {n: x.bfloat16() for n, x in safetensors.torch.load_file(weights).items()}
    safetensors.torch.save_file(half, weights)
    app = open_path(look(visit), "mine")
    assert 'dtype="auto" computes in bfloat16' in html(app).replace("&quot;", '"')
    assert "bfloat16 in the file, computed in float32" in said(app, "facts")
    say(app, "dtype", "auto")
    assert "computes in bfloat16: its numbers hold about" in html(app)
    assert "computed in float32" not in said(app, "facts") and "bfloat16" in said(app, "facts")
    assert parted(address(app)["checkpoint"])[1] == {"dtype": "auto"}
