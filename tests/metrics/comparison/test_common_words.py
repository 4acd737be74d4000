"""Which tokens of two readings are the same word, in scripts with and without blanks."""

from __future__ import annotations

import io
from itertools import product

import numpy as np
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


def pieces(text: str, mark: str = "▁", special: str = "</s>") -> Tokens:
    """Tokens written with | between them."""
    parts = text.split("|")
    return arrange(range(len(parts)), parts, mark, [part in special.split() for part in parts])


def said(found: CommonWords) -> list[tuple[str, str]]:
    return [(word.label_a, word.label_b) for word in found.shared]


def test_one_text_has_the_same_words_in_any_pieces():
    """P38: nothing is lost, nothing is twice, and each word is the same text on both sides."""
    every = list(TEXTS.values())
    cuts = {
        "characters": trained("char", 400, every),
        "pieces": trained("bpe", 460, every),
        "bytes": trained("bpe", 330, [TEXTS["en"]]),  # all that is not English is bytes
    }
    for case in product(TEXTS, cuts, cuts):
        text, *names = case
        sides = [cuts[name].tokens(cuts[name].source_ids(TEXTS[text])) for name in names]
        found = common_words(*sides)
        assert not found.lone, case
        for word in found.words:
            assert word.label_a.replace("␣", "") == word.label_b.replace("␣", ""), (case, word)
        for side, tokens in zip("ab", sides, strict=True):
            members = found.members(side, len(tokens))
            assert (members.sum(0) == 1).all(), case  # each token is in one word
            order = [int(np.flatnonzero(row)[0]) for row in members]
            assert order == sorted(order), case
        shared = len(found.shared)
        assert shared <= min(map(len, sides)), case
        if names[0] == names[1]:
            assert found.how == "tokens" and shared == len(sides[0]), case
        elif "characters" in names and text in ("ja", "zh"):
            # characters can be parted everywhere: the words are the other side's, or characters
            other = sides[names[0] == "characters"]
            whole = len([t for t in other.pieces if t != "▁"])
            assert shared == (len(TEXTS[text]) + 1 if "bytes" in names else whole), case


def test_cut_where_both_cut():
    found = common_words(pieces("▁un|believ|able|▁cat|</s>"), pieces("▁unbe|lievable|▁c|at|</s>"))
    assert found.how == "pieces"
    assert said(found) == [("unbelievable", "unbelievable"), ("cat", "cat"), ("</s>", "</s>")]
    assert found.shared[0].a == (0, 1, 2) and found.shared[0].b == (0, 1)
    # lower case, accents and marks do not part a text
    other = pieces("[CLS]|caf|##e|so|##lo|[SEP]", "##", "[CLS] [SEP]")
    found = common_words(pieces("▁Café|▁solo|</s>"), other)
    assert said(found) == [("Café", "cafe"), ("solo", "solo")]
    assert [word.label_b for word in found.lone if word.b] == ["[CLS]", "[SEP]"]
    assert all(word.special for word in found.lone)


def test_words_of_two_texts_are_matched_in_order():
    one = pieces("▁It|▁was|▁too|▁tir|ed|.|</s>")
    found = common_words(one, pieces("▁It|▁was|▁far|▁too|▁wide|.|</s>"))
    assert found.how == "words"
    assert said(found)[:4] == [("It", "It"), ("was", "was"), ("too", "too"), ("tired", "wide")]
    assert [word.same for word in found.shared] == [True, True, True, False, True, True]
    assert [(word.label_a, word.label_b) for word in found.lone] == [("", "far")]
    assert found.any_same
    # pieces are matched where nobody sets blanks
    found = common_words(pieces("▁猫|は|寝|た|</s>"), pieces("▁犬|は|走|っ|た|</s>"))
    assert said(found) == [("猫", "犬"), ("は", "は"), ("た", "た"), ("</s>", "</s>")]
    # two texts without a word in common
    found = common_words(pieces("▁A|▁dog|</s>"), pieces("▁The|▁cat|▁sat|</s>"))
    assert not found.any_same
    # as many words between two marks: counterparts by their places alone, and nothing is the same
    assert not common_words(pieces("▁A|▁dog|</s>"), pieces("▁The|▁cat|</s>")).any_same
    # nor is it a word in common that both end with a stop
    assert not common_words(pieces("▁A|▁dog|.|</s>"), pieces("▁The|▁cat|▁sat|.|</s>")).any_same
    # sides exchange
    one, other = pieces("▁It|▁was|▁tired|</s>"), pieces("▁It|▁is|▁so|▁tired|</s>")
    there, back = common_words(one, other), common_words(other, one)
    assert {(w.a, w.b) for w in there.shared} == {(w.b, w.a) for w in back.shared}
