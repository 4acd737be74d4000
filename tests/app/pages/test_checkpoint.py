"""The page Checkpoint: each control, each number against a separate look, each refusal."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
from streamlit.testing.v1 import AppTest

from tests.support.widgets import click, fine, keys, ok, put, runs
from transformer_viz.app.checkpoint import uploads
from transformer_viz.app.checkpoint.facts import block_table
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_names import parted
from transformer_viz.app.ui.progress import MARKS
from transformer_viz.checkpoints import load, loader
from transformer_viz.checkpoints.common import native
from transformer_viz.checkpoints.common.bundled import CONFIG, VOCABULARY, WEIGHTS
from transformer_viz.inference.inspection import inspect
from transformer_viz.inference.tracing import trace

from ...support.page_content import address, array, chart, go, html, said, tiles, told

pytestmark = [pytest.mark.app, pytest.mark.usefixtures("proved_once")]
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


def open_path(app: AppTest, text: str) -> AppTest:
    return put(app, {"checkpoint-path": text})


def state(app: AppTest, word: str, value: str) -> AppTest:
    """State a word of the config, and open the model with it."""
    app.selectbox(key="override-word").set_value(word)
    app.text_input(key="override-value").set_value(value)
    return click(app, "override-open")


def row(app: AppTest, word: str) -> str:
    """The line of the table about a word."""
    return next(line for line in html(app).split("<tr ") if f'data-word="{word}"' in line)


def facts_agree(app: AppTest, path: Path, **overrides: Any) -> None:
    """What the page says is what a separate look at the file says."""
    seen = inspect(load(str(path), **overrides))
    facts = said(app, "facts")
    for fact in (f"{seen.parameters:,} parameters", f"sha256 {seen.hash[:12]}"):
        assert fact in facts
    assert f"layout {seen.layout}" in facts
    for number, finding in enumerate(seen.findings):
        shown = said(app, f"finding-{number}")
        assert f'data-status="{finding.status}"' in shown and finding.sentence in shown
    for word in seen.config:
        assert f"<td>{word.value}</td>" in row(app, word.word)
        assert word.meaning in row(app, word.word)
    for piece in seen.vocabulary.sample[3:6]:
        assert f"<code>{escape(piece)}</code>" in html(app)


# ---- What is shown


def test_the_page_says_what_a_separate_look_at_the_model_says(visit: Visit, shelf: Path) -> None:
    app = fine(go(visit(), PAGE))
    facts_agree(app, shelf / "tiny")
    assert app.expander[0].label.startswith("Every place that was found or checked")
    assert "encoder self L2: 2 heads" in html(app)
    # The bars of the parameters sum to the model.
    model = load(str(shelf / "tiny"))
    counted: dict[str, int] = {}
    for name, parameter in model.module.named_parameters():
        place = name.split(".")
        bar = f"{place[0]} L{place[2]}" if place[1] == "layers" else place[0]
        counted[bar] = counted.get(bar, 0) + parameter.numel()
    shown: dict[str, float] = {}
    for bars in chart(app, "parameters")["data"]:
        for place, count in zip(bars["y"], array(bars["x"]), strict=True):
            shown[place] = shown.get(place, 0) + int(count)
    table = block_table(inspect(model))
    assert sum(shown.values()) == model.parameters == table["parameters"].sum()
    for place in ("encoder L0", "encoder L2", "decoder L1"):
        assert shown[place] == counted[place], place


def test_card_and_list_of_models(visit: Visit, below: Path) -> None:
    (below / "mine" / "README.md").write_text("# A <b>card</b>", encoding="utf-8")
    (below / "mine" / "LICENSE").write_text("Apache & co", encoding="utf-8")
    app = open_path(visit(PAGE), "mine")
    assert "# A &lt;b&gt;card&lt;/b&gt;" in html(app) and "Apache &amp; co" in html(app)
    box = app.radio(key="checkpoint-box")
    assert box.value == "path:mine" and len(box.options) == len(set(box.options)) >= 2
    for name in ("tiny", "path:mine"):
        assert address(put(app, {"checkpoint-box": name}))["checkpoint"] == name


def test_opening_can_be_stopped_and_taken_up_again(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = visit("about")
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


# ---- A path on the server


def test_a_path_below_the_allowed_folders_is_opened(visit: Visit, below: Path) -> None:
    for text in ("mine", "mine/weights.safetensors", "./mine/../mine", f"{below}/mine"):
        app = open_path(visit(PAGE), text)
        assert not app.exception and not app.error, text
        facts_agree(app, below / "mine")
        ends = "/weights.safetensors" if text.endswith("safetensors") else ""
        assert address(app)["checkpoint"] == f"path:mine{ends}", text
        assert said(visit(PAGE, **address(app)), "facts") == said(app, "facts"), text


def test_a_path_that_may_not_be_opened_is_refused_and_kept(
    visit: Visit, below: Path, shelf: Path
) -> None:
    (below / "broken.safetensors").write_bytes(b"no weights")
    (below / "sly").symlink_to(shelf / "tiny")
    app = visit(PAGE)
    for text, words in (
        *((text, below.name) for text in ("/etc/passwd", "../../secret", "nothing.pt", "~/x")),
        *(("mine\0", below.name), ("sly", "outside"), ("broken.safetensors", "broken")),
    ):
        runs(open_path(app, text), text)
        (sentence,) = (box.value for box in app.error)
        assert words in sentence and "Traceback" not in sentence and "\n" not in sentence, text
        assert app.text_input(key="checkpoint-path").value == text
        is_open = text == "broken.safetensors"  # else the model stays that was shown before
        assert ('data-what="facts"' not in html(app)) == is_open, text
        assert not is_open or "explore" not in keys(app)
    app = open_path(visit(PAGE), "word " * 200)  # too long for the system
    (sentence,) = (alert.value for alert in (*app.error, *app.warning))
    assert " " in sentence and sentence.endswith(".")


def test_the_page_never_says_where_on_the_server_things_are(visit: Visit, below: Path) -> None:
    (below / "empty").mkdir()
    for name in ("a.pt", "b.pt"):
        (below / "mine" / name).write_bytes(b"x")
    (below / "mine" / WEIGHTS).unlink()
    app = visit(PAGE)
    for text in ("empty", "mine", "gone", "mine/a.pt", "/etc/passwd"):
        app = open_path(app, text)
        assert app.error, text
        assert str(below.parent) not in html(app) + told(app) + str(address(app)), text
    files = [("a.pt", b"x", ""), ("b.pt", b"y", "")]
    app.file_uploader(key="checkpoint-files").set_value(files).run()
    assert app.error
    assert "/transformer-viz-" not in html(app) + told(app) and "/tmp" not in told(app)


# ---- Words that the visitor knows better


def test_a_word_is_overridden_and_taken_back(visit: Visit, below: Path, shelf: Path) -> None:
    app = state(open_path(visit(PAGE), "mine"), "embedding_scale", "2.5")
    facts_agree(app, below / "mine", embedding_scale=2.5)
    assert "you said so" in row(app, "embedding_scale")
    assert "the file says so" in row(app, "d_model")
    assert address(app)["checkpoint"] == 'path:mine//{"embedding_scale":2.5}'
    state(app, "norm", "post")
    assert address(app)["checkpoint"] == 'path:mine//{"embedding_scale":2.5,"norm":"post"}'
    click(app, "said-embedding_scale")
    facts_agree(app, below / "mine", norm="post")
    click(app, "said-norm")
    assert address(app)["checkpoint"] == "path:mine"
    app = state(visit(PAGE), "norm", "post")  # of a model in the list
    assert address(app)["checkpoint"] == 'tiny//{"norm":"post"}'
    facts_agree(app, shelf / "tiny", norm="post")


def test_a_word_that_does_not_fit_is_refused_where_it_can_be_taken_back(visit: Visit) -> None:
    app = state(open_path(visit(PAGE), "mine"), "norm", "sideways")
    assert len(app.error) == 1 and "sideways" in app.error[0].value
    assert app.selectbox(key="override-word").options[0] == "norm"  # named in the sentence
    assert app.text_input(key="override-value").value == "sideways"
    click(app, "said-norm")
    assert not app.error and address(app)["checkpoint"] == "path:mine"
    for value in ("[1]", "NaN", "1e999", '{"a": 1}'):
        app = state(visit(PAGE), "norm", value)
        assert len(app.error) == 1 and "norm takes one value" in app.error[0].value, value
        assert "checkpoint" not in address(app), value
    app = click(visit("labs"), "step-on")  # what was tried in a lab is no refused value
    assert app.session_state["_other_labs"] and not go(app, PAGE).error


def test_a_state_dict_without_config_says_what_it_needs_and_opens_when_told(
    visit: Visit, below: Path
) -> None:
    words = json.loads((below / "mine" / CONFIG).read_text(encoding="utf-8"))
    (below / "mine" / CONFIG).unlink()
    (below / "mine" / VOCABULARY).unlink()
    app = open_path(visit(PAGE), "mine")
    assert len(app.error) == 1 and app.selectbox(key="override-word").options
    words = {word: value for word, value in words.items() if word in native.WORDS}
    words["mask_fill"] = -1e9
    stated = ("d_model", "heads", "mask_fill")  # by hand; the others come in the link
    rest = {word: value for word, value in words.items() if word not in stated}
    app = visit(PAGE, checkpoint=f"path:mine//{json.dumps(rest, separators=(',', ':'))}")
    assert len(app.error) == 1
    for word in stated:
        state(app, word, str(words[word]))
    assert not app.error, app.error[0].value
    facts_agree(app, below / "mine", **words)
    assert "No vocabulary is in use for the source" in html(app)


def test_guesses_stand_first_each_with_its_control(
    visit: Visit, below: Path, guessing: None
) -> None:
    app = open_path(visit(PAGE), "mine")
    assert "Nothing on disk says these 4 words for certain" in html(app)
    assert not any(box.label in ("d_k", "d_v") for box in app.text_input)  # they follow from heads
    assert "Its scale was guessed." in html(app)
    for word in ("embedding_scale", "norm", "final_norm"):
        assert "tv-badge-guess" in row(app, word), word
    scale = next(box for box in app.text_input if box.label == "embedding_scale")
    scale.set_value("2.5").run()
    assert address(app)["checkpoint"] == 'path:mine//{"embedding_scale":2.5}'
    assert "these 3 words" in html(app) and "you said so" in row(app, "embedding_scale")
    norm = next(box for box in app.selectbox if box.label == "norm")
    assert list(norm.options) == ["pre", "post", "query_only"] and norm.value == "pre"
    norm.set_value("post").run()
    state(app, "final_norm", "true")  # a guess that is right
    heads = json.loads((below / "mine" / CONFIG).read_text(encoding="utf-8"))["heads"]
    state(app, "heads", str(heads))
    assert "Nothing on disk" not in html(app)
    facts = {"embedding_scale": 2.5, "norm": "post", "final_norm": True, "heads": heads}
    words = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    assert address(app)["checkpoint"] == f"path:mine//{words}"


def test_the_type_of_the_files_numbers_is_named_and_can_be_chosen(
    visit: Visit, below: Path
) -> None:
    weights = below / "mine" / WEIGHTS
    half = {n: x.bfloat16() for n, x in safetensors.torch.load_file(weights).items()}
    safetensors.torch.save_file(half, weights)
    app = open_path(visit(PAGE), "mine")
    assert 'dtype="auto" computes in bfloat16' in html(app).replace("&quot;", '"')
    assert "bfloat16 in the file, computed in float32" in said(app, "facts")
    state(app, "dtype", "auto")
    assert "computes in bfloat16: its numbers hold about" in html(app)
    assert "computed in float32" not in said(app, "facts") and "bfloat16" in said(app, "facts")
    assert parted(address(app)["checkpoint"])[1] == {"dtype": "auto"}


# ---- Exploring it


def test_explore_makes_it_the_model_of_the_visit(visit: Visit, below: Path) -> None:
    app = ok(click(state(open_path(visit(PAGE), "mine"), "norm", "post"), "explore"))
    assert address(app)["model"] == "path:mine" and address(app)["set"] == '{"norm":"post"}'
    assert "mine (norm=post)" in "".join(app.selectbox(key="model").options)
    run = trace(load(str(below / "mine"), norm="post"), "The cat sat.", check=False)
    shown = tiles(app)
    assert shown.shape == run.thumbnail("cross").shape
    again = visit(**address(app))
    assert not again.error and not again.warning, told(again)
    assert np.array_equal(tiles(again), shown)
    assert again.session_state["model"] == 'path:mine//{"norm":"post"}'
    plain = visit(model="path:mine")
    assert not np.array_equal(tiles(plain), shown) and "set" not in address(plain)


def test_a_link_to_a_model_that_is_not_here_says_so(visit: Visit) -> None:
    for model, words, says in (
        ("path:/etc/passwd", "", "outside"),
        ("path:gone.pt", "", "no folder or file"),
        ("upload:ckpt.pt", "", "upload it here"),
        ("upload:0123456789abcdef/1/ckpt.pt", "", "upload it here"),
        ("nowhere", "", "There is no model"),
        ("path:mine", "[1]", "JSON such as"),
        ("path:mine", '{"device":"cuda"}', "JSON such as"),
    ):
        app = visit(model=model, set=words)
        assert not app.exception and says in told(app), (model, words, told(app))
        assert len(app.warning) == 1, (model, words)
