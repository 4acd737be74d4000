"""The widget between Python and a browser: both can set what it shows, and both are told."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import transformer_viz as tv
from tests.support.component_stage import decoded
from tests.support.paths import ROOT
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import BlockKeys, Intervention, ScaleHead, Temperature
from transformer_viz.core.sites import Site
from transformer_viz.core.tiles import LONG
from transformer_viz.notebook.explorer import VIEW, Explorer

IDS, TARGET = [5, 7, 11, 3], [2, 13, 17]
HOT = Intervention((Temperature(value=2.0),))
NOTHING = Intervention()
HEAD = {"stack": "decoder", "block": "cross", "layer": 1, "head": 1}


class FrontEnd:
    """One view of a widget, without a browser; its messages are numbered as by `requests.js`."""

    def __init__(self, widget: Explorer, view: str = "a view") -> None:
        self.widget, self.view, self.asked = widget, view, 0

    def wish(self, *wishes: tuple[str, Any]) -> dict[str, Any]:
        """Send requests as one message; return the header of the frame that answers."""
        self.asked += 1
        sent = json.loads(json.dumps(wishes))
        self.message({"ask": self.asked, "view": self.view, "wishes": sent})
        return self.header

    def message(self, content: Any) -> None:
        """Send anything as a custom message of the widget's comm."""
        data = {"method": "custom", "content": content}
        self.widget._handle_msg({"content": {"data": data}, "buffers": []})

    @property
    def header(self) -> dict[str, Any]:
        return decoded(self.widget._frame)[0]

    def part(self, name: str) -> dict[str, Any]:
        """Return the header of one picture of the newest frame."""
        return decoded(decoded(self.widget._frame)[1][name].tobytes())[0]


def step(value: str, seq: int) -> dict[str, Any]:
    """Return what a slider sends of a move."""
    return {"value": value, "seq": seq, "stroke": seq}


@pytest.fixture
def widget(tiny_model: Model) -> Iterator[Explorer]:
    made = tv.explore(tiny_model, IDS, TARGET, site=("cross", 1, 1))
    yield made
    made.close()


@pytest.fixture
def browser_of(widget: Explorer) -> FrontEnd:
    return FrontEnd(widget)


def weights(trace: tv.Trace) -> np.ndarray:
    return trace.attention("cross", layer=1)


def test_a_slider_runs_the_model_as_trace_does(widget, browser_of, tiny_model) -> None:
    assert widget.site == Site("decoder", "cross", 1, 1)
    assert widget.intervention == NOTHING and widget.source == IDS
    alone = tv.trace(tiny_model, IDS, TARGET, check=False)
    np.testing.assert_array_equal(weights(widget.trace), weights(alone))
    heard: list[Any] = []
    widget.observe(lambda change: heard.append(change["new"]), "intervention")
    answer = browser_of.wish(("scope", "everything"), ("temperature", step("2.0", 7)))
    assert (answer["problem"], answer["answers"], answer["changed"]) == ("", 1, True)
    assert widget.intervention == HOT and heard == [HOT]
    held = list(widget.trace.produced.ids)
    alone = tv.trace(tiny_model, IDS, TARGET, intervention=HOT, check=False, produced=held)
    np.testing.assert_array_equal(weights(widget.trace), weights(alone))
    slider = browser_of.part("slider-temperature")
    assert slider["values"][slider["chosen"]] == "2.0" and slider["seq"] == 7


def test_a_head_a_mask_and_the_way_back(widget: Explorer, browser_of: FrontEnd) -> None:
    browser_of.wish(("head_state", "off"))
    assert widget.intervention == Intervention((ScaleHead(value=0.0, **HEAD),))
    assert not weights(widget.trace)[1].any() and weights(widget.trace)[0].any()
    browser_of.wish(("click", "hide"), ("picked", {"side": "source", "token": 2}))
    assert BlockKeys(keys=(2,), **HEAD) in tuple(widget.intervention)
    chips = browser_of.part("tokens")["rows"][0]["chips"]
    assert [chip["gone"] for chip in chips] == [False, False, True, False]
    browser_of.wish(("head_state", "on"))
    assert not weights(widget.trace)[1, :, 2].any()
    browser_of.wish(("clean", None))
    assert widget.intervention == NOTHING and browser_of.header["changed"] is False


