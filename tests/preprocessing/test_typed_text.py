"""Typed characters that a bundled vocabulary lacks; tokenizers of checkpoints are never changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import transformer_viz as tv
from transformer_viz.app.engine.model_catalog import Shelf
from transformer_viz.checkpoints.common.bundled import PRETRAINED, VOCABULARY
from transformer_viz.preprocessing.tokenizers import SentencePieceText
from transformer_viz.preprocessing.typed_text import TypedText

#: As typed by phones and word processors, and as a vocabulary of plain signs has it.
TYPED = (
    ("The animal didn’t cross.", "The animal didn't cross."),
    ("“Yes,” she said.", '"Yes," she said.'),
    ("‘No’ `no´", "'No' 'no'"),
    ("re‑do it‐now", "re-do it-now"),
    ("a\u00a0ﬁve\u202fﬂoor", "a five floor"),
    ("Ｆｕｌｌ ｗｉｄｔｈ！", "Full width!"),
    ("ency\u00adclo\u200bpædia", "encyclopaedia"),
    ("so …", "so ..."),
)
KNOWN = ("The „Hund“ – it", "plain", "🙂 café שלום ½", "")


def test_typed_characters_are_read_as_those_that_the_vocabulary_has():
    for name in ("en-de", "en-de-small", "en-lm", "en-mlm"):
        file = PRETRAINED / name / VOCABULARY
        ours, raw = TypedText(file), SentencePieceText(file)
        for typed, plain in TYPED:
            assert ours.source_ids(typed) == raw.source_ids(plain), (name, typed)
            assert ours.target_ids(typed) == raw.target_ids(plain), (name, typed)
            assert ours.lost(typed) == (), (name, typed)
        for text in KNOWN if name.startswith("en-de") else ():
            assert ours.source_ids(text) == raw.source_ids(text), (name, text)
            assert not ours.read_as(text), (name, text)


@pytest.mark.shipped
def test_library_and_catalogue_read_alike_and_a_copy_is_left_alone(tmp_path: Path):
    typed, plain = TYPED[0]
    model = tv.load("en-de-small")
    beside = Shelf("")["en-de-small"].vocabulary
    assert beside is not None
    wanted = model.tokenizer.source_ids(plain)
    assert model.tokenizer.source_ids(typed) == wanted == beside.source_ids(typed)
    assert tv.load(str(PRETRAINED / "en-de-small")).tokenizer.source_ids(typed) == wanted
    copy = shutil.copytree(PRETRAINED / "en-de-small", tmp_path / "mine")
    assert tv.load(str(copy)).tokenizer.source_ids(typed) != wanted
