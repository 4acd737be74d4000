"""The app for models that hear, read pictures beside text, or come from other libraries."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from streamlit.testing.v1 import AppTest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import transformer_viz as tv
from tests.support.widgets import click, fine, ok, put, runs
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_kind import of_config
from transformer_viz.app.engine.query import whole_layer
from transformer_viz.app.pages.labs import LABS
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.preprocessing.audio import example_sound
from transformer_viz.preprocessing.images import example_picture
from transformer_viz.preprocessing.token_names import spelled
from transformer_viz.preprocessing.wav import wav_bytes

from ...support.map_pages import MAP_PAGES
from ...support.page_content import address, chips, go, html, part, told, weights
from ...support.pictured import picture, pictured_folder
from ...support.speech import speech_folder

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
HEAR = ("whisper", "wav2vec2")
READ = ("llava", "gemma3", "qwen2_vl", "paligemma")
TEXT = "what is in the picture ?"
CLEAN, HOT = Intervention(), Intervention((Temperature(value=4.0),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models that hear and models that read both, as the library writes them."""
    made = tmp_path_factory.mktemp("models")
    for name in HEAR:
        speech_folder(name, made / name)
    for name in READ:
        pictured_folder(name, made / name)
    return made


@pytest.fixture
def look(visit: Visit, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """Opens a page with one of those models as the app's own."""

    def opened(name: str, page: str = "", **link: str) -> AppTest:
        monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(folder / name))
        return visit(page, model=name, **({"text": TEXT} if name in READ else {}) | link)

    return opened


def own(app: AppTest, kind: str, content: bytes) -> AppTest:
    """Upload a picture or a sound of one's own."""
    name = {"audio": "my.wav", "image": "my.png"}[kind]
    app.file_uploader(key=f"own-file-{kind}").set_value((name, content, f"{kind}/{name[3:]}"))
    return app.run()


# ---- Models that hear


@pytest.mark.parametrize("name", HEAR)
def test_every_page_and_lab_of_a_sound_runs(look: Visit, name: str) -> None:
    app = look(name, layer="1")
    pages = (*MAP_PAGES, "step-inside", "play", "labs", "checkpoint", "lessons")
    for page in pages:
        fine(go(app, page), page)
        if page == "play":
            assert ("nothing to play" in told(app)) == (name == "wav2vec2")
    go(app, "labs")
    for lab in LABS[:-1]:  # the last one asks models of its own
        app.session_state["lab"], app.session_state["tried"] = lab.name, "guess=show"
        app.run()
        assert not app.exception and not app.error, lab.name
        assert len(app.info) == 1 or 'data-what="verdict"' in html(app), lab.name


def test_the_cross_map_stands_first_and_is_that_of_a_separate_run(
    look: Visit, folder: Path
) -> None:
    model, sound = tv.load(folder / "whisper"), example_sound(16000)
    clean = tv.trace(model, sound, check=False)
    held = {"target": clean.target.ids, "produced": clean.produced.ids}
    hot = tv.trace(model, sound, intervention=HOT, check=False, **held)
    for edits, run in ((CLEAN, clean), (HOT, hot)):
        app = fine(look("whisper", edits=edits.to_json(), layer="1", head="1", beam="1"), edits)
        assert app.session_state["block"] == "cross"
        shown = weights(app)
        assert shown.shape == (len(clean.target), 50)
        assert np.abs(shown - run.attention("cross", layer=1)[1]).max() <= 1e-6, edits
        assert "0.08 s" in str(part(app, "head"))
    app = look("whisper", target="the cat sat", beam="1")  # words of one's own are held
    assert not app.exception and not app.error, told(app)
    run = tv.trace(model, sound, "the cat sat", check=False)
    assert np.abs(weights(app) - run.attention("cross", layer=0)[0]).max() <= 1e-6
    assert [chip["text"] for chip in chips(app)[0]["chips"]] == list(run.target.labels)
    app = look("whisper", edits=HOT.to_json(), beam="2")  # under an edit it also writes freely
    for edits, name in ((CLEAN, "before"), (HOT, "after")):
        best = tv.translate(model, sound, beam=2, intervention=edits)[0]
        shown = re.search(rf'data-what="{name}">(.*?)</span></span>', html(app), re.S)
        assert shown is not None and re.sub("<.*?>", "", shown[1]) == best.text, name


def test_the_letters_of_a_sound_make_its_text(look: Visit, folder: Path) -> None:
    for name in HEAR:  # the files alone do not tell what it takes
        assert of_config(json.loads((folder / name / "config.json").read_text()), True) is None
    app = look("wav2vec2")
    model = tv.load(folder / "wav2vec2")
    ids = tv.trace(model, example_sound(16000), check=False).produced.ids
    library = transformers.AutoTokenizer.from_pretrained(folder / "wav2vec2")
    for given in (ids, (4, 6, 6, 0, 6, 7, 4, 4, 8, 1, 8, 0)):
        text = spelled(model.tokenizer, given, 0)
        assert text and text == re.sub("<.*?>", "", library.decode(given)).strip()
    assert f'data-what="lead">{spelled(model.tokenizer, ids, 0)}<' in html(app)