@pytest.mark.slow
def test_python_sets_edits_head_source_and_trace(widget, browser_of, tiny_model) -> None:
    as_dict = {"edits": [{"kind": "temperature", "value": 2.0}]}
    for given, meant in ((HOT, HOT), (HOT.to_json(), HOT), (as_dict, HOT), (None, NOTHING)):
        before = browser_of.header["seq"]
        widget.intervention = {"edits": [{"kind": "causal", "on": False}]}
        widget.intervention = given
        assert widget.intervention == meant == widget.trace.intervention, given
        assert browser_of.header["seq"] == before + 2  # the browser is told once of each
        assert browser_of.header["changes"] == meant.describe(), given
    widget.site = Site("encoder", "self", 2, 0)
    assert widget.site == Site("encoder", "self", 2, 0)
    assert browser_of.header["title"] == "encoder L2 H0"
    widget.source = [5, 7, 3]
    assert len(widget.trace.source) == 3
    other = tv.trace(tiny_model, [5, 9, 9, 19, 3], TARGET, intervention=HOT)
    widget.trace = other
    assert widget.trace is other and widget.intervention == HOT
    assert widget.source == [5, 9, 9, 19, 3]
    browser_of.wish(("clean", None))  # the model reads the words of that trace
    assert widget.trace.source.ids == (5, 9, 9, 19, 3) and not widget.trace.intervention
    assert widget.trace.target.ids == tuple(TARGET)
    # A trace with padding gives back its words.
    padded = Intervention.from_json('{"edits": [{"kind": "pad", "count": 2}]}')
    widget.trace = tv.trace(tiny_model, [5, 9, 3], TARGET, intervention=padded)
    assert len(widget.trace.source) == 5 and widget.source == [5, 9, 3]


def test_python_values_that_do_not_fit_change_nothing(widget, browser_of, tiny_gpt) -> None:
    def state() -> tuple[Any, ...]:
        return widget.trace, widget.intervention, widget.site, widget.source, widget._frame

    no_model = tv.from_attentions(np.full((1, 1, 2, 2), 0.5), ["a", "b"])
    nowhere = {"edits": [{"kind": "causal", "on": True, "layer": 9}]}
    widget.intervention = HOT
    before = state()
    for name, value, said in (
        ("site", ("cross", 2, 0), "There is no cross L2 H0; layers are 0 to 1"),
        ("site", ("memory", 0, 0), "This model has no memory attention; it has encoder"),
        ("site", 3, r"A site is a Site, or a map .* got 3"),
        ("intervention", 3, "An intervention is a tv.Intervention, its JSON, or None"),
        ("intervention", {"edits": [{"kind": "hotter"}]}, "There is no edit of kind 'hotter'"),
        ("intervention", nowhere, "9"),
        ("source", "no numbers", "no numbers|ids"),
        ("trace", 3, "The widget shows a Trace, as tv.trace gives it; got 3"),
        ("trace", no_model, "were given, so that no model"),
        ("trace", tv.trace(tiny_gpt, [5, 7]), "That trace is of the model"),
    ):
        with pytest.raises(ValueError, match=said):
            setattr(widget, name, value)
        assert state() == before, (name, value)


def test_anything_may_come_from_a_browser(widget: Explorer, browser_of: FrontEnd) -> None:
    before = widget.trace, widget.intervention, widget.site
    for wishes in (
        [("temperature", step("warm", 3))],
        [("temperature", 2)],
        [("window", step("-1", 3))],
        [("opened", ["cross", 9, 0])],
        [("opened", "cross")],
        [("block", "memory")],
        [("overlaid", [[1, -1]])],
        [("picked", {"side": "source", "token": 99})],
        [("drawn", {"gamma": "wide"})],
        [("scope", ["head"])],
        [("nonsense", None)],
        [("source", "other words")],
        [("head_state", "off"), ("head_state", "broken")],  # all of a message, or nothing
    ):
        answer = browser_of.wish(*wishes)
        assert answer["problem"] and "Traceback" not in answer["problem"], wishes
        assert answer["answers"] == browser_of.asked, wishes  # else the browser would wait
        assert before == (widget.trace, widget.intervention, widget.site), wishes
        assert set(answer["arrays"]) >= {"atlas", "head", "slider-temperature"}, wishes
    for content in (None, 3, [], {}, {"wishes": 3}, {"wishes": [3]}):  # of another form
        assert browser_of.wish(("clean", None))["problem"] == ""
        browser_of.message(content)
        assert browser_of.header["problem"], content


def test_errors_and_interrupts_of_a_run_are_reported(widget, browser_of, monkeypatch) -> None:
    before = widget.trace
    for error, said in (
        (RuntimeError("the accelerator\nis on fire"), "(RuntimeError: the accelerator);"),
        (KeyboardInterrupt(), "stopped"),
    ):

        def broken(*given: Any, error: BaseException = error, **words: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr("transformer_viz.notebook.runs.trace", broken)
            answer = browser_of.wish(("temperature", step("3.0", 5)))
        assert said in answer["problem"] and widget.trace is before
    assert browser_of.wish(("temperature", step("3.0", 6)))["problem"] == ""


def test_two_views_of_a_widget_share_its_state_and_two_widgets_do_not(widget, tiny_model) -> None:
    one, two = FrontEnd(widget, "one"), FrontEnd(widget, "two")
    other = tv.explore(tiny_model, [5, 9, 3], TARGET)
    before = other._frame
    one.wish(("temperature", step("4.0", 1)))
    two.wish(("window", step("1", 2)))
    assert (two.header["view"], two.header["answers"]) == ("two", 1)
    assert len(tuple(widget.intervention)) == 2
    assert other._frame == before and other.intervention == NOTHING
    other.close()


@pytest.mark.slow
def test_pictures_of_every_view_and_of_the_difference(widget, browser_of) -> None:
    def still() -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(widget.still())))

    data, _ = widget._repr_mimebundle_()
    clean = still()  # it stands beside the live view
    assert set(data) >= {VIEW, "image/png"} and clean.shape[1] == 1600
    assert len(np.unique(clean.reshape(-1, 3), axis=0)) > 50
    widget.intervention = HOT
    assert clean.tobytes() != still().tobytes()
    for view in ("map", "lines", "qk"):
        answer = browser_of.wish(("view", view), ("compare", "now"))
        assert (answer["problem"], browser_of.part("head")["view"]) == ("", view)
    browser_of.wish(("view", "map"), ("compare", "difference"))
    assert browser_of.part("head")["change"] is True
    browser_of.wish(("overlaid", [[1, 1], [0, 0]]))
    heads = [(one["layer"], one["head"]) for one in browser_of.part("head")["heads"]]
    assert heads == [(1, 1), (0, 0)]


