"""Tokenizers: what a visitor typed stays visible, and every token has a name of its own."""

from __future__ import annotations

import threading
import unicodedata

import pytest
import sentencepiece

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


def test_a_source_ends_and_a_target_starts(text):
    pieces = sentencepiece.SentencePieceProcessor(model_proto=_content(text)).encode("The cat sat.")
    assert text.source_ids("The cat sat.") == [*pieces, END]
    assert text.target_ids("The cat sat.") == [START, *pieces]
    assert text.prompt_ids("The cat sat.") == [START, *pieces]
    assert text.decode([START, *pieces, END, 0]) == "The cat sat."


def _content(text):
    return text._processor.serialized_model_proto()


@pytest.mark.parametrize("blank", ["", "   ", "\n\t "])
def test_white_space_alone_is_the_end_token(text, blank):
    ids = text.source_ids(blank)
    assert ids[-1] == END
    assert (ids == [END]) == (not blank.strip(" "))  # a tab is a character: it stays, as a byte
    assert text.source_ids("") == [END]
    assert text.target_ids("") == [START]


@pytest.mark.parametrize("typed", ODD_TEXTS)
def test_nothing_typed_is_swallowed(text, typed):
    ids = text.source_ids(typed)
    assert text.lost(typed) == ()
    tokens = text.tokens(ids)
    assert tokens.ids == tuple(ids)
    assert len(set(tokens.labels)) == len(ids)
    assert all(label.isprintable() and label.strip() for label in tokens.labels)
    whole = typed.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    spoken = unicodedata.normalize("NFKC", whole)
    assert text.decode(ids) == " ".join(spoken.split(" ")).strip(" ")


def test_typed_marks_are_no_special_tokens(text):
    assert not any(text.tokens(text.source_ids("<s></s><pad>")).special[:-1])


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


def test_bytes_that_make_no_character_stay_bytes(text):
    ids = [text.pieces.index(piece) for piece in ("<0x9F>", "<0xF0>", "<0xF0>")]
    assert text.tokens(ids).labels == ("<0x9F>", "<0xF0>", "<0xF0> (2)")
    assert text.decode(ids) == "\ufffd" * 3


def test_repeated_pieces_are_numbered(text):
    tokens = text.tokens(text.target_ids("the cat the the"))
    assert tokens.labels[0] == "<s>"
    assert [label for label in tokens.labels if label.startswith("the")] == [
        "the",
        "the (2)",
        "the (3)",
    ]
    assert tokens.special == (True,) + (False,) * (len(tokens) - 1)


def test_words_keep_their_pieces_and_give_up_their_marks(text):
    typed = "The animal didn't cross, (the street)."
    tokens = text.tokens(text.source_ids(typed))
    groups: dict[int, str] = {}
    for piece, word in zip(tokens.pieces, tokens.words, strict=True):
        groups[word] = groups.get(word, "") + piece.replace("▁", "")
    words = ["The", "animal", "didn't", "cross", ",", "(", "the", "street", ")", ".", "</s>"]
    assert [
        group.replace("<0x28>", "(").replace("<0x29>", ")") for group in groups.values()
    ] == words
    assert list(groups) == list(range(len(groups)))


def test_a_normaliser_that_swallows_is_caught(make_vocabulary, tiny_vocabulary):
    """nmt_nfkc, sentencepiece's default, drops control and zero-width characters."""
    text = SentencePieceText(make_vocabulary(normalization_rule_name="nmt_nfkc"))
    assert text.lost("The cat\x07 sat\x01\x07 🙂.") == ("U+0007", "U+0001")
    assert text.lost("The cat sat 🙂.") == ()
    assert SentencePieceText(tiny_vocabulary).lost("cat\x07") == ()


def test_unknown_characters_are_visible_without_byte_fallback(make_vocabulary):
    text = SentencePieceText(make_vocabulary(byte_fallback=False, vocab_size=60))
    ids = text.source_ids("cat 🙂 sat")
    tokens = text.tokens(ids)
    at = tokens.labels.index("<unk>")
    assert not tokens.special[at]
    assert "⁇" in text.decode(ids)
    assert text.lost("🙂") == ()


def test_ids_beyond_the_vocabulary_show_their_number(text):
    assert text.tokens([9999]).labels == ("#9999",)
    assert text.decode([9999]) == ""


def test_the_model_may_name_other_special_tokens(text, make_vocabulary, tiny_vocabulary):
    other = SentencePieceText(tiny_vocabulary, bos_id=0, eos_id=5)
    assert (other.target_ids("cat")[0], other.source_ids("cat")[-1]) == (0, 5)
    assert other.tokens([0, 5]).special == (True, True)
    without = make_vocabulary(
        bos_id=-1, eos_id=2, pad_id=-1, unk_id=0, byte_fallback=False, vocab_size=60
    )
    assert SentencePieceText(without).source_ids("cat")[-1] == 2
    with pytest.raises(ValueError, match="names no start token; say which id it is with bos_id="):
        SentencePieceText(without).target_ids("cat")