def test_a_sound_of_ones_own_is_heard_and_not_in_the_link(look: Visit, folder: Path) -> None:
    app = look("wav2vec2", layer="1", head="1")
    link, example = address(app), weights(app)
    assert "Heard are three notes made by code" in told(app)
    voice = wav_bytes(np.random.default_rng(2).normal(0, 0.1, 12_000), 8000)
    own(app, "audio", voice)
    assert not app.exception and not app.error and "Heard is your own sound" in told(app)
    run = tv.trace(tv.load(folder / "wav2vec2"), voice, check=False)
    assert np.abs(weights(app) - run.attention("encoder", layer=1)[1]).max() <= 1e-6
    assert len(weights(app)) == 1 + (24_000 - 320) // 640 and address(app) == link
    assert "Heard is your own sound" in told(runs(go(app, "norms")))
    click(app, "own-back")
    assert np.array_equal(weights(go(app, "")), example)
    content = wav_bytes(example_sound(16000)[:9000], 16000)
    app.audio_input(key="own-file-recording").set_value(("audio.wav", content, "audio/wav")).run()
    assert not app.exception and not app.error
    assert len(weights(app)) == 1 + (9000 - 320) // 640
    for content, message in (
        (b"no sound", "is no WAV file"),
        (wav_bytes(example_sound(16000), 16000)[:999], "was cut off"),
        (wav_bytes(np.zeros(40_000), 16000), "lasts 2.5 s and this model hears at most 2 s"),
    ):
        app = own(look("whisper"), "audio", content)
        assert not app.exception and len(app.error) == 1, message
        assert message in app.error[0].value.replace("\\", "")
        click(app, "own-back")
        assert not app.error and "0.08 s" in str(part(app, "head")), message


# ---- Models that read a picture beside their text


@pytest.mark.parametrize("names", [READ[:2], READ[2:]], ids=" ".join)
def test_one_map_over_words_and_patches(look: Visit, folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        one_map(look, folder, name)


def one_map(look: Visit, folder: Path, name: str) -> None:
    model, words = tv.load(folder / name), {"image": example_picture(), "check": False}
    clean = tv.trace(model, TEXT, **words)
    held = {} if clean.produced is None else {"produced": clean.produced.ids}
    for edits in (CLEAN, HOT):
        link = {"picture": "house", "layer": "1", "head": "1", "edits": edits.to_json()}
        app = fine(look(name, **link), edits)
        run = tv.trace(model, TEXT, intervention=edits, **words, **held) if edits else clean
        shown = run.attention(run.maps[0], layer=1)[1]
        assert np.abs(weights(app) - shown).max() <= 1e-6, edits
        rows, columns = run.patches.shape
        texts = [chip["text"] for chip in chips(app)[0]["chips"]]
        assert f"picture, {rows} × {columns} patches" in texts
        assert len(texts) == len(run.source) - run.patches.size + 1
        assert "Where in the picture does this word look?" in html(app)
        assert "of its weight is on the picture" in html(app)
        assert "image 0," in str(part(app, "head"))


def test_with_and_without_a_picture(look: Visit, folder: Path) -> None:
    app = look("llava", layer="1", head="0")
    run = tv.trace(tv.load(folder / "llava"), TEXT, check=False)
    assert np.abs(weights(app) - run.attention("decoder", layer=1)[0]).max() <= 1e-6
    assert "Where in the picture" not in html(app)
    ok(put(app, {"picture": "house"}))
    assert "Where in the picture" in html(app) and address(app)["picture"] == "house"
    app = look("llava", picture="house", layer="1")
    for page in (*MAP_PAGES, "step-inside", "play", "labs"):
        fine(go(app, page), page)

    app = look("gemma3", picture="house", edits=HOT.to_json(), beam="1")  # it writes of it
    model = tv.load(folder / "gemma3")
    best = tv.translate(model, TEXT, image=example_picture())[0].text
    assert best != tv.translate(model, TEXT)[0].text
    assert best.strip() in " ".join(html(app).replace("<", " <").split()) or best in html(app)


def test_a_picture_beside_the_text_of_ones_own(look: Visit, folder: Path) -> None:
    held = io.BytesIO()
    picture().save(held, "PNG")
    app = look("qwen2_vl", layer="1", head="1")
    link = address(app)
    ok(own(app, "image", held.getvalue()))
    assert "Beside the text stands your own picture" in told(app)
    run = tv.trace(tv.load(folder / "qwen2_vl"), TEXT, image=picture(), check=False)
    assert np.abs(weights(app) - run.attention("decoder", layer=1)[1]).max() <= 1e-6
    assert address(app) == link
    click(app, "own-back")
    assert "Where in the picture" not in html(app) and not app.exception
    for app, message in (
        (own(look("llava"), "image", b"no picture"), "is no picture that can be read"),
        (look("llava", text="a cat <image>"), "none came"),
        (look("llava", text=" ".join(["cat"] * 60), picture="house"), ""),
    ):
        assert not app.exception and len(app.error) == 1, message
        assert message in app.error[0].value.replace("\\", "")


# ---- Models of the transformers library


def test_a_model_of_two_texts_whose_kind_only_loading_tells(
    meet: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bert"
    folder.mkdir()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*marks, "the", "cat", "sat", "on", "mat", "dog", "is", "tired", "."]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(1)
    sizes = {"hidden_size": 22, "intermediate_size": 29, "max_position_embeddings": 43}
    sizes |= {"vocab_size": len(words), "num_hidden_layers": 3, "num_attention_heads": 2}
    transformers.BertForMaskedLM(transformers.BertConfig(**sizes)).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)

    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
    pair = ("the cat sat on the mat .", "the dog is tired .")
    app = fine(meet("bert", text=pair[0], second=pair[1], masked="2,9", layer="1", head="1"))
    assert app.text_input(key="second").value == pair[1]
    model = tv.load(str(folder))
    ids = model.tokenizer.pair_ids(*pair)[0]
    trace = tv.trace(model, pair, masked=[2, 9], produced=ids, check=False)
    assert np.array_equal(weights(app), trace.attention("encoder", layer=1)[1])
    assert trace.produced is not None
    chances = re.findall(r'white-space:nowrap">(\d\.\d\d(?: → \d\.\d\d)?)</div>', html(app))
    assert chances == [f"{trace.produced.probability[n]:.2f}" for n in (2, 9)]
    put(app, {"second": ""})
    assert app.session_state["masked"] == () and len(chips(app)[0]["chips"]) == 9


