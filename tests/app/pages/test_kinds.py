"""Explore, Positions and Norms for every kind of model: what stands there equals a separate run."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.widgets import click, fine, ok, put
from transformer_viz.app.engine.model_catalog import Shelved
from transformer_viz.app.engine.model_kind import Kind, of_model
from transformer_viz.app.engine.trace_jobs import ROWS
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    Temperature,
)
from transformer_viz.core.trace import Trace

from ...support.map_pages import MAP_PAGES
from ...support.model_kinds import LABELS, NAMES
from ...support.page_content import (
    address,
    chart,
    charts,
    chips,
    drawn,
    go,
    heatmap,
    html,
    part,
    said,
    tiles,
    told,
    weights,
)

pytestmark = pytest.mark.app
Meet = Callable[..., AppTest]
TEXT = "The cat sat on the mat."
SEEN: dict[str, Any] = {"keep": ("weights", "scores", "hidden"), "check": False}
STACK = {"lm": "decoder", "ids": "decoder", "mlm": "encoder", "vit": "encoder", "core": "encoder"}
CLEAN, HOT = Intervention(), Intervention((Temperature(value=4.0),))
WORDS = {"lm": {"text": TEXT}, "mlm": {"text": TEXT, "masked": "1,3"}, "ids": {"text": "5 7 11 13"}}


@pytest.fixture(scope="session")
def model(kinds: Path) -> Callable[[str], Any]:
    return cache(lambda name: tv.load(str(kinds / name)))


@pytest.fixture(scope="session")
def asked(kinds: Path, model: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    """What `tv.trace` is given for the question that the tests ask of each model."""

    def words(name: str) -> dict[str, Any]:
        if name == "vit":
            return {"source": str(kinds / "vit" / "examples" / "left.png")}
        if name == "core":
            draw = np.random.default_rng([0, 0])
            return {"source": draw.standard_normal((ROWS["source"], 22)).astype(np.float32)}
        if name == "mlm":
            ids = model(name).tokenizer.source_ids(TEXT)
            return {"source": TEXT, "masked": [1, 3], "produced": ids}
        return {"source": WORDS[name]["text"]}

    return words


@pytest.fixture(scope="session")
def runs(
    model: Callable[[str], Any], asked: Callable[[str], dict[str, Any]]
) -> Callable[[str], tuple[Trace, Trace]]:
    """The clean and the hot run, made without the app."""

    def made(name: str) -> tuple[Trace, Trace]:
        before = tv.trace(model(name), **asked(name), **SEEN)
        held = {} if before.produced is None else {"produced": before.produced.ids}
        return before, tv.trace(model(name), **(asked(name) | held), **SEEN, intervention=HOT)

    return cache(made)


@pytest.mark.parametrize("names", [NAMES[:2], NAMES[2:]], ids=" ".join)
def test_every_page_runs_and_comes_back_from_its_link(meet: Meet, names: tuple[str, ...]) -> None:
    for name in names:
        app = meet(name)
        for page in MAP_PAGES:
            fine(go(app, page), (name, page))
            assert app.session_state["block"] == STACK[name] and app.session_state["model"] == name
            assert not [
                one for one in app.button_group if one.key in ("block", "stack", "reach")
            ], page
            again = meet(page=page, **address(app))
            assert address(again) == address(app), (name, page)
            assert drawn(again) == drawn(app), (name, page)
        if name == "vit":  # its questions speak of patches
            assert "each patch's vector" in html(meet(name, "norms")).replace("&#x27;", "'")
            text = html(meet(name, "positions"))
            assert "Is k patches further" in text and "along the picture" in text


def test_the_maps_and_numbers_are_those_of_a_separate_run(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]]
) -> None:
    for name in NAMES:
        block, (before, hot) = STACK[name], runs(name)
        for edits, each in ((CLEAN, (before,)), (HOT, (before, hot))):
            link = WORDS.get(name, {}) | {"edits": edits.to_json(), "layer": "1", "head": "1"}
            app = ok(meet(name, **link))
            assert np.array_equal(weights(app), each[-1].attention(block, layer=1)[1]), (
                name,
                edits,
            )
            assert np.array_equal(tiles(app), each[-1].thumbnail(block)), (name, edits)
            place = "block == 'self' and layer == 1 and head == 1"
            for column in ("entropy", "distance"):
                numbers = part(app, "head")[0]["numbers"]
                pairs = re.findall(rf"{column} ([\d.]+)(?: → ([\d.]+))?", numbers)
                shown = [float(number) for number in pairs[0] if number]
                wanted = [round(run.heads.query(place)[column].item(), 2) for run in each]
                assert shown == wanted, (name, edits, column)


def bars(app: AppTest) -> list[tuple[str, float]]:
    """The names and numbers of every line with a bar, in the order of the page."""
    line = re.compile(
        r'<div role="listitem" style="display:grid.*?text-overflow.*?>(.*?)</span><span aria-hidden'
        r'.*?text-align:right">([\d.]+|&lt;0\.001)</span>',
        re.S,
    )
    plain = [(re.sub("<.*?>", "", name), value) for name, value in line.findall(html(app))]
    return [(name.removesuffix(" held"), float(v.replace("&lt;", ""))) for name, v in plain]


def best(logits: np.ndarray | None, count: int) -> list[float]:
    assert logits is not None
    exact = logits.astype(np.float64)
    chances = np.exp(exact - exact.max())
    return [float(f"{p:.3f}") for p in np.sort(chances / chances.sum())[::-1][:count]]


def candidates_agree(app: AppTest, rows: tuple[int, ...], each: tuple[Trace, ...]) -> int:
    """Check five candidates of each row in each run; return how many lines that makes."""
    lines, place = [value for _, value in bars(app)], 0
    for row in rows:
        for run in each:
            assert run.logits is not None and run.produced is not None
            assert lines[place : place + 5] == best(run.logits[row], 5), row
            place += 6 if run.produced.rank[row] > 5 else 5  # the held word stands below
    return place


def chances(app: AppTest) -> list[str]:
    """The probabilities below the held words, as they are written."""
    return re.findall(r'white-space:nowrap">(\d\.\d\d(?: → \d\.\d\d)?)</div>', html(app))


def test_a_language_model_says_the_next_word_everywhere_and_goes_on(
    meet: Meet, model: Callable[[str], Any], runs: Callable[[str], tuple[Trace, Trace]]
) -> None:
    before, hot = runs("lm")
    for edits, each in ((CLEAN, (before,)), (HOT, (before, hot))):
        app = meet("lm", text=TEXT, edits=edits.to_json(), answer="2", beam="2")
        rows = zip(*(run.produced.probability for run in each), strict=True)
        assert chances(app) == [" → ".join(f"{one:.2f}" for one in row) for row in rows]
        candidates_agree(app, (-1, 2), each)
        panel = said(app, "after" if edits else "now")
        assert re.sub("<.*?>", "", panel).count(TEXT) >= 1
        lines = re.findall(r'data-what="(\w+)">(.*?)</span></span>', panel)
        found = {what: re.sub("<.*?>", "", text).split() for what, text in lines}
        names = {"before": None, "after": HOT} if edits else {"now": None}
        for name, changes in names.items():
            goes_on = tv.translate(model("lm"), TEXT, beam=2, intervention=changes)[0].text
            assert found[name] == goes_on.split(), name


def test_a_masked_model_guesses_the_hidden_words(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]]
) -> None:
    before, hot = runs("mlm")
    for edits, each in ((CLEAN, (before,)), (HOT, (before, hot))):
        app = ok(meet("mlm", text=TEXT, masked="1,3", edits=edits.to_json()))
        (row,) = chips(app)
        texts = [chip["text"] for chip in row["chips"]]
        assert [n for n, text in enumerate(texts) if text.startswith("<mask>")] == [1, 3]
        assert chances(app) == [  # of the words that are hidden, and of no others
            " → ".join(f"{run.produced.probability[n]:.2f}" for run in each) for n in (1, 3)
        ]
        assert candidates_agree(app, (1, 3), each) == len(bars(app))
        assert address(app)["masked"] == "1,3"
    app = put(meet("mlm", text=TEXT, masked="1"), {"text": "A dog sat."})
    assert app.session_state["masked"] == () and "masked" not in address(app)
    assert "Click a word above" in told(app)
    click(app, "example-0")
    (place,) = app.session_state["masked"][:1]
    assert chips(app)[0]["chips"][place]["text"].startswith("<mask>")
    for masked, says in (("99", "names token 99"), ("1,200", "names token 200")):
        app = meet("mlm", text=TEXT, masked=masked)
        assert not app.exception and not app.error and says in str(app.warning[0].value), masked
        assert all(n < 20 for n in app.session_state["masked"]), masked


def test_a_picture_is_classified_before_and_after(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]]
) -> None:
    before, hot = runs("vit")
    for edits, each in ((CLEAN, (before,)), (HOT, (before, hot))):
        app = meet("vit", edits=edits.to_json())
        lines = bars(app)
        for number, run in enumerate(each):
            mine = lines[5 * number : 5 * number + 5]
            order = np.argsort(-run.logits, kind="stable")
            assert [name for name, _ in mine] == [LABELS[n] for n in order], (edits, number)
            assert [value for _, value in mine] == best(run.logits, 5), (edits, number)
        assert LABELS[int(before.logits.argmax())] in said(app, "lead")
    put(app, {"picture": "right"})
    assert address(app)["picture"] == "right" and bars(app) != lines
    assert not app.get("bidi_component")[0].proto.json.count('"text"')  # patches are no chips


def over_image(app: AppTest) -> np.ndarray:
    return heatmap(chart(app, "over-image")).astype(np.float32).ravel()


def test_a_row_of_weights_or_gradients_lies_over_the_picture(
    meet: Meet,
    model: Callable[[str], Any],
    asked: Callable[[str], dict[str, Any]],
    runs: Callable[[str], tuple[Trace, Trace]],
) -> None:
    found = runs("vit")[0].attention("encoder", layer=1)[1]
    app = meet("vit", layer="1", head="1", token="3")
    assert np.array_equal(over_image(app), found[3, 1:])
    put(app, {"token": 0})
    assert np.array_equal(over_image(app), found[0, 1:])
    for chosen in (None, 1):
        link = {} if chosen is None else {"chosen": str(chosen)}
        app = ok(meet("vit", over="gradients", layer="1", head="1", token="4", **link))
        held = {} if chosen is None else {"produced": [chosen]}
        trace = tv.trace(
            model("vit"), **asked("vit"), **held, **SEEN | {"keep": ("weights", "gradients")}
        )
        drawn_before = over_image(app)
        assert np.array_equal(drawn_before, trace.gradients("encoder", layer=1)[1, 4, 1:]), chosen
        put(app, {"chosen": 3})
        assert address(app)["chosen"] == "3"
        assert not np.array_equal(over_image(app), drawn_before)
        put(app, {"over": "weights"})
        assert "over" not in address(app) and not app.exception


def test_vectors_tell_how_far_they_moved(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]]
) -> None:
    before, hot = runs("core")
    assert before.output is not None and hot.output is not None
    lengths = np.linalg.norm(before.output.astype(np.float64), axis=1)
    moved = np.linalg.norm(hot.output.astype(np.float64) - before.output, axis=1)

    def numbers(app: AppTest, start: str = "<div>") -> list[float]:
        return [float(n) for n in re.findall(start + r"(\d+\.\d\d)</div>", html(app))]

    for edits, wanted in ((CLEAN, lengths), (HOT, moved)):
        app = meet("core", edits=edits.to_json())
        shown = numbers(app)
        assert shown == [round(n, 2) for n in wanted]
        if edits:
            assert numbers(app, ">of ") == [round(n, 2) for n in lengths]
    assert [chip["text"] for chip in chips(app)[0]["chips"]] == list(map(str, range(12)))
    put(app, {"seed": 3})
    assert address(app)["seed"] == "3" and shown != numbers(app)


def test_a_picture_of_ones_own_is_shown_and_not_in_the_link(
    meet: Meet, model: Callable[[str], Any]
) -> None:
    content = io.BytesIO()
    picture = Image.fromarray(np.random.default_rng(5).integers(0, 256, (20, 20), dtype=np.uint8))
    picture.save(content, "PNG")
    app = meet("vit")
    link, example = address(app), bars(app)
    app.file_uploader(key="own-file-image").set_value(("me.png", content.getvalue(), "image/png"))
    app.run()
    assert not app.exception and not app.error and "Shown is your own picture" in told(app)
    wanted = best(tv.trace(model("vit"), picture, check=False).logits, 5)
    assert [value for _, value in bars(app)] == wanted and address(app) == link
    go(app, "norms")
    assert "Shown is your own picture" in told(app) and not app.exception
    click(app, "own-back")
    assert "your own picture" not in told(app) and bars(go(app, "")) == example
    app.file_uploader(key="own-file-image").set_value(("no.png", b"not a picture", "image/png"))
    app.run()
    assert not app.exception and len(app.error) == 1
    click(app, "own-back")
    assert not app.error and "over-image" in charts(app)


def test_vectors_of_ones_own(meet: Meet, model: Callable[[str], Any]) -> None:
    def given(array: np.ndarray) -> AppTest:
        content = io.BytesIO()
        np.save(content, array)
        app = meet("core")
        app.file_uploader(key="own-file-vectors").set_value(("x.npy", content.getvalue(), "x/y"))
        return app.run()

    array = np.random.default_rng(1).standard_normal((5, 22)).astype(np.float32)
    app = given(array)
    assert not app.exception and not app.error
    wanted = tv.trace(model("core"), array, check=False).attention("encoder", layer=0)[0]
    assert np.array_equal(weights(app), wanted)
    for odd, words in (
        (array[:, :7], "this model reads 22"),
        (array[None], "[token, d_model]"),
        (np.zeros((1300, 22), np.float32), "at most 1,024"),
        (np.array([{}], dtype=object), "numpy.save"),
    ):
        assert words in told(given(odd)), words


def test_the_switches_of_positions_for_each_kind(meet: Meet) -> None:
    for name in NAMES:
        app = ok(put(meet(name, "positions", **WORDS.get(name, {})), {"position_drop": True}), name)
        assert app.session_state["edits"] == Intervention((ScalePositions(value=0.0),)).to_json()
        assert (heatmap(chart(app, "position-table")) == 0).all(), name
        ok(put(app, {"position_shuffle": True}), name)
        ordered = "Does the order of the words matter?" in html(app)
        assert ordered == (STACK[name] == "decoder"), name


OLD = (
    Temperature(value=2.0, stack="decoder", block="cross", layer=1),
    Temperature(value=3.0, stack="encoder", block="self", layer=0),
    ScaleHead(value=0.0, stack="decoder", block="self", layer=1, head=1),
    BlockKeys(keys=(2,), stack="encoder", block="self"),
    Causal(on=False, stack="decoder"),
    Pad(count=2),
    ScalePositions(value=0.5, stack="decoder"),
    Temperature(value=1.5),
)
#: Which of them mean something to a model of each kind.
LEFT = {
    "lm": [2, 4, 5, 6, 7],
    "ids": [2, 4, 5, 6, 7],
    "mlm": [1, 3, 5, 7],
    "vit": [1, 7],
    "core": [1, 7],
}


def test_another_model_keeps_the_changes_that_mean_something_there(meet: Meet) -> None:
    old = Intervention(OLD).to_json()
    for name in NAMES:
        app = meet("tiny", text=TEXT, edits=old, block="cross", head="1", target="A dog.")
        fine(put(app, {"model": name}), name)
        kept = Intervention.from_json(app.session_state["edits"])
        assert list(kept) == [OLD[n] for n in LEFT[name]], name
        assert app.button(key="undo").disabled, name
        fine(put(app, {"model": "tiny"}), name)
        assert app.session_state["target"] == "A dog.", name
        texts = (TEXT, FIRST_TEXT) if name == "ids" else (TEXT,)
        assert app.text_input(key="text").value in texts, name


def test_one_may_go_from_any_kind_to_any_other(meet: Meet) -> None:
    """A walk over all thirty pairs, a third of it on each page."""
    app = meet("tiny")
    _, *walk = (kind for pair in combinations(("tiny", *NAMES), 2) for kind in pair)
    moves = iter([*walk, "tiny"])
    for page in MAP_PAGES:
        go(app, page)
        for name in islice(moves, 30 // len(MAP_PAGES)):
            fine(put(app, {"model": name}), (page, name))
    assert not [*moves]


def test_the_boxes_say_what_to_type(meet: Meet) -> None:
    app = meet("ids")
    assert app.text_input(key="text").label == "Token ids"
    put(app, {"text": "the cat"})
    assert not app.exception and "type token ids such as 2 45 3" in told(app)
    assert "no vocabulary is in use for this text" in told(put(app, {"text": ""}))
    assert Kind(title="English to German").sentence == "English sentence"
    assert Kind(title="Gossip").sentence == Kind("encoder-only").sentence == "Sentence"
    assert Kind("decoder-only").sentence == "Text"
    assert Kind("decoder-only", spelled=False).sentence == "Token ids"


def test_a_folder_tells_the_kind_that_the_loaded_model_has(shelf: Path, kinds: Path) -> None:
    for name in ("tiny", *NAMES):
        folder = (shelf if name == "tiny" else kinds) / name
        assert Shelved(name, folder).kind == of_model(tv.load(str(folder))), name
