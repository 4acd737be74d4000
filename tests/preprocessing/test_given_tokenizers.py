"""Tokenizers of any package: each reads the words of its own list, and bad ones are refused."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import sentencepiece
import tokenizers
from tokenizers import models, pre_tokenizers

from tests.support.refusals import refuses
from transformer_viz.preprocessing.given_tokenizers import vocabulary_of
from transformer_viz.preprocessing.special_names import special_tokens
from transformer_viz.preprocessing.vocabularies import Tables, Vocabularies

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "the", "small", "dog", "sees"]
TEXT = "the small dog"
IDS = [WORDS.index(word) for word in TEXT.split()]


class Own:
    """Somebody's class: encode and decode, and nothing that says how many words there are."""

    bos_id, eos_id = 1, 2

    def encode(self, text: str) -> Any:
        return [WORDS.index(word) for word in text.split()]

    def decode(self, ids: Any) -> str:
        return " ".join(WORDS[i] for i in ids)


class Rows(Own):
    """The same with arrays of one row, as tokenizers with return_tensors give them."""

    def encode(self, text: str) -> Any:
        return {"input_ids": np.array([super().encode(text)])}


class Torchtext:
    """A Vocab of torchtext, as far as its own tutorials use it."""

    def __call__(self, words: list[str]) -> list[int]:
        return [WORDS.index(word) for word in words]

    def get_itos(self) -> list[str]:
        return WORDS

    def get_default_index(self) -> int:
        return 3


class Lang:
    """The vocabulary of PyTorch's seq2seq tutorial."""

    def __init__(self):
        self.index2word, self.n_words = dict(enumerate(WORDS)), len(WORDS)


def word_level() -> tokenizers.Tokenizer:
    ids = {word: i for i, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.enable_padding(length=9)  # what pads or cuts for training says nothing of a text
    made.enable_truncation(2)
    return made


def pieces() -> sentencepiece.SentencePieceProcessor:
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS[4:])] * 30),
        model_writer=made,
        model_type="word",
        vocab_size=len(WORDS),
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())


GIVEN: dict[str, Any] = {
    "a list": WORDS,
    "words to ids": {word: i for i, word in enumerate(WORDS)},
    "ids to words": dict(enumerate(WORDS)),
    "ids of JSON": {str(i): word for i, word in enumerate(WORDS)},
    "ids of NumPy": {word: np.int64(i) for i, word in enumerate(WORDS)},
    "a class": Own(),
    "arrays": Rows(),
    "torchtext": Torchtext(),
    "index2word": Lang(),
    "tokenizers": word_level(),
}


def test_each_kind_reads_and_names_the_words_of_its_list():
    for name, given in GIVEN.items():
        found = vocabulary_of(given)
        text = found.make({})
        assert text.source_ids(TEXT) == IDS, name
        assert text.tokens(IDS).labels == tuple(TEXT.split()), name
        assert text.decode([1, *IDS, 2]) == TEXT, name
        assert (found.named["bos_id"], found.named["eos_id"]) == (1, 2), name
        settled = found.make({"bos_id": 7, "eos_id": 2})
        assert settled.target_ids(TEXT)[0] == 7, name  # what the model says wins
        assert settled.tokens([7]).special == (True,), name
    processor = pieces()
    found = vocabulary_of(processor)
    text = found.make({})
    assert text.source_ids(TEXT) == [*processor.encode(TEXT), 2]
    assert dict(found.named) == {"pad_id": 0, "bos_id": 1, "eos_id": 2}
    assert text.target_ids(TEXT) == [1, *processor.encode(TEXT)]


def test_bytes_of_a_vocabulary_that_knows_no_words_are_shown_as_text():
    class Tiktoken:
        n_vocab, eot_token = 5, 4
        table = (b"the", b" dog", b"\xc3", b"\xa9", b"<|end|>")

        def encode(self, text: str) -> list[int]:
            return {"the dog": [0, 1], "é": [2, 3]}[text]

        def decode(self, ids: list[int]) -> str:
            return b"".join(self.table[i] for i in ids).decode(errors="replace")

        def decode_single_token_bytes(self, token: int) -> bytes:
            return self.table[token]

    found = vocabulary_of(Tiktoken())
    text = found.make({})
    assert text.tokens([0, 1, 2, 3]).labels == ("the", "dog", "é 1/2", "é 2/2")
    assert (found.size, dict(found.named)) == (5, {"eos_id": 4})
    said = r"encode of the tokenizer Tiktoken failed at 'x' \(KeyE"
    refuses(said, text.source_ids, "x")


