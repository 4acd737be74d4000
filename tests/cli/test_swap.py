"""`transformer-viz swap`: the library's own numbers, as words, a table, a card and edits."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention

from .test_cli import answer, refusal

OWN = "The animal didn't cross the street because it was too tired."
OTHER = "The animal didn't cross the street because it was too wide."


@pytest.mark.shipped
def test_the_numbers_are_the_librarys(tmp_path: Path):
    out, model = tmp_path / "swaps.csv", tv.load("en-de", device="cpu")
    for what in ("heads", "stream"):
        words = ["--what", what, "--best", "2", "--out", str(out)]
        said = answer("swap", "en-de", OWN, OTHER, *words).splitlines()
        found, table = tv.swap(model, OWN, OTHER, what=what), pd.read_csv(out)
        assert list(table.columns) == list(found.table.columns), what
        moved = found.table["moved"].to_numpy()
        assert table["moved"].to_numpy() == pytest.approx(moved), what
        best = found.ranked[0]
        value = found.parts[best.part][best.row, best.column]
        assert said[1].strip().startswith(f"{value:.3f}"), what
        assert f"{best.part} L{best.row}" in said[1], what
        assert all(note in said for note in found.notes), what
        assert Intervention.from_json(said[-2]).edits == found.best(2), what
        card = json.loads((tmp_path / "swaps.card.json").read_text("utf-8"))
        assert card == json.loads(json.dumps(found.card)), what
    for words, why in (
        ((OWN, OTHER, "--words", "es"), "takes two words with a comma"),
        ((OWN, OTHER, "--out", str(tmp_path)), "is a folder"),
        ((OWN, OWN), "Both sentences are the same"),
    ):
        assert why in refusal("swap", "en-de", *words)


def test_an_answer_is_asked_by_numbers_of_its_tokens(tmp_path: Path):
    """The same of `explain`, whose --target names the token."""
    marked, rest = "[PAD] [UNK] [CLS] [SEP]", "who what wrote said ann bob it the"
    words = f"{marked} {rest}".split()
    pieces = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, "[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(
        vocab_size=12, intermediate_size=24, initializer_range=0.4, **sizes
    )
    transformers.BertForQuestionAnswering(config).save_pretrained(tmp_path)
    transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, **marks).save_pretrained(tmp_path)
    model, folder = tv.load(tmp_path), str(tmp_path)
    pair, other = ("who wrote", "ann wrote it"), ("who wrote", "bob wrote it")
    asked = ["--words", "4,6", "--output", "end"]
    said = answer("swap", folder, "\t".join(pair), "\t".join(other), *asked)
    found = tv.swap(model, pair, other, (4, 6), output="end")
    assert found.notes[0] in said and "where the answer has its end" in found.notes[0]
    question = ["explain", folder, "--pair", *pair, "--output", "start", "--method", "removal"]
    said = answer(*question, "--target", "5")
    values = tv.explain(model, pair, target=5, method="removal").values["value"]
    assert all(f"{value:.4f}" in said for value in values) and "Asked about" not in said
    assert "a number from 0 to 7; got 8" in refusal(*question, "--target", "8")
    assert "a number from 0 to 7; got 'bob'" in refusal(*question, "--target", "bob")
