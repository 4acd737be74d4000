"""Vocabularies that trainers store beside or inside their checkpoints, read safely.

nanoGPT writes ``meta.pkl``, fairseq ``dict.LANG.txt``, OpenNMT keeps its words in the checkpoint.
GPT-2's own byte-level BPE is ``tokenizer.json``, or ``vocab.json`` with ``merges.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...preprocessing.elsewhere import maker
from ...preprocessing.hugging_face import HuggingFaceText, without_panics
from ...preprocessing.word_list import Characters, WordText, sentencepiece_split
from ..files.errors import CheckpointError
from ..files.plain_pickle import read_plain_pickle
from ..files.tokenizer_json import refuse_steps

MAX_WORDS = 64 * 2**20  # bytes of a list of words
PLAIN_NAME = re.compile(r"[\w-][\w.-]*")  # leads to no other folder
BYTE_PAIRS = (("tokenizer.json",), ("vocab.json", "merges.txt"))
END_OF_TEXT = "<|endoftext|>"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # entries that fairseq puts before the words of a file
UNKNOWN, BLANK = "<unk>", "<blank>"  # OpenNMT's


# ---- characters --------------------------------------------------------------------------------


def characters(folder: Path, dataset: str, size: int) -> Characters | None:
    """Return the characters of nanoGPT's ``meta.pkl`` for a model of ``size`` ids.

    Searched beside the checkpoint, in a subfolder, and in nanoGPT's data folder ``data/DATASET``
    beside the folder. None without such a file.

    Raises:
        CheckpointError: The file holds more than plain data, or characters that do not fit the
            model beside it.
    """
    own = folder / "meta.pkl"
    if own.is_file():
        letters = _characters(own)
        if len(letters) != size:
            raise _stranger(own.name, len(letters), size)
        return Characters(letters)
    named = [Path("data") / dataset, Path(dataset)] if PLAIN_NAME.fullmatch(dataset) else []
    files = [base / name / "meta.pkl" for base in (folder, folder.parent) for name in named]
    files += sorted(folder.glob("*/meta.pkl"))
    lists = (_characters(file) for file in files if file.is_file())
    return next((Characters(letters) for letters in lists if len(letters) == size), None)


def _characters(path: Path) -> list[str]:
    """Return the characters of a ``meta.pkl`` by id."""
    made = maker()
    content = read_plain_pickle(path) if made is None else made.plain_pickle(path)
    stoi = content.get("stoi") if isinstance(content, dict) else None
    if not isinstance(stoi, dict) or not stoi:
        raise CheckpointError(
            f"{path.name} has no dictionary stoi from characters to ids; expected what nanoGPT's "
            "prepare.py writes. Mend or remove it."
        )
    right = all(isinstance(c, str) and len(c) == 1 and type(n) is int for c, n in stoi.items())
    if not right or sorted(stoi.values()) != list(range(len(stoi))):
        raise CheckpointError(
            f"stoi in {path.name} must number single characters from 0 on, each number once. Mend "
            "or remove it."
        )
    return sorted(stoi, key=lambda character: stoi[character])


# ---- GPT-2's byte-level BPE --------------------------------------------------------------------


def byte_pairs(folder: Path, size: int) -> tuple[HuggingFaceText, int | None] | None:
    """Return GPT-2's tokenizer from files beside a checkpoint, and the id of its end of text.

    None without ``tokenizer.json``, or ``vocab.json`` and ``merges.txt``.

    Raises:
        CheckpointError: The files are damaged, or made for more ids than the model has.
    """
    names = next((n for n in BYTE_PAIRS if all((folder / name).is_file() for name in n)), ())
    if not names:
        return None
    for name in names:
        bounded_bytes(folder / name, MAX_WORDS)
    made = maker()
    outer: Any = read_byte_pairs(folder, names) if made is None else made.byte_pairs(folder, names)
    if len(outer) > size:
        raise _stranger(names[0], len(outer), size)
    return HuggingFaceText(outer), outer.eos_token_id


def read_byte_pairs(folder: Path, names: Sequence[str]) -> Any:
    """Return the library's tokenizer from byte-level BPE files in the folder.

    Raises:
        CheckpointError: The files are damaged.
    """
    from transformers import PreTrainedTokenizerFast

    make: Any = PreTrainedTokenizerFast
    try:
        refuse_steps(folder / "tokenizer.json")
        with without_panics():
            inner = _byte_pairs([str(folder / name) for name in names])
        end = inner.token_to_id(END_OF_TEXT)
        return make(tokenizer_object=inner, eos_token=None if end is None else END_OF_TEXT)
    except Exception as error:  # the library raises plain Exceptions
        reason = str(error).partition("\n")[0][:100]
        raise CheckpointError(
            f"{' or '.join(names)} is no vocabulary of byte-level BPE ({reason}). Mend or remove "
            "it."
        ) from error


def _byte_pairs(paths: Sequence[str]) -> Any:
    """Return a tokenizer from its complete file, or from its pieces and merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    if len(paths) == 1:
        return Tokenizer.from_file(paths[0])
    inner: Any = Tokenizer(models.BPE.from_file(*paths))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