def test_words_are_split_looked_for_in_lower_case_and_refused_by_name():
    text = vocabulary_of(WORDS).make({})
    assert text.source_ids("The dog, sees</s>!") == [4, 6, 3, 7, 3, 3, 3, 3, 3]
    assert text.source_ids("<s> the dog </s>") == [1, 4, 6, 2]
    assert text.target_ids("<s> the") == text.target_ids("the") == [1, 4]
    without = vocabulary_of(["don't", "stop", "."]).make({})
    assert without.source_ids("Don't stop.") == [0, 1, 2]
    said = r"The word 'go' is not in the vocabulary of 3 words"
    refuses(said, without.source_ids, "don't go")
    assert vocabulary_of(["▁the", "dog</w>"]).make({}).source_ids("The dog") == [0, 1]
    letters = vocabulary_of({c: i for i, c in enumerate("ab \n")}).make({})
    assert letters.source_ids("ab ba\n") == [0, 1, 2, 1, 0, 3]
    assert letters.decode([0, 1, 2, 1]) == "ab b"
    gaps = vocabulary_of({"a": 0, "dog": 3}).make({})
    assert gaps.tokens([0, 1, 3]).labels == ("a", "#1", "dog")


def test_special_tokens_are_known_by_their_names():
    for words, found in {
        "[PAD] [UNK] [CLS] [SEP] [MASK] x": {"pad": 0, "unk": 1, "bos": 2, "eos": 3, "mask": 4},
        "<blank> <go> x <|endoftext|>": {"pad": 0, "bos": 1, "eos": 3},
        "SOS EOS x": {"bos": 0, "eos": 1},
        "[CLS] <bos> </s> [SEP] EOS": {"bos": 1, "eos": 2},
        "_PAD _GO _EOS _UNK x": {"pad": 0, "bos": 1, "eos": 2, "unk": 3},
        "start end pad s the": {},
    }.items():
        assert special_tokens(words.split()) == found, words


class Words(Own):
    def encode(self, text: str) -> Any:
        return text.split()


class Two(Own):
    def encode(self, text: str, other: str) -> Any:  # type: ignore[override]
        return []


class Breaks(Own):
    def encode(self, text: str) -> Any:
        raise RuntimeError("boom")


class Known(Own):
    def decode(self, ids: Any) -> Any:
        return 5

    def encode(self, text: str) -> list[int]:
        return [4]


def test_what_is_no_tokenizer_is_refused_in_words():
    for given, said in (
        (5, "int 5; expected an object with encode and decode"),
        (b"ab", "bytes b'ab'; expected"),
        (object(), "of the class object; expected"),
        (len, "builtin_function_or_method; expected"),
        (Own, "is the class Own; give an object of it"),
        (Words(), r"encode of Words gave a list of str \('a' ...\); expected a list of token ids"),
        (Two(), "failed .*missing 1 required positional argument"),
        (Breaks(), r"encode or decode of Breaks failed \(boom\)"),
        (Known(), "decode of Known gave int; expected a text"),
        ([], "this one is empty"),
        ([1, 2], r"this one holds int \(1\)"),
        ([["a"]], "this one holds list"),
        ({}, "got nothing"),
        ({"a": "b"}, "from words to ids, or from ids to words"),
        ({"a": 1.5}, "from words to ids"),
        ({"a": True}, "from words to ids"),
        ({"a": -1}, "from words to ids"),
        ({"a": 0, "b": 0}, "have the same id 0"),
        ({"a": 10**9}, "at most 4,194,304 words"),
    ):
        refuses(f"(?s)^target_tokenizer= .*{said}", vocabulary_of, given, "target_tokenizer")


def test_a_vocabulary_serves_both_sides_only_where_the_model_shares_its_table():
    one = vocabulary_of(WORDS)
    for tables, ids_alone in {
        Tables(8, 8, True): False,
        Tables(8, 8, False): True,
        Tables(8, 9, False): True,
        Tables(8): False,
    }.items():
        text, note = Vocabularies(one).settle({}, tables)
        labels = getattr(text, "target", text).tokens([4]).labels
        assert (labels == ("4",)) == ids_alone == ("target_tokenizer=" in note), tables
    assert Vocabularies(one, one).settle({}, Tables(8, 8, False))[1] == ""
    both = Vocabularies(one, vocabulary_of(WORDS))
    refuses("has 8 pieces, but the model knows 7", Vocabularies(one).settle, {}, Tables(7))
    refuses("this model has one side only", both.settle, {}, Tables(8))
