"""Explore, Positions and Norms for every kind of model: what stands there equals a separate run."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from streamlit.testing.v1 import AppTest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import transformer_viz as tv
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_catalog import Shelved
from transformer_viz.app.engine.model_kind import Kind, of_model
from transformer_viz.app.engine.query import whole_layer
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

from ...support.component_events import slide
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
KEEP = ("weights", "scores", "hidden")
STACK = {"lm": "decoder", "ids": "decoder", "mlm": "encoder", "vit": "encoder", "core": "encoder"}
HOT = Intervention((Temperature(value=4.0),))
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
        before = tv.trace(model(name), **asked(name), keep=KEEP)
        held = {} if before.produced is None else {"produced": before.produced.ids}
        return before, tv.trace(model(name), **(asked(name) | held), intervention=HOT, keep=KEEP)

    return cache(made)


@pytest.mark.parametrize("page", MAP_PAGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_page_stands_for_every_kind(meet: Meet, name: str, page: str) -> None:
    app = go(meet(name), page)
    assert not app.exception and not app.error and not app.warning, told(app)
    assert app.session_state["block"] == STACK[name] and app.session_state["model"] == name
    assert not [one for one in app.button_group if one.key in ("block", "stack", "reach")]
    again = go(meet(**address(app)), page)
    assert address(again) == address(app) and drawn(again) == drawn(app)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
def test_the_maps_and_numbers_are_those_of_a_separate_run(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]], name: str, edits: Intervention
) -> None:
    block = STACK[name]
    link = WORDS.get(name, {}) | {"edits": edits.to_json(), "layer": "1", "head": "1"}
    app = meet(name, **link)
    assert not app.exception and not app.error, told(app)
    before, hot = runs(name)
    now = hot if edits else before
    assert np.array_equal(weights(app), now.attention(block, layer=1)[1])
    assert np.array_equal(tiles(app), now.thumbnail(block))
    place = "block == 'self' and layer == 1 and head == 1"
    for column in ("entropy", "distance"):
        numbers = part(app, "head")[0]["numbers"]
        told_ = re.findall(rf"{column} ([\d.]+)(?: → ([\d.]+))?", numbers)
        wanted = [run.heads.query(place)[column].item() for run in (before, hot)]
        shown = [float(number) for number in told_[0] if number]
        assert shown == [round(number, 2) for number in (wanted if edits else wanted[:1])]


def bars(app: AppTest) -> list[tuple[str, float]]:
    """The names and numbers of every line with a bar, in the order of the page."""
    line = re.compile(
        r'<div role="listitem" style="display:grid.*?text-overflow.*?>(.*?)</span><span aria-hidden'
        r'.*?text-align:right">([\d.]+|&lt;0\.001)</span>',
        re.S,
    )
    plain = [(re.sub("<.*?>", "", name), value) for name, value in line.findall(html(app))]
    return [(name.removesuffix(" held"), float(v.replace("&lt;", ""))) for name, v in plain]


def best(logits: np.ndarray, count: int) -> list[float]:
    exact = logits.astype(np.float64)
    chances = np.exp(exact - exact.max())
    return [float(f"{p:.3f}") for p in np.sort(chances / chances.sum())[::-1][:count]]


def chances(app: AppTest) -> list[str]:
    """The probabilities below the held words, as they are written."""
    return re.findall(r'white-space:nowrap">(\d\.\d\d(?: → \d\.\d\d)?)</div>', html(app))


@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
def test_a_language_model_says_the_next_word_everywhere_and_goes_on(
    meet: Meet,
    model: Callable[[str], Any],
    runs: Callable[[str], tuple[Trace, Trace]],
    edits: Intervention,
) -> None:
    app = meet("lm", text=TEXT, edits=edits.to_json(), answer="2", beam="2")
    before, hot = runs("lm")
    assert before.produced is not None and hot.produced is not None
    pairs = zip(before.produced.probability, hot.produced.probability, strict=True)
    wanted = [f"{was:.2f} → {now:.2f}" if edits else f"{was:.2f}" for was, now in pairs]
    assert chances(app) == wanted
    lines = [value for _, value in bars(app)]
    each = (before, hot) if edits else (before,)
    place = 0
    for row in (-1, 2):
        for run in each:
            assert run.logits is not None
            assert lines[place : place + 5] == best(run.logits[row], 5)
            held = run.produced.rank[row] > 5 if run.produced is not None else False
            place += 6 if held else 5
    goes_on = [tv.translate(model("lm"), TEXT, beam=2, intervention=e)[0].text for e in (None, HOT)]
    assert re.sub("<.*?>", "", said(app, "before" if edits else "now")).count(TEXT) >= 1
    shown = re.findall(
        r'data-what="(\w+)">(.*?)</span></span>', said(app, "now" if not edits else "after")
    )
    found = {what: re.sub("<.*?>", "", text).strip() for what, text in shown}
    if edits:
        assert (
            found["before"] == goes_on[0].strip() and found["after"].split() == goes_on[1].split()
        )
    else:
        assert found["now"] == goes_on[0].strip()


@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
def test_a_masked_model_guesses_the_hidden_words(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]], edits: Intervention
) -> None:
    app = meet("mlm", text=TEXT, masked="1,3", edits=edits.to_json())
    assert not app.exception and not app.error, told(app)
    (row,) = chips(app)
    assert [n for n, chip in enumerate(row["chips"]) if chip["text"].startswith("<mask>")] == [1, 3]
    before, hot = runs("mlm")
    assert before.produced is not None and hot.produced is not None
    wanted = [
        f"{before.produced.probability[n]:.2f}"
        + (f" → {hot.produced.probability[n]:.2f}" if edits else "")
        for n in (1, 3)
    ]
    assert chances(app) == wanted  # of the words that are hidden, and of no others
    lines, place = [value for _, value in bars(app)], 0
    for masked in (1, 3):
        for run in (before, hot) if edits else (before,):
            assert run.logits is not None and run.produced is not None
            assert lines[place : place + 5] == best(run.logits[masked], 5)
            place += 6 if run.produced.rank[masked] > 5 else 5
    assert place == len(lines)
    assert address(app)["masked"] == "1,3"


def test_a_masked_sentence_that_is_typed_anew_hides_nothing(meet: Meet) -> None:
    app = meet("mlm", text=TEXT, masked="1")
    app.text_input(key="text").set_value("A dog sat.").run()
    assert app.session_state["masked"] == () and "masked" not in address(app)
    assert "Click a word above" in told(app)
    app.button(key="example-0").click().run()
    (place,) = app.session_state["masked"][:1]
    assert chips(app)[0]["chips"][place]["text"].startswith("<mask>")


@pytest.mark.parametrize(
    ("masked", "says"), [("99", "names token 99"), ("1,200", "names token 200")]
)
def test_masks_beyond_the_sentence_are_told(meet: Meet, masked: str, says: str) -> None:
    app = meet("mlm", text=TEXT, masked=masked)
    assert not app.exception and not app.error and says in str(app.warning[0].value)
    assert all(n < 20 for n in app.session_state["masked"])


@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
def test_a_picture_is_classified_before_and_after(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]], edits: Intervention
) -> None:
    app = meet("vit", edits=edits.to_json())
    before, hot = runs("vit")
    assert before.logits is not None and hot.logits is not None
    lines = bars(app)
    for number, run in enumerate((before, hot) if edits else (before,)):
        order = np.argsort(-run.logits, kind="stable")
        mine = lines[5 * number : 5 * number + 5]
        assert [name for name, _ in mine] == [LABELS[n] for n in order]
        assert [value for _, value in mine] == best(run.logits, 5)
    assert LABELS[int(before.logits.argmax())] in said(app, "lead")
    app.selectbox(key="picture").set_value("right").run()
    assert address(app)["picture"] == "right" and bars(app) != lines
    assert not app.get("bidi_component")[0].proto.json.count('"text"')  # patches are no chips


def test_the_row_of_a_patch_lies_over_the_picture(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]]
) -> None:
    app = meet("vit", layer="1", head="1", token="3")
    weights = runs("vit")[0].attention("encoder", layer=1)[1, 3]
    drawn = heatmap(chart(app, "over-image"))
    assert np.array_equal(drawn.astype(np.float32).ravel(), weights[1:])
    app.selectbox(key="token").set_value(0).run()
    other = heatmap(chart(app, "over-image"))
    row = runs("vit")[0].attention("encoder", layer=1)[1, 0]
    assert np.array_equal(other.astype(np.float32).ravel(), row[1:])


@pytest.mark.parametrize("chosen", [None, 1])
def test_the_gradients_of_a_class_lie_over_the_picture(
    meet: Meet,
    model: Callable[[str], Any],
    asked: Callable[[str], dict[str, Any]],
    chosen: int | None,
) -> None:
    link = {} if chosen is None else {"chosen": str(chosen)}
    app = meet("vit", over="gradients", layer="1", head="1", token="4", **link)
    assert not app.exception and not app.error, told(app)
    held = {} if chosen is None else {"produced": [chosen]}
    trace = tv.trace(model("vit"), **asked("vit"), **held, keep=("weights", "gradients"))
    wanted = trace.gradients("encoder", layer=1)[1, 4]
    drawn = heatmap(chart(app, "over-image"))
    assert np.array_equal(drawn.astype(np.float32).ravel(), wanted[1:])
    app.selectbox(key="chosen").set_value(3).run()
    assert address(app)["chosen"] == "3"
    assert not np.array_equal(heatmap(chart(app, "over-image")), drawn)
    app.button_group(key="over").set_value("weights")
    app.run()
    assert "over" not in address(app) and not app.exception


@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
def test_vectors_tell_how_far_they_moved(
    meet: Meet, runs: Callable[[str], tuple[Trace, Trace]], edits: Intervention
) -> None:
    app = meet("core", edits=edits.to_json())
    before, hot = runs("core")
    assert before.output is not None and hot.output is not None
    lengths = np.linalg.norm(before.output.astype(np.float64), axis=1)
    moved = np.linalg.norm(hot.output.astype(np.float64) - before.output, axis=1)
    shown = [float(n) for n in re.findall(r"<div>(\d+\.\d\d)</div>", html(app))]
    assert shown == [round(n, 2) for n in (moved if edits else lengths)]
    if edits:
        of = [float(n) for n in re.findall(r">of (\d+\.\d\d)</div>", html(app))]
        assert of == [round(n, 2) for n in lengths]
    assert [chip["text"] for chip in chips(app)[0]["chips"]] == list(map(str, range(12)))
    app.number_input(key="seed").set_value(3).run()
    assert address(app)["seed"] == "3"
    assert shown != [float(n) for n in re.findall(r"<div>(\d+\.\d\d)</div>", html(app))]


def test_a_picture_of_ones_own_is_shown_and_not_in_the_link(
    meet: Meet, model: Callable[[str], Any]
) -> None:
    content = io.BytesIO()
    picture = Image.fromarray(np.random.default_rng(5).integers(0, 256, (20, 20), dtype=np.uint8))
    picture.save(content, "PNG")
    app = meet("vit")
    link = address(app)
    app.file_uploader(key="own-file-image").set_value(("me.png", content.getvalue(), "image/png"))
    app.run()
    assert not app.exception and not app.error and "Shown is your own picture" in told(app)
    trace = tv.trace(model("vit"), picture)
    assert trace.logits is not None
    assert [value for _, value in bars(app)] == best(trace.logits, 5)
    assert address(app) == link
    go(app, "norms")
    assert "Shown is your own picture" in told(app) and not app.exception
    app.button(key="own-back").click().run()
    assert "your own picture" not in told(app)
    assert [value for _, value in bars(go(app, ""))] == [value for _, value in bars(meet("vit"))]


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
    wanted = tv.trace(model("core"), array).attention("encoder", layer=0)[0]
    assert np.array_equal(weights(app), wanted)
    assert "this model reads 22" in told(given(array[:, :7]))
    assert "[token, d_model]" in told(given(array[None]))
    assert "at most 1,024" in told(given(np.zeros((1300, 22), np.float32)))
    assert "numpy.save" in told(given(np.array([{}], dtype=object)))


def test_a_file_that_is_no_picture_is_told(meet: Meet) -> None:
    app = meet("vit")
    app.file_uploader(key="own-file-image").set_value(("no.png", b"not a picture", "image/png"))
    app.run()
    assert not app.exception and len(app.error) == 1
    app.button(key="own-back").click().run()
    assert not app.error and "over-image" in charts(app)


@pytest.mark.parametrize("name", NAMES)
def test_each_control_of_each_kind_writes_an_edit_that_runs(meet: Meet, name: str) -> None:
    app = meet(name, scope="everything", **WORDS.get(name, {}))
    slide(app, "temperature", "2")
    slide(app, "window", "2")
    app.multiselect(key="hide").set_value([1]).run()
    app.multiselect(key="edge").set_value([0]).run()
    app.button_group(key="causal").set_value("off" if STACK[name] == "decoder" else "on")
    app.run()
    app.button_group(key="head_state").set_value("uniform")
    app.run()
    kinds = ["temperature", "window", "block_keys", "block_edges", "causal", "uniform_head"]
    if name in ("vit", "core"):
        assert not [one for one in app.number_input if one.key == "pad"]
    else:
        app.number_input(key="pad").set_value(2).run()
        kinds.append("pad")
    assert not app.exception and not app.error, told(app)
    edits = Intervention.from_json(app.session_state["edits"])
    assert [edit.kind for edit in edits] == kinds
    for page in ("positions", "norms", ""):
        go(app, page)
        assert not app.exception and not app.error, told(app)
    app.button(key="clean").click().run()
    assert "edits" not in address(app)


@pytest.mark.parametrize("name", NAMES)
def test_the_switches_of_positions_for_each_kind(meet: Meet, name: str) -> None:
    app = go(meet(name, **WORDS.get(name, {})), "positions")
    app.toggle(key="position_drop").set_value(True).run()
    assert not app.exception and not app.error, told(app)
    assert app.session_state["edits"] == Intervention((ScalePositions(value=0.0),)).to_json()
    assert (heatmap(chart(app, "position-table")) == 0).all()
    app.toggle(key="position_shuffle").set_value(True).run()
    assert not app.exception and not app.error, told(app)
    assert ("Does the order of the words matter?" in html(app)) == (STACK[name] == "decoder")


OLD = Intervention(
    (
        Temperature(value=2.0, stack="decoder", block="cross", layer=1),
        Temperature(value=3.0, stack="encoder", block="self", layer=0),
        ScaleHead(value=0.0, stack="decoder", block="self", layer=1, head=1),
        BlockKeys(keys=(2,), stack="encoder", block="self"),
        Causal(on=False, stack="decoder"),
        Pad(count=2),
        ScalePositions(value=0.5, stack="decoder"),
        Temperature(value=1.5),
    )
)
LEFT = {
    "lm": [2, 4, 5, 6, 7],
    "ids": [2, 4, 5, 6, 7],
    "mlm": [1, 3, 5, 7],
    "vit": [1, 7],
    "core": [1, 7],
}


@pytest.mark.parametrize("name", NAMES)
def test_another_model_keeps_the_changes_that_mean_something_there(meet: Meet, name: str) -> None:
    app = meet("tiny", text=TEXT, edits=OLD.to_json(), block="cross", head="1", target="A dog.")
    app.selectbox(key="model").set_value(name).run()
    assert not app.exception and not app.error and not app.warning, told(app)
    kept = Intervention.from_json(app.session_state["edits"])
    assert list(kept) == [list(OLD)[n] for n in LEFT[name]]
    assert app.button(key="undo").disabled
    app.selectbox(key="model").set_value("tiny").run()
    assert not app.exception and not app.error and not app.warning, told(app)
    assert app.session_state["target"] == "A dog."
    texts = (TEXT, FIRST_TEXT) if name == "ids" else (TEXT,)
    assert app.text_input(key="text").value in texts


def test_one_may_go_from_any_kind_to_any_other_on_every_page(meet: Meet) -> None:
    app = meet("tiny")
    for page in MAP_PAGES:
        go(app, page)
        for name in (*NAMES, *reversed(NAMES), "core", "mlm", "ids", "vit", "tiny"):
            app.selectbox(key="model").set_value(name).run()
            assert not app.exception and not app.error and not app.warning, (page, name, told(app))


def test_ids_are_asked_for_where_there_is_no_vocabulary(meet: Meet) -> None:
    app = meet("ids")
    assert app.text_input(key="text").label == "Token ids"
    app.text_input(key="text").set_value("the cat").run()
    assert not app.exception and "type token ids such as 2 45 3" in told(app)
    app.text_input(key="text").set_value("").run()
    assert "no vocabulary is in use for this text" in told(app)


@pytest.mark.parametrize("name", ["tiny", *NAMES])
def test_a_folder_tells_the_kind_that_the_loaded_model_has(
    shelf: Path, kinds: Path, name: str
) -> None:
    folder = (shelf if name == "tiny" else kinds) / name
    assert Shelved(name, folder).kind == of_model(tv.load(str(folder)))


def test_the_boxes_say_what_to_type() -> None:
    assert Kind(title="English to German").sentence == "English sentence"
    assert Kind(title="Gossip").sentence == Kind("encoder-only").sentence == "Sentence"
    assert Kind("decoder-only").sentence == "Text"
    assert Kind("decoder-only", spelled=False).sentence == "Token ids"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny masked model that reads two texts, as the transformers library saves it."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder = tmp_path_factory.mktemp("hf") / "bert"
    folder.mkdir()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*marks, "the", "cat", "sat", "on", "mat", "dog", "is", "tired", "."]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(1)
    sizes = {"hidden_size": 22, "intermediate_size": 29, "max_position_embeddings": 43}
    config = BertConfig(vocab_size=len(words), num_hidden_layers=3, num_attention_heads=2, **sizes)
    BertForMaskedLM(config).save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_a_model_of_two_texts_whose_kind_only_loading_tells(
    bert: Path, meet: Meet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(bert))
    pair = ("the cat sat on the mat .", "the dog is tired .")
    app = meet("bert", text=pair[0], second=pair[1], masked="2,9", layer="1", head="1")
    assert not app.exception and not app.error and not app.warning, told(app)
    assert app.text_input(key="second").value == pair[1]
    model = tv.load(str(bert))
    ids = model.tokenizer.pair_ids(*pair)[0]
    trace = tv.trace(model, pair, masked=[2, 9], produced=ids)
    assert np.array_equal(weights(app), trace.attention("encoder", layer=1)[1])
    assert trace.produced is not None
    assert chances(app) == [f"{trace.produced.probability[n]:.2f}" for n in (2, 9)]
    app.text_input(key="second").set_value("").run()
    assert app.session_state["masked"] == () and len(chips(app)[0]["chips"]) == 9


SHIPPED = [name for name in tv.available() if name != "en-de"]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_stored_run_of_each_model_in_the_box_is_what_the_app_would_run(name: str) -> None:
    stored, fresh = Engine(name), Engine(name)
    question = stored.shelf[name].asked
    assert question is not None
    answer = stored.example(question)
    assert answer is not None and not stored.ready(name)
    kind = stored.kind(name)
    assert kind is not None
    fresh.shelf[name].__dict__["example"] = None  # as if nothing were stored
    place = whole_layer("encoder" if "encoder" in answer.trace.maps else "decoder", 0)
    run = fresh.clean(question, place).trace
    assert run.source == answer.trace.source and run.maps == answer.trace.maps
    for block in run.maps:
        assert np.abs(run.attention(block) - answer.trace.attention(block)).max() <= 1e-5
    if run.produced is not None and answer.trace.produced is not None:
        assert run.produced.ids == answer.trace.produced.ids
    if kind.takes == "image":
        assert np.array_equal(stored.picture(question), fresh.picture(question))
        assert not stored.ready(name)


def test_questions_of_norms_and_positions_speak_of_patches(meet: Meet) -> None:
    text = html(go(meet("vit"), "norms"))
    assert "each patch&#x27;s vector" in text or "each patch's vector" in text
    text = html(go(meet("vit"), "positions"))
    assert "Is k patches further" in text and "along the picture" in text


def test_a_model_of_tags_names_the_class_of_each_word(
    meet: Meet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.checkpoints.hugging_face import BERT, TEXT, made, saved

    names = {0: "O", 1: "B-PER", 2: "B-LOC"}
    words = {**TEXT, **BERT, "max_position_embeddings": 23, "id2label": names}
    folder = saved(made("BertForTokenClassification", "BertConfig", **words), tmp_path / "ner")
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    app = meet("path:ner", text="5 11 17")
    assert not app.exception and not app.error
    expected = tv.trace(tv.load(folder, device="cpu"), [5, 11, 17]).produced
    assert expected is not None
    shown = html(app)
    assert "its rank among all classes" in shown
    for label, probability in zip(expected.labels, expected.probability, strict=True):
        assert f"<div>{label}</div>" in shown
        assert f"{probability:.2f}" in shown
    app = meet("path:ner", "swap", text="5 11 17", other="5 9 17", between="O,B-LOC")
    assert not app.exception and not app.error
    assert "Asked about the class of “5”" in html(app), told(app)
    with torch.inference_mode():
        logits = tv.load(folder, device="cpu").module(torch.tensor([[5, 11, 17]])).logits
    lead = float(logits[0, 0, 0] - logits[0, 0, 2])
    assert f"{lead:+.2f} nats".replace("-", "−") in html(app).replace("-", "−"), lead


def test_the_page_swap_takes_answers_in_a_pair(
    meet: Meet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked, rest = "[PAD] [UNK] [CLS] [SEP]", "who what wrote said ann bob it the"
    words = f"{marked} {rest}".split()
    pieces = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, "[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks = {f"{word[1:-1].lower()}_token": word for word in words[:4]}
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(
        vocab_size=12, intermediate_size=24, initializer_range=0.4, **sizes
    )
    folder = tmp_path / "qa"
    transformers.BertForQuestionAnswering(config).save_pretrained(folder)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, model_input_names=names, **marks
    ).save_pretrained(folder)
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    first, other, second = "who wrote", "what wrote", "ann wrote it"
    app = meet("path:qa", "swap", text=first, second=second, other=other, between="ann,it")
    shown = html(app)
    assert not app.exception and not app.error and "Asked where the answer starts" in shown
    model = tv.load(folder, device="cpu")
    ids = [[2, 4, 6, 3, 8, 6, 10, 3]]
    with torch.inference_mode():
        start = model.module(
            torch.tensor(ids), token_type_ids=torch.tensor([[0] * 4 + [1] * 4])
        ).start_logits[0]
    lead = f"{float(start[4] - start[6]):+.2f} nats"
    assert lead.replace("-", "−") in shown.replace("-", "−"), lead