def test_a_vocabulary_comes_from_a_file_too(text, tiny_vocabulary, tmp_path):
    path = tmp_path / "vocabulary.model"
    path.write_bytes(tiny_vocabulary)
    assert SentencePieceText(path).pieces == text.pieces
    assert len(text.pieces) > 260
    assert text.pieces[:4] == ("<pad>", "<unk>", "<s>", "</s>")


@pytest.mark.parametrize("content", [b"", b"no model", b"\x00" * 64])
def test_what_is_no_vocabulary_is_refused(content):
    with pytest.raises(ValueError, match="The vocabulary is not a sentencepiece model"):
        SentencePieceText(content)


def test_a_piece_that_is_no_text_is_refused(tiny_vocabulary):
    place = tiny_vocabulary.index("▁".encode())
    spoilt = tiny_vocabulary[:place] + b"\xff\xfe\xff" + tiny_vocabulary[place + 3 :]
    with pytest.raises(ValueError, match=r"sentencepiece model \(a piece of it is no UTF-8\)"):
        SentencePieceText(spoilt)


# ---- ids typed as numbers --------------------------------------------------------------------


def plain():
    return PlainIds(37, target_size=41, pad_id=0, bos_id=2, eos_id=3)


def test_typed_ids_are_taken_as_they_are():
    text = plain()
    assert text.source_ids("2 45 3".replace("45", "36")) == [2, 36, 3]
    assert text.source_ids("2, 36,3") == [2, 36, 3]
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


def test_an_empty_text_is_the_end_or_the_start():
    assert plain().source_ids(" ") == [3]
    assert plain().target_ids("") == [2]
    with pytest.raises(ValueError, match=r"The text is empty\. This model has no vocabulary: type"):
        PlainIds().source_ids("")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("2 cat 3", "'cat' is no token id. This model has no vocabulary: type token ids such as"),
        ("2 -4", "'-4' is no token id."),
        ("1.5", "'1.5' is no token id."),
        ("٣", "'٣' is no token id."),
        ("37", "The id 37 is too large. This model has no vocabulary: type token ids such as 2 45"),
        ("2 99", "2 45 3, each from 0 to 36."),
    ],
)
def test_what_is_no_id_is_named(typed, message):
    with pytest.raises(ValueError) as refused:
        plain().source_ids(typed)
    assert message in str(refused.value)
    assert PlainIds().source_ids("99999") == [99999]


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


def byte_level():
    """As GPT-2 writes: a space is Ġ, a new line Ċ, other bytes stand for themselves or for Ā..."""
    pieces = ["<unk>", "<|end|>", "the", "Ġthe", "Ġcat", "s", "Ċ", "##", "ðŁ", "ĻĤ", "Ã©", "."]
    cut = {"the cats the.\n🙂é": ["the", "Ġcat", "s", "Ġthe", ".", "Ċ", "ðŁ", "ĻĤ", "Ã©"]}
    return Wrapped(pieces, lambda t: cut.get(t, list(t)), "".join, specials=(0, 1))


def word_piece():
    pieces = ["[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "##the", "##cat", "."]
    cut = {"the cats.": ["[CLS]", "the", "cat", "##s", ".", "[SEP]"]}
    return Wrapped(pieces, lambda t: cut.get(t, [t]), " ".join, specials=(0, 1, 2))


def test_byte_level_pieces_read_as_text():
    text = HuggingFaceText(byte_level())
    tokens = text.tokens(text.source_ids("the cats the.\n🙂é"))
    assert tokens.pieces[1] == "Ġcat"
    assert tokens.labels == ("the", "cat", "s", "the (2)", ".", "↵", "🙂 1/2", "🙂 2/2", "é")
    assert tokens.words == (0, 1, 1, 2, 3, 4, 4, 4, 4)
    assert not any(tokens.special)


def test_word_pieces_join_to_words():
    text = HuggingFaceText(word_piece())
    tokens = text.tokens(text.source_ids("the cats."))
    assert tokens.labels == ("[CLS]", "the", "cat", "s", ".", "[SEP]")
    assert tokens.words == (0, 1, 2, 2, 3, 4)
    assert tokens.special == (True, False, False, False, False, True)


def test_pieces_that_mark_the_end_of_a_word():
    pieces = ["<unk>", "the</w>", "ca", "t</w>", "s</w>"]
    text = HuggingFaceText(Wrapped(pieces, lambda t: ["the</w>", "ca", "t</w>", "s</w>"], "".join))
    tokens = text.tokens(text.source_ids("x"))
    assert (tokens.labels, tokens.words) == (("the", "ca", "t", "s"), (0, 1, 1, 2))


def test_pieces_without_any_mark_are_words():
    text = HuggingFaceText(Wrapped(["<unk>", "a", "b"], list, "".join))
    assert text.tokens(text.source_ids("aab")).words == (0, 1, 2)
    assert text.tokens(text.source_ids("aab")).labels == ("a", "a (2)", "b")


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


def test_swallowed_characters_are_said():
    def cut(text):
        return [c for c in text if c != "\u200b"]

    text = HuggingFaceText(Wrapped(["<unk>", "a", "b"], cut, "".join))
    assert text.lost("a\u200bé") == ("U+200B",)


def test_threads_take_turns():
    text = HuggingFaceText(byte_level())
    errors = []

    def read():
        try:
            for _ in range(200):
                text.source_ids("the cats")
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


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
