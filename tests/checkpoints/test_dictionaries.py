"""Vocabularies as trainers leave them: read whole, refused where they are something else."""

from __future__ import annotations

import pickle

import pytest

from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.vocabularies.dictionaries import (
    byte_pairs,
    characters,
    fairseq_words,
    opennmt_words,
)

LISTS = {"src": ["<unk>", "<blank>", "▁a", "b"], "tgt": ["<s>", "</s>", "<unk>", "▁c"]}
CONFIG = {"source_vocab": 4, "target_vocab": 4, "bos_id": 0, "eos_id": 1}


def test_where_nothing_stands_there_is_nothing(tmp_path):
    assert characters(tmp_path, "letters", 3) is None
    assert byte_pairs(tmp_path, 3) is None
    assert fairseq_words(tmp_path, ("de", "en"), (9, 9), True) is None
    for held in (None, {}, {"src": ["a"]}, {"src": [1], "tgt": [2]}, ["a"], "text"):
        assert opennmt_words(held, tmp_path, CONFIG) is None, held


def test_names_that_lead_elsewhere_are_not_followed(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "meta.pkl").write_bytes(pickle.dumps({"stoi": {"a": 0}}))
    run = tmp_path / "out" / "run"
    (run / "dict.x").mkdir(parents=True)
    for dataset in ("../letters", "/etc", "..", "", ".hidden", "a/b"):
        assert characters(run, dataset, 1) is None, dataset
    (tmp_path / "out" / "secret.txt").write_text("word 1\n")
    lang = "x/../../secret"
    assert (run / f"dict.{lang}.txt").is_file()
    assert fairseq_words(run, (lang, lang), (9, 9), True) is None


def test_numbers_of_characters_must_be_whole(tmp_path):
    for content, message in (
        ([1, 2], "no dictionary stoi"),
        ({"stoi": {}}, "no dictionary stoi"),
        ({"stoi": {"ab": 0}}, "single characters"),
        ({"stoi": {"a": 1}}, "each number once"),
        ({"stoi": {"a": 0, "b": 0}}, "each number once"),
        ({"stoi": {"a": True}}, "single characters"),
        ({"stoi": {0: "a"}}, "single characters"),
    ):
        (tmp_path / "meta.pkl").write_bytes(pickle.dumps(content))
        with pytest.raises(CheckpointError) as caught:
            characters(tmp_path, "", 1)
        assert message in str(caught.value), content


def test_words_of_fairseq_are_read_as_it_reads_them(tmp_path):
    lines = "the 900\n▁ 3\n\u00a0x 2\n<unk> 2 #fairseq:overwrite\nmadeupword0000 0\n\n"
    (tmp_path / "dict.txt").write_text(lines, encoding="utf-8")
    text = fairseq_words(tmp_path, ("", ""), (11, 11), True)
    special = ("<s>", "<pad>", "</s>", "<unk>")
    assert text.pieces == (*special, "the", "▁", "\u00a0x", "<unk>", "madeupword0000")
    (tmp_path / "dict.txt").rename(tmp_path / "dict.en.txt")  # that of one side
    assert fairseq_words(tmp_path, ("de", "en"), (11, 11), False) is None
    assert fairseq_words(tmp_path, ("de", "en"), (11, 11), True) is not None


def test_lists_of_opennmt_keep_their_ids(tmp_path):
    text = opennmt_words(LISTS, tmp_path, CONFIG)
    assert text.source_ids("▁a b x") == [2, 3, 0]
    assert text.target_ids("▁c x") == [0, 3, 2]
    assert text.decode([2, 3, 1]) == "ab"
    assert text.target.tokens([0, 3, 1]).special == (True, False, True)
    with pytest.raises(
        CheckpointError, match=r"The list tgt of vocab has 4 entries, but .* knows 3"
    ):
        opennmt_words(LISTS, tmp_path, CONFIG | {"target_vocab": 3})


def test_a_lone_sentencepiece_model_cuts_the_text(tmp_path, tiny_vocabulary):
    lists = {"src": ["<unk>", "▁The", "▁cat"], "tgt": ["<unk>", "▁cat"]}
    (tmp_path / "spm.model").write_bytes(tiny_vocabulary)
    assert opennmt_words(lists, tmp_path, CONFIG).source_ids("The cat") == [1, 2]
    (tmp_path / "other.model").write_bytes(tiny_vocabulary)
    assert opennmt_words(lists, tmp_path, CONFIG).source_ids("The cat") == [0, 0]
    (tmp_path / "other.model").unlink()
    (tmp_path / "spm.model").write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError, match=r"spm\.model: The vocabulary is not a sentencepiece"):
        opennmt_words(lists, tmp_path, CONFIG)