# ---- lists of words ----------------------------------------------------------------------------


def fairseq_words(
    folder: Path, langs: Sequence[str], sizes: Sequence[int], joined: bool
) -> WordText | None:
    """Return the words of ``dict.LANG.txt`` for source and target; None if the files are missing.

    ``langs`` and ``sizes`` are those of source and target. If both sides share a vocabulary
    (``joined``), a single ``dict.txt`` or ``dict.LANG.txt`` serves both.

    Raises:
        CheckpointError: A file is damaged, or has more words than the model.
    """
    paths = [folder / f"dict.{lang}.txt" for lang in langs if PLAIN_NAME.fullmatch(lang)]
    if len(paths) != len(langs) or not all(path.is_file() for path in paths):
        alone = sorted(folder.glob("dict*.txt"))
        if len(alone) != 1 or not joined:
            return None
        paths = alone * 2
    lists = [[*SPECIAL, *fairseq_words_of(path)] for path in paths]
    for path, pieces, size in zip(paths, lists, sizes, strict=True):
        if len(pieces) > size:
            raise _stranger(path.name, len(pieces), size)
    split = _splitting(folder)

    def made(pieces: list[str], target: WordText | None = None) -> WordText:
        return WordText(
            pieces,
            unknown=3,
            bos_id=2,
            eos_id=2,
            special=(0, 1, 2),
            ends=True,
            split=split,
            target=target,
        )

    return made(lists[0], made(lists[1]))


def fairseq_words_of(path: Path) -> list[str]:
    """Return the words of a file with a word and its count on each line."""
    words: list[str] = []
    for number, line in enumerate(
        bounded_bytes(path, MAX_WORDS).decode(errors="replace").split("\n")
    ):
        if not line.strip():
            continue
        word, gap, count = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not gap or not count.isdecimal():
            raise CheckpointError(
                f"Line {number + 1} of {path.name} is {line[:40]!r}; expected a word, a space and "
                "a count, as fairseq writes them. Mend or remove the file."
            )
        words.append(word)
    return words


def opennmt_words(vocab: Any, folder: Path, config: Mapping[str, Any]) -> WordText | None:
    """Return the words that OpenNMT-py 3 keeps in its checkpoint: lists under ``src`` and ``tgt``.

    ``config`` are the model's options: sizes, start and end tokens of a target. None if ``vocab``
    has another form.

    Raises:
        CheckpointError: A list has more words than the model.
    """
    if not isinstance(vocab, Mapping):
        return None
    lists: dict[str, Any] = {side: vocab.get(side) for side in ("src", "tgt")}
    if not all(_is_list_of_words(words) for words in lists.values()):
        return None
    for side, word in (("src", "source_vocab"), ("tgt", "target_vocab")):
        if len(lists[side]) > config[word]:
            raise _stranger(f"The list {side} of vocab", len(lists[side]), config[word])
    split = _splitting(folder)

    def made(words: Sequence[str], target: WordText | None = None) -> WordText:
        ids = {word: number for number, word in enumerate(words)}
        return WordText(
            words,
            unknown=ids.get(UNKNOWN, 0),
            bos_id=config["bos_id"],
            eos_id=config["eos_id"],
            special=[ids[mark] for mark in ("<s>", "</s>", BLANK) if mark in ids],
            ends=False,
            split=split,
            target=target,
        )

    return made(lists["src"], made(lists["tgt"]))


def _is_list_of_words(words: Any) -> bool:
    return isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)


def _splitting(folder: Path) -> Callable[[str], list[str]]:
    """Return the word splitter: a lone sentencepiece model beside the weights, or whitespace."""
    models = sorted(path for form in ("*.model", "*.spm") for path in folder.glob(form))
    if len(models) != 1 or not models[0].is_file():
        return str.split
    try:
        return sentencepiece_split(bounded_bytes(models[0], MAX_WORDS))
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{models[0].name}: {error}") from error


def bounded_bytes(path: Path, limit: int) -> bytes:
    """Return the bytes of a file, after checking the size limit of a vocabulary."""
    if path.stat().st_size > limit:
        raise CheckpointError(
            f"{path.name} has {path.stat().st_size:,} bytes; a vocabulary of its kind has at most "
            f"{limit:,}. Remove it."
        )
    return path.read_bytes()


def _stranger(name: str, has: int, size: int) -> CheckpointError:
    return CheckpointError(
        f"{name} has {has:,} entries, but the model beside it knows {size:,}; they do not belong "
        "together. Take the vocabulary that the model was trained with."
    )
