"""Tokenizers: what a visitor typed stays visible, and every token has a name of its own."""

from __future__ import annotations

import re
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
import sentencepiece

from tests.support.refusals import refuses
from transformer_viz.core.trace_parts import Tokens
from transformer_viz.preprocessing.hugging_face import HuggingFaceText
from transformer_viz.preprocessing.tokenizers import PlainIds, SentencePieceText

START, END = 2, 3
ODD_TEXTS = [
    "The cat sat.",
    "🙂",
    "שלום",
    "a\x00b",
    "a\x07\u200b\u202eb",
    "<s> </s> <unk> <0x41>",
    "e\u0301",
    "a\ud83db",
    "\u3000",
    "x" * 1000,
]


@pytest.fixture(scope="module")
def text(tiny_vocabulary):
    return SentencePieceText(tiny_vocabulary)


# ---- sentencepiece ---------------------------------------------------------------------------


def test_a_source_ends_and_a_target_starts(text, tiny_vocabulary):
    pieces = sentencepiece.SentencePieceProcessor(model_proto=tiny_vocabulary).encode(ODD_TEXTS[0])
    assert text.source_ids("The cat sat.") == [*pieces, END]
    assert text.target_ids("The cat sat.") == [START, *pieces]
    assert text.prompt_ids("The cat sat.") == [START, *pieces]
    assert text.decode([START, *pieces, END, 0]) == "The cat sat."
    for blank in ("", "   ", "\n\t "):
        ids = text.source_ids(blank)
        assert ids[-1] == END, blank
        assert (ids == [END]) == (not blank.strip(" "))  # a tab is a character: it stays, as a byte
    assert text.target_ids("") == [START]
    assert not any(text.tokens(text.source_ids("<s></s><pad>")).special[:-1])  # typed marks


def test_nothing_typed_is_swallowed(text, make_vocabulary):
    for typed in ODD_TEXTS:
        ids = text.source_ids(typed)
        assert text.lost(typed) == (), typed
        tokens = text.tokens(ids)
        assert tokens.ids == tuple(ids), typed
        assert len(set(tokens.labels)) == len(ids), typed
        assert all(label.isprintable() and label.strip() for label in tokens.labels), typed
        whole = typed.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        spoken = unicodedata.normalize("NFKC", whole)
        assert text.decode(ids) == " ".join(spoken.split(" ")).strip(" "), typed
    # nmt_nfkc, sentencepiece's default, drops control and zero-width characters
    swallowing = SentencePieceText(make_vocabulary(normalization_rule_name="nmt_nfkc"))
    assert swallowing.lost("The cat\x07 sat\x01\x07 🙂.") == ("U+0007", "U+0001")
    assert swallowing.lost("The cat sat 🙂.") == ()
    assert text.lost("cat\x07") == ()
    # unknown characters are visible without byte fallback
    plain = SentencePieceText(make_vocabulary(byte_fallback=False, vocab_size=60))
    ids = plain.source_ids("cat 🙂 sat")
    tokens = plain.tokens(ids)
    assert not tokens.special[tokens.labels.index("<unk>")]
    assert "⁇" in plain.decode(ids)
    assert plain.lost("🙂") == ()


def test_bytes_show_the_character_they_make(text):
    tokens = text.tokens(text.source_ids("🙂🙂 é & \u200b\x07"))
    assert tokens.pieces[1:5] == ("<0xF0>", "<0x9F>", "<0x99>", "<0x82>")
    assert tokens.labels == (
        "␣",
        *(f"🙂 {i}/4" for i in range(1, 5)),
        *(f"🙂 {i}/4 (2)" for i in range(1, 5)),
        "␣ (2)",
        "é 1/2",
        "é 2/2",
        "␣ (3)",
        "&",
        "␣ (4)",
        "U+200B 1/3",
        "U+200B 2/3",
        "U+200B 3/3",
        "U+0007",
        "</s>",
    )
    assert tokens.words == (0,) * 9 + (1,) * 3 + (2,) * 2 + (3,) * 5 + (4,)
    ids = [text.pieces.index(piece) for piece in ("<0x9F>", "<0xF0>", "<0xF0>")]
    assert text.tokens(ids).labels == ("<0x9F>", "<0xF0>", "<0xF0> (2)")  # that make no character
    assert text.decode(ids) == "\ufffd" * 3
    assert text.tokens([9999]).labels == ("#9999",)  # beyond the vocabulary
    assert text.decode([9999]) == ""