def test_models_and_modules_that_can_be_opened(
    tiny_model: Model, tiny_gpt: Model, build_model: Any, build_module: Any
) -> None:
    core = build_model(decoder_layers=0, source_vocab=0, target_vocab=0)
    vectors = np.linspace(-1, 1, 4 * 22, dtype=np.float32).reshape(4, 22)
    for model, source in ((tiny_gpt, [5, 7, 11]), (core, vectors)):  # of one stack
        widget = tv.explore(model, source)
        answer = FrontEnd(widget).wish(
            ("temperature", step("2.0", 1)), ("compare", "difference"), ("view", "lines")
        )
        assert answer["problem"] == "" and answer["arrays"].keys() >= {"outcome", "tokens"}
        widget.close()
    widget = tv.explore(build_module(), [5, 7, 3], [2, 4])
    assert widget.trace.maps == ("encoder", "decoder", "cross")
    widget.close()
    long = build_model(encoder_layers=0, source_vocab=0, max_positions=LONG + 9)
    with pytest.raises(ValueError, match=r"1,030 tokens and the widget takes at most 1,024"):
        tv.explore(long, [5] * 1030)
    with pytest.raises(ValueError, match="heads cannot be taken into account"):
        tv.explore(tiny_model, IDS, heads=4)


WITHOUT = """
import sys
sys.modules["anywidget"] = None
import transformer_viz as tv
try:
    tv.explore(None, "text")
except ValueError as error:
    print(error)
"""


@pytest.mark.process
def test_without_anywidget_the_command_is_named() -> None:
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "install it with: pip install anywidget" in done.stdout


# ---- models of all kinds -----------------------------------------------------------------------


def follows(model: Any, source: Any, **words: Any) -> None:
    """Move a slider of everything: the picture is that of the changed run."""
    widget = tv.explore(model, source, **words)
    clean = widget.trace
    browser = FrontEnd(widget)
    answer = browser.wish(("scope", "everything"), ("temperature", step("2.0", 1)))
    assert answer["problem"] == "" and answer["changed"] and widget.intervention == HOT
    assert answer["arrays"].keys() >= {"atlas", "head", "outcome"}
    produced = {"produced": list(clean.produced.ids)} if clean.produced is not None else {}
    alone = tv.trace(model, source, intervention=HOT, check=False, **produced, **words)
    name = clean.maps[0]
    found = widget.trace.attention(name, layer=0)
    np.testing.assert_allclose(found, alone.attention(name, layer=0), atol=1e-6)
    assert np.abs(found - clean.attention(name, layer=0)).max() > 1e-6
    widget.intervention = None
    assert not FrontEnd(widget, "another").wish(("view", "lines"))["changed"]
    widget.close()


@pytest.mark.families
def test_models_of_a_library() -> None:
    size = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16}
    size["intermediate_size"] = 32
    bert = hf.BertConfig(**size, vocab_size=50, num_labels=3)
    gpt = hf.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32)
    gpt.bos_token_id = gpt.eos_token_id = 0
    vit = hf.ViTConfig(**size, image_size=8, patch_size=4, num_channels=1)
    ids = [2, 7, 11, 3]
    for make, config, source in (
        (hf.GPT2LMHeadModel, gpt, [5, 7, 11, 3]),
        (hf.BertForMaskedLM, bert, ids),
        (hf.BertForSequenceClassification, bert, ids),
        (hf.ViTForImageClassification, vit, Image.linear_gradient("L").resize((8, 8))),
    ):
        torch.manual_seed(3)
        follows(tv.load(make(config).eval()), source)


@pytest.mark.shipped
def test_masked_words_and_a_picture_from_a_file(tmp_path: Path) -> None:
    mlm = tv.load("en-mlm")
    for masked in ((), (2,)):
        follows(mlm, "The cat sat on the mat.", masked=masked)
    pixels = np.zeros((8, 8), dtype=np.uint8)
    pixels[2:6, 3:5] = 255
    Image.fromarray(pixels).save(tmp_path / "one.png")
    follows(tv.load("digits"), str(tmp_path / "one.png"))
