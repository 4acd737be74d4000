"""The widget between Python and a browser: both can set what it shows, and both are told."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import transformer_viz as tv
from tests.notebook.front_end import FrontEnd, step
from tests.support.paths import ROOT
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import BlockKeys, Intervention, ScaleHead, Temperature
from transformer_viz.core.sites import Site
from transformer_viz.core.tiles import LONG
from transformer_viz.notebook.explorer import VIEW, Explorer

IDS, TARGET = [5, 7, 11, 3], [2, 13, 17]
HOT = Intervention((Temperature(value=2.0),))


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


def test_what_python_reads_at_first(widget: Explorer, tiny_model: Model) -> None:
    assert widget.site == Site("decoder", "cross", 1, 1)
    assert widget.intervention == Intervention() and widget.source == IDS
    alone = tv.trace(tiny_model, IDS, TARGET, check=False)
    np.testing.assert_array_equal(weights(widget.trace), weights(alone))


def test_a_slider_runs_the_model_as_trace_does(
    widget: Explorer, browser_of: FrontEnd, tiny_model: Model
) -> None:
    heard: list[Any] = []
    widget.observe(lambda change: heard.append(change["new"]), "intervention")
    answer = browser_of.wish(("scope", "everything"), ("temperature", step("2.0", 7)))
    assert (answer["problem"], answer["answers"], answer["changed"]) == ("", 1, True)
    assert widget.intervention == HOT and heard == [HOT]
    held = widget.trace.produced
    assert held is not None
    alone = tv.trace(
        tiny_model, IDS, TARGET, intervention=HOT, check=False, produced=list(held.ids)
    )
    np.testing.assert_array_equal(weights(widget.trace), weights(alone))
    slider = browser_of.part("slider-temperature")
    assert slider["values"][slider["chosen"]] == "2.0" and slider["seq"] == 7


def test_a_head_a_mask_and_the_way_back(widget: Explorer, browser_of: FrontEnd) -> None:
    browser_of.wish(("head_state", "off"))
    assert widget.intervention == Intervention(
        (ScaleHead(value=0.0, stack="decoder", block="cross", layer=1, head=1),)
    )
    assert not weights(widget.trace)[1].any() and weights(widget.trace)[0].any()
    browser_of.wish(("click", "hide"), ("picked", {"side": "source", "token": 2}))
    assert BlockKeys(keys=(2,), stack="decoder", block="cross", layer=1, head=1) in tuple(
        widget.intervention
    )
    chips = browser_of.part("tokens")["rows"][0]["chips"]
    assert [chip["gone"] for chip in chips] == [False, False, True, False]
    browser_of.wish(("head_state", "on"))
    assert not weights(widget.trace)[1, :, 2].any()
    browser_of.wish(("clean", None))
    assert widget.intervention == Intervention() and browser_of.header["changed"] is False


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (HOT, HOT),
        (HOT.to_json(), HOT),
        ({"edits": [{"kind": "temperature", "value": 2.0}]}, HOT),
        (None, Intervention()),
    ],
)
def test_python_sets_changes(
    widget: Explorer, browser_of: FrontEnd, given: Any, meant: Intervention
) -> None:
    before = browser_of.header["seq"]
    widget.intervention = {"edits": [{"kind": "causal", "on": False}]}
    widget.intervention = given
    assert widget.intervention == meant == widget.trace.intervention
    assert browser_of.header["seq"] == before + 2  # the browser is told once of each
    assert browser_of.header["changes"] == meant.describe()


def test_python_sets_head_source_and_trace(
    widget: Explorer, browser_of: FrontEnd, tiny_model: Model
) -> None:
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
    assert widget.trace.target is not None and widget.trace.target.ids == tuple(TARGET)


def test_a_trace_with_padding_gives_back_its_words(widget: Explorer, tiny_model: Model) -> None:
    padded = Intervention.from_json('{"edits": [{"kind": "pad", "count": 2}]}')
    widget.trace = tv.trace(tiny_model, [5, 9, 3], TARGET, intervention=padded)
    assert len(widget.trace.source) == 5 and widget.source == [5, 9, 3]


GIVEN = np.full((1, 1, 2, 2), 0.5)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("site", ("cross", 2, 0), "There is no cross L2 H0; layers are 0 to 1"),
        ("site", ("memory", 0, 0), "This model has no memory attention; it has encoder"),
        ("site", 3, r"A site is a Site, or a map .* got 3"),
        ("intervention", 3, "An intervention is a tv.Intervention, its JSON, or None"),
        ("intervention", {"edits": [{"kind": "hotter"}]}, "There is no edit of kind 'hotter'"),
        ("intervention", {"edits": [{"kind": "causal", "on": True, "layer": 9}]}, "9"),
        ("source", "no numbers", "no numbers|ids"),
        ("trace", 3, "The widget shows a Trace, as tv.trace gives it; got 3"),
        ("trace", tv.from_attentions(GIVEN, ["a", "b"]), "were given, so that no model"),
    ],
)
def test_what_does_not_fit_is_told_and_changes_nothing(
    widget: Explorer, browser_of: FrontEnd, name: str, value: Any, said: str
) -> None:
    widget.intervention = HOT
    before = widget.trace, widget.intervention, widget.site, widget.source, widget._frame
    with pytest.raises(ValueError, match=said):
        setattr(widget, name, value)
    assert before == (
        widget.trace, widget.intervention, widget.site, widget.source, widget._frame,
    )  # fmt: skip


def test_a_trace_of_another_model(widget: Explorer, tiny_gpt: Model) -> None:
    with pytest.raises(ValueError, match="That trace is of the model"):
        widget.trace = tv.trace(tiny_gpt, [5, 7])


@pytest.mark.parametrize(
    "wishes",
    [
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
    ],
)
def test_anything_may_come_from_a_browser(
    widget: Explorer, browser_of: FrontEnd, wishes: list[tuple[str, Any]]
) -> None:
    before = widget.trace, widget.intervention, widget.site
    answer = browser_of.wish(*wishes)
    assert answer["problem"] and "Traceback" not in answer["problem"]
    assert answer["answers"] == browser_of.asked  # else the browser would wait
    assert before == (widget.trace, widget.intervention, widget.site)
    assert set(answer["arrays"]) >= {"atlas", "head", "slider-temperature"}  # the last picture


@pytest.mark.parametrize("content", [None, 3, [], {}, {"wishes": 3}, {"wishes": [3]}])
def test_messages_of_another_form(browser_of: FrontEnd, content: Any) -> None:
    browser_of.message(content)
    assert browser_of.header["problem"]


def test_a_fault_of_the_model_is_a_sentence(
    widget: Explorer, browser_of: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **words: Any) -> None:
        raise RuntimeError("the accelerator\nis on fire")

    monkeypatch.setattr("transformer_viz.notebook.runs.trace", broken)
    before = widget.trace
    answer = browser_of.wish(("temperature", step("3.0", 5)))
    assert "(RuntimeError: the accelerator);" in answer["problem"]
    assert widget.trace is before
    monkeypatch.undo()
    assert browser_of.wish(("temperature", step("3.0", 6)))["problem"] == ""


def test_an_interrupted_run(
    widget: Explorer, browser_of: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: Any, **words: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("transformer_viz.notebook.runs.trace", stopped)
    assert "stopped" in browser_of.wish(("temperature", step("3.0", 5)))["problem"]


def test_two_views_of_a_widget_hear_each_other_and_two_widgets_do_not(
    widget: Explorer, tiny_model: Model
) -> None:
    one, two = FrontEnd(widget, "one"), FrontEnd(widget, "two")
    other = tv.explore(tiny_model, [5, 9, 3], TARGET)
    before = other._frame
    one.wish(("temperature", step("4.0", 1)))
    two.wish(("window", step("1", 2)))
    assert (two.header["view"], two.header["answers"]) == ("two", 1)
    assert len(tuple(widget.intervention)) == 2
    assert other._frame == before and other.intervention == Intervention()
    other.close()


def test_pictures_of_every_view_and_of_the_difference(
    widget: Explorer, browser_of: FrontEnd
) -> None:
    widget.intervention = HOT
    for view in ("map", "lines", "qk"):
        answer = browser_of.wish(("view", view), ("compare", "now"))
        assert (answer["problem"], browser_of.part("head")["view"]) == ("", view)
    browser_of.wish(("view", "map"), ("compare", "difference"))
    assert browser_of.part("head")["change"] is True
    browser_of.wish(("overlaid", [[1, 1], [0, 0]]))
    assert [(h["layer"], h["head"]) for h in browser_of.part("head")["heads"]] == [(1, 1), (0, 0)]


def test_of_models_of_one_stack(tiny_gpt: Model, build_model: Any) -> None:
    core = build_model(decoder_layers=0, source_vocab=0, target_vocab=0)
    vectors = np.linspace(-1, 1, 4 * 22, dtype=np.float32).reshape(4, 22)
    for model, source in ((tiny_gpt, [5, 7, 11]), (core, vectors)):
        widget = tv.explore(model, source)
        answer = FrontEnd(widget).wish(
            ("temperature", step("2.0", 1)), ("compare", "difference"), ("view", "lines")
        )
        assert answer["problem"] == "" and answer["arrays"].keys() >= {"outcome", "tokens"}
        widget.close()


def test_a_module_is_opened(build_module: Any) -> None:
    widget = tv.explore(build_module(), [5, 7, 3], [2, 4])
    assert widget.trace.maps == ("encoder", "decoder", "cross")
    widget.close()


def test_a_text_that_is_too_long(build_model: Any) -> None:
    model = build_model(encoder_layers=0, source_vocab=0, max_positions=LONG + 9)
    with pytest.raises(ValueError, match=r"1,030 tokens and the widget takes at most 1,024"):
        tv.explore(model, [5] * 1030)


def test_options_for_a_model_that_is_open(tiny_model: Model) -> None:
    with pytest.raises(ValueError, match="heads cannot be taken into account"):
        tv.explore(tiny_model, IDS, heads=4)


def test_a_still_stands_beside_the_live_view(widget: Explorer) -> None:
    data, _ = widget._repr_mimebundle_()
    assert set(data) >= {VIEW, "image/png"}
    clean = np.asarray(Image.open(io.BytesIO(widget.still())))
    assert clean.shape[1] == 1600 and len(np.unique(clean.reshape(-1, 3), axis=0)) > 50
    widget.intervention = HOT
    assert clean.tobytes() != np.asarray(Image.open(io.BytesIO(widget.still()))).tobytes()


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
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "install it with: pip install anywidget" in done.stdout