def test_repeated_pieces_are_numbered_and_words_give_up_their_marks(text):
    tokens = text.tokens(text.target_ids("the cat the the"))
    assert tokens.labels[0] == "<s>"
    numbered = [label for label in tokens.labels if label.startswith("the")]
    assert numbered == ["the", "the (2)", "the (3)"]
    assert tokens.special == (True,) + (False,) * (len(tokens) - 1)
    tokens = text.tokens(text.source_ids("The animal didn't cross, (the street)."))
    groups: dict[int, str] = {}
    for piece, word in zip(tokens.pieces, tokens.words, strict=True):
        groups[word] = groups.get(word, "") + piece.replace("▁", "")
    words = ["The", "animal", "didn't", "cross", ",", "(", "the", "street", ")", ".", "</s>"]
    found = [group.replace("<0x28>", "(").replace("<0x29>", ")") for group in groups.values()]
    assert found == words
    assert list(groups) == list(range(len(groups)))


def test_vocabularies_of_other_special_tokens_and_from_files(
    text, make_vocabulary, tiny_vocabulary, tmp_path
):
    other = SentencePieceText(tiny_vocabulary, bos_id=0, eos_id=5)
    assert (other.target_ids("cat")[0], other.source_ids("cat")[-1]) == (0, 5)
    assert other.tokens([0, 5]).special == (True, True)
    ids = {"bos_id": -1, "eos_id": 2, "pad_id": -1, "unk_id": 0}
    without = SentencePieceText(make_vocabulary(**ids, byte_fallback=False, vocab_size=60))
    assert without.source_ids("cat")[-1] == 2
    said = "names no start token; say which id it is with bos_id="
    refuses(said, without.target_ids, "cat")
    path = tmp_path / "vocabulary.model"
    path.write_bytes(tiny_vocabulary)
    assert SentencePieceText(path).pieces == text.pieces
    assert len(text.pieces) > 260
    assert text.pieces[:4] == ("<pad>", "<unk>", "<s>", "</s>")
    for content in (b"", b"no model", b"\x00" * 64):
        refuses("The vocabulary is not a sentencepiece model", SentencePieceText, content)
    place = tiny_vocabulary.index("▁".encode())
    spoilt = tiny_vocabulary[:place] + b"\xff\xfe\xff" + tiny_vocabulary[place + 3 :]
    said = r"sentencepiece model \(a piece of it is no UTF-8\)"
    refuses(said, SentencePieceText, spoilt)


# ---- ids typed as numbers --------------------------------------------------------------------


def test_typed_ids_are_taken_as_they_are():
    text = PlainIds(37, target_size=41, pad_id=0, bos_id=2, eos_id=3)
    assert text.source_ids("2 36 3") == text.source_ids("2, 36,3") == [2, 36, 3]
    assert text.target_ids("2 40") == text.prompt_ids("2 40") == [2, 40]
    assert text.decode([2, 36, 40, 3, 0]) == "36 40"
    assert text.tokens([2, 36, 36, 3]) == Tokens(
        ids=(2, 36, 36, 3),
        pieces=("2", "36", "36", "3"),
        labels=("2", "36", "36 (2)", "3"),
        words=(0, 1, 2, 3),
        special=(True, False, False, True),
    )
    assert (len(text.pieces), text.pieces[40]) == (41, "40")
    assert text.lost("🙂") == ()
    # an empty text is the end or the start
    assert (text.source_ids(" "), text.target_ids("")) == ([3], [2])
    said = r"The text is empty\. This model has no vocabulary: type"
    refuses(said, PlainIds().source_ids, "")
    assert PlainIds().source_ids("99999") == [99999]
    for typed, said in (
        ("2 cat 3", "'cat' is no token id. This model has no vocabulary: type token ids such as"),
        ("2 -4", "'-4' is no token id."),
        ("1.5", "'1.5' is no token id."),
        ("٣", "'٣' is no token id."),
        ("37", "The id 37 is too large. This model has no vocabulary: type token ids such as 2 45"),
        ("2 99", "2 45 3, each from 0 to 36."),
    ):
        refuses(re.escape(said), text.source_ids, typed)


# ---- Hugging Face ----------------------------------------------------------------------------