def signed(number: float, text: str) -> bool:
    """Return whether the text holds the number of nats, with either minus sign."""
    return f"{number:+.2f} nats".replace("-", "−") in text.replace("-", "−")


def test_a_model_of_tags_names_the_class_of_each_word(
    meet: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.checkpoints.hugging_face import BERT, TEXT, made, saved

    names = {0: "O", 1: "B-PER", 2: "B-LOC"}
    words = {**TEXT, **BERT, "max_position_embeddings": 23, "id2label": names}
    folder = saved(made("BertForTokenClassification", "BertConfig", **words), tmp_path / "ner")
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    app = ok(meet("path:ner", text="5 11 17"))
    model = tv.load(folder, device="cpu")
    expected = tv.trace(model, [5, 11, 17], check=False).produced
    assert expected is not None and "its rank among all classes" in html(app)
    for label, probability in zip(expected.labels, expected.probability, strict=True):
        assert f"<div>{label}</div>" in html(app) and f"{probability:.2f}" in html(app)
    app = ok(meet("path:ner", "swap", text="5 11 17", other="5 9 17", between="O,B-LOC"))
    assert "Asked about the class of “5”" in html(app), told(app)
    with torch.inference_mode():
        logits = model.module(torch.tensor([[5, 11, 17]])).logits
    assert signed(float(logits[0, 0, 0] - logits[0, 0, 2]), html(app))


def test_the_page_swap_takes_answers_in_a_pair(
    meet: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = [*marked, "who", "what", "wrote", "said", "ann", "bob", "it", "the"]
    pieces = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, "[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks = {f"{word[1:-1].lower()}_token": word for word in marked}
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"vocab_size": 12, "intermediate_size": 24, "initializer_range": 0.4}
    config, folder = transformers.BertConfig(**sizes), tmp_path / "qa"
    transformers.BertForQuestionAnswering(config).save_pretrained(folder)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, model_input_names=names, **marks
    ).save_pretrained(folder)
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    link = {"text": "who wrote", "second": "ann wrote it", "other": "what wrote"}
    app = meet("path:qa", "swap", **link, between="ann,it")
    assert not app.exception and not app.error and "Asked where the answer starts" in html(app)
    ids, kinds = [[2, 4, 6, 3, 8, 6, 10, 3]], [[0] * 4 + [1] * 4]
    module = tv.load(folder, device="cpu").module
    with torch.inference_mode():
        found = module(torch.tensor(ids), token_type_ids=torch.tensor(kinds))
    start = found.start_logits[0]
    assert signed(float(start[4] - start[6]), html(app))


# ---- The bundled models


@pytest.mark.shipped
def test_the_stored_run_of_each_bundled_model_is_what_the_app_would_run() -> None:
    for name in set(tv.available()) - {"en-de"}:
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
            worst = np.abs(run.attention(block) - answer.trace.attention(block)).max()
            assert worst <= 1e-5, (name, block)
        if run.produced is not None and answer.trace.produced is not None:
            assert run.produced.ids == answer.trace.produced.ids
        if kind.takes == "image":
            assert np.array_equal(stored.picture(question), fresh.picture(question))
            assert not stored.ready(name)
