"""Which tokens of two readings are the same word, in scripts with and without blanks."""

from __future__ import annotations

import io

import numpy as np
import pytest
import sentencepiece

from transformer_viz.core.trace_parts import Tokens
from transformer_viz.metrics.comparison.common_words import CommonWords, common_words
from transformer_viz.preprocessing.tokenizers import SentencePieceText, arrange

TEXTS = {
    "ja": "吾輩は猫である。名前はまだ無い。",
    "zh": "我是一只猫，还没有名字。",
    "en": "The unbelievably tired cat didn't cross the street.",
    "th": "แมวนอนอยู่บนเสื่อ",
    "ko": "고양이가 매트 위에 앉았다.",
}


def trained(kind: str, size: int, texts: list[str]) -> SentencePieceText:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 3),
        model_writer=out,
        model_type=kind,
        vocab_size=size,
        byte_fallback=kind == "bpe",
        hard_vocab_limit=False,
        character_coverage=1.0,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        num_threads=1,
        minloglevel=2,
    )
    return SentencePieceText(out.getvalue())


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, SentencePieceText]:
    every = list(TEXTS.values())
    return {
        "characters": trained("char", 400, every),
        "pieces": trained("bpe", 460, every),
        "bytes": trained("bpe", 330, [TEXTS["en"]]),  # all that is not English is bytes
    }


def pieces(text: str, mark: str = "▁", special: str = "</s>") -> Tokens:
    """Tokens written with | between them."""
    parts = text.split("|")
    return arrange(range(len(parts)), parts, mark, [part in special.split() for part in parts])


def said(found: CommonWords) -> list[tuple[str, str]]:
    return [(word.label_a, word.label_b) for word in found.shared]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("a", ["characters", "pieces", "bytes"])
@pytest.mark.parametrize("b", ["characters", "pieces", "bytes"])
def test_one_text_has_the_same_words_in_any_pieces(
    tokenizers: dict[str, SentencePieceText], text: str, a: str, b: str
) -> None:
    """P38: nothing is lost, nothing is twice, and each word is the same text on both sides."""
    ours, theirs = (
        tokenizers[name].tokens(tokenizers[name].source_ids(TEXTS[text])) for name in (a, b)
    )
    found = common_words(ours, theirs)
    assert not found.lone
    assert all(
        word.label_a.replace("␣", "") == word.label_b.replace("␣", "") for word in found.words
    )
    for side, tokens in (("a", ours), ("b", theirs)):
        members = found.members(side, len(tokens))
        assert (members.sum(0) == 1).all()  # each token is in one word
        order = [int(np.flatnonzero(row)[0]) for row in members]
        assert order == sorted(order)
    assert len(found.shared) <= min(len(ours), len(theirs))
    if a == b:
        assert found.how == "tokens" and len(found.shared) == len(ours)
    elif "characters" in (a, b) and text in ("ja", "zh"):
        # characters can be parted everywhere: the words are then the other side's, whatever it cuts
        other = theirs if a == "characters" else ours
        whole = [t for t in other.pieces if t != "▁"]
        if "bytes" not in (a, b):
            assert len(found.shared) == len(whole)
        else:
            assert len(found.shared) == len(TEXTS[text]) + 1  # its characters, and the end


def test_cut_where_both_cut() -> None:
    found = common_words(pieces("▁un|believ|able|▁cat|</s>"), pieces("▁unbe|lievable|▁c|at|</s>"))
    assert found.how == "pieces"
    assert said(found) == [("unbelievable", "unbelievable"), ("cat", "cat"), ("</s>", "</s>")]
    assert found.shared[0].a == (0, 1, 2) and found.shared[0].b == (0, 1)


def test_lower_case_accents_and_marks_do_not_part_a_text() -> None:
    other = pieces("[CLS]|caf|##e|so|##lo|[SEP]", "##", "[CLS] [SEP]")
    found = common_words(pieces("▁Café|▁solo|</s>"), other)
    assert said(found) == [("Café", "cafe"), ("solo", "solo")]
    assert [word.label_b for word in found.lone if word.b] == ["[CLS]", "[SEP]"]
    assert all(word.special for word in found.lone)


def test_words_of_two_texts_are_matched_in_order() -> None:
    one = pieces("▁It|▁was|▁too|▁tir|ed|.|</s>")
    found = common_words(one, pieces("▁It|▁was|▁far|▁too|▁wide|.|</s>"))
    assert found.how == "words"
    assert said(found)[:4] == [("It", "It"), ("was", "was"), ("too", "too"), ("tired", "wide")]
    assert [word.same for word in found.shared] == [True, True, True, False, True, True]
    assert [(word.label_a, word.label_b) for word in found.lone] == [("", "far")]
    assert found.any_same


def test_pieces_are_matched_where_nobody_sets_blanks() -> None:
    found = common_words(pieces("▁猫|は|寝|た|</s>"), pieces("▁犬|は|走|っ|た|</s>"))
    assert said(found) == [("猫", "犬"), ("は", "は"), ("た", "た"), ("</s>", "</s>")]


def test_two_texts_without_a_word_in_common() -> None:
    found = common_words(pieces("▁A|▁dog|</s>"), pieces("▁The|▁cat|▁sat|</s>"))
    assert not found.any_same
    # as many words between two marks: counterparts by their places alone, and nothing is the same
    assert not common_words(pieces("▁A|▁dog|</s>"), pieces("▁The|▁cat|</s>")).any_same
    # nor is it a word in common that both end with a stop
    assert not common_words(pieces("▁A|▁dog|.|</s>"), pieces("▁The|▁cat|▁sat|.|</s>")).any_same


def test_sides_exchange() -> None:
    one, other = pieces("▁It|▁was|▁tired|</s>"), pieces("▁It|▁is|▁so|▁tired|</s>")
    there, back = common_words(one, other), common_words(other, one)
    assert {(w.a, w.b) for w in there.shared} == {(w.b, w.a) for w in back.shared}