class Wrapped:
    """A stand-in with the part of a transformers tokenizer that we use; one id a piece."""

    unk_token_id = 0

    def __init__(self, pieces, split, join, end=None, specials=(0,)):
        self._pieces, self._split, self._join = pieces, split, join
        self.eos_token_id, self.all_special_ids = end, list(specials)
        self.busy = threading.Lock()

    def __len__(self):
        return len(self._pieces)

    def __call__(self, text=None, text_target=None, add_special_tokens=True):
        assert self.busy.acquire(blocking=False), "two threads at once"
        try:
            cut = self._split(text if text_target is None else text_target)
            ids = [self._pieces.index(p) if p in self._pieces else 0 for p in cut]
            ends = [self.eos_token_id] if add_special_tokens and self.eos_token_id else []
            return {"input_ids": ids + ends}
        finally:
            self.busy.release()

    def convert_ids_to_tokens(self, ids):
        return [self._pieces[i] for i in ids]

    def decode(self, ids):
        return self._join([self._pieces[i] for i in ids])


BYTE_LEVEL = ["<unk>", "<|end|>", "the", "Ġthe", "Ġcat", "s", "Ċ", "##", "ðŁ", "ĻĤ", "Ã©", "."]
WORD_PIECE = ["[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "##the", "##cat", "."]


def test_pieces_of_each_style_read_as_text():
    """As GPT-2 writes, a space is Ġ, a new line Ċ, other bytes stand for themselves or for Ā...;
    as BERT, as those that mark the end of a word, and as those without any mark."""
    for pieces, cut, marks, labels, words, special in (
        (
            BYTE_LEVEL,
            "the Ġcat s Ġthe . Ċ ðŁ ĻĤ Ã©",
            (0, 1),
            ("the", "cat", "s", "the (2)", ".", "↵", "🙂 1/2", "🙂 2/2", "é"),
            (0, 1, 1, 2, 3, 4, 4, 4, 4),
            (),
        ),
        (
            WORD_PIECE,
            "[CLS] the cat ##s . [SEP]",
            (0, 1, 2),
            ("[CLS]", "the", "cat", "s", ".", "[SEP]"),
            (0, 1, 2, 2, 3, 4),
            (0, 5),
        ),
        (
            ["<unk>", "the</w>", "ca", "t</w>", "s</w>"],
            "the</w> ca t</w> s</w>",
            (0,),
            ("the", "ca", "t", "s"),
            (0, 1, 1, 2),
            (),
        ),
        (["<unk>", "a", "b"], "a a b", (0,), ("a", "a (2)", "b"), (0, 1, 2), ()),
    ):
        text = HuggingFaceText(Wrapped(pieces, str.split, "".join, specials=marks))
        tokens = text.tokens(text.source_ids(cut))
        assert tokens.pieces == tuple(cut.split())
        assert (tokens.labels, tokens.words) == (labels, words)
        assert tokens.special == tuple(at in special for at in range(len(tokens))), cut


def test_starts_and_ends_are_the_tokenizer_s_own():
    pieces = ["<unk>", "</s>", "▁the", "▁cat"]
    inner = Wrapped(pieces, lambda t: [f"▁{w}" for w in t.split()], "".join, 1, specials=(0, 1))
    text = HuggingFaceText(inner, start_id=1)
    assert text.source_ids("the cat") == [2, 3, 1]
    assert text.target_ids("the cat") == [1, 2, 3]
    assert text.prompt_ids("the cat") == [2, 3]
    assert text.decode([1, 2, 0, 1]) == "▁the<unk>"
    assert HuggingFaceText(inner).target_ids("the cat") == [2, 3]
    assert text.tokens([2, 1]).special == (False, True)
    assert text.pieces == tuple(pieces)
    assert text.tokens([99]).labels == ("#99",)
    # swallowed characters are said
    inner = Wrapped(["<unk>", "a", "b"], lambda t: list(t.replace("\u200b", "")), "".join)
    assert HuggingFaceText(inner).lost("a\u200bé") == ("U+200B",)


def test_threads_take_turns():
    text = HuggingFaceText(Wrapped(BYTE_LEVEL, list, "".join, specials=(0, 1)))

    def read(_: int) -> None:
        for _ in range(200):
            text.source_ids("the cats")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))


def test_a_real_hugging_face_tokenizer():
    """Byte-level pieces trained in memory, wrapped as transformers would give them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(["the cat sat on the mat, the cat sat"] * 5, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>")
    text = HuggingFaceText(fast)
    typed = "the cat 🙂 sat\x07é"
    ids = text.source_ids(typed)
    tokens = text.tokens([*ids, 0])
    assert text.decode([*ids, 0]) == typed
    assert tokens.labels[0] == "the"
    assert "U+0007" in tokens.labels
    assert any(label.startswith("🙂 1/") for label in tokens.labels)
    assert tokens.labels[-1] == "<|end|>"
    assert tokens.special[-1]
    assert text.prompt_ids(typed) == ids
    assert text.target_ids(typed) == ids
    assert text.lost(typed) == ()
