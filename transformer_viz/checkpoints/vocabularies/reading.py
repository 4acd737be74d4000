"""Files that hold a vocabulary: recognised by their content, read safely.

For untrusted checkpoints they are read in another process (`Maker.vocabulary`).
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...preprocessing.elsewhere import maker
from ...preprocessing.fast_tokenizer import FastTokenizer
from ...preprocessing.hugging_face import without_panics
from ...preprocessing.tokenizers import processor
from ...preprocessing.word_tables import WordTable, word_table
from ..files.errors import CheckpointError, CheckpointMissing
from ..files.plain_pickle import MAX_PICKLE, parse_plain_pickle
from ..files.strict_json import parse
from ..files.tokenizer_json import refuse_steps
from .dictionaries import MAX_WORDS, SPECIAL, bounded_bytes, fairseq_words_of, read_byte_pairs

PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin")
FAIRSEQ = re.compile(r"dict\b.*")  # fairseq's names of its lists: dict.en.txt
NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
COUNTED = re.compile(rf"(\S.*?)[ \t]+({NUMBER})")
NUMBERED = re.compile(r"(\d+)[ \t]+(\S+)")
ROLE_FILES = ("special_tokens_map.json", "tokenizer_config.json")
ROLES = ("pad", "bos", "eos", "unk", "mask", "cls", "sep")
KINDS = (
    "a sentencepiece model, tokenizer.json, vocab.txt or vocab.json, a list with a word on each "
    "line, or JSON of words"
)


def read_vocabulary(path: Path) -> Any:
    """Return the content of a vocabulary file, for :func:`vocabulary_of`.

    Returns:
        A sentencepiece processor, a tokenizer with the methods of the transformers library, or a
        `WordTable`.

    Raises:
        CheckpointMissing: There is no such file.
        CheckpointError: It holds no vocabulary, or one that could run code; states what is wrong.
    """
    if not path.is_file():
        raise CheckpointMissing(f"There is no vocabulary file {str(path)!r}; give one of {KINDS}.")
    made = maker()
    if made is None:
        return read_here(path)
    answer = made.vocabulary(path)
    return WordTable.of_plain(answer) if isinstance(answer, dict) else answer


def read_here(path: Path) -> Any:
    """Return the content of a vocabulary file, read in this process."""
    try:
        return _read(path, bounded_bytes(path, MAX_WORDS))
    except CheckpointError as error:
        named = str(error)
        raise (error if path.name in named else CheckpointError(f"{path.name}: {named}")) from error
    except (ValueError, OSError) as error:
        raise CheckpointError(f"{path.name} cannot be read as a vocabulary. {error}") from error


def _read(path: Path, content: bytes) -> Any:
    if path.suffix in PICKLES:
        return _pickled(path, content)
    text = None
    with suppress(UnicodeDecodeError):
        text = content.decode("utf-8-sig")
    if text is None or "\0" in text or path.suffix in (".model", ".spm"):
        return processor(content)
    begin = text.lstrip()[:1]
    if path.suffix == ".json" or (begin == "{" and text.rstrip().endswith("}")):
        return _json(path, content.lstrip(), begin)
    lines = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if {"[CLS]", "[SEP]"} <= set(lines) and any(line.startswith("##") for line in lines):
        return _word_pieces(path, lines)
    counted = all(COUNTED.fullmatch(line.rstrip()) for line in lines if line.strip())
    named = {line.split(" ")[0] for line in lines}
    if FAIRSEQ.fullmatch(path.name) and counted and named.isdisjoint(SPECIAL[:3]):
        return _table([*SPECIAL, *fairseq_words_of(path)])
    return _table(_lines(lines))


def _table(words: Any) -> WordTable:
    found = word_table(words)
    assert found is not None
    return found


# ---- lists -------------------------------------------------------------------------------------


def _lines(lines: Sequence[str]) -> Any:
    """Return the words of a list with one on each line, perhaps with its count or its id.

    Raises:
        ValueError: A line has several words, or none; states which.
    """
    if not lines:
        raise ValueError(f"It is empty; expected {KINDS}.")
    counted = [COUNTED.fullmatch(line.rstrip()) for line in lines]
    if all(counted):
        words = [found[1] for found in counted if found]
        numbers = [found[2] for found in counted if found]
        if _are_ids(numbers):
            return {word: int(number) for word, number in zip(words, numbers, strict=True)}
        return words
    numbered = [NUMBERED.fullmatch(line.rstrip()) for line in lines]
    if all(numbered) and _are_ids([found[1] for found in numbered if found]):
        return {int(found[1]): found[2] for found in numbered if found}
    words = [line if line.isspace() else line.rstrip(" \t") for line in lines]
    odd = next((n for n, w in enumerate(words) if not w or (" " in w.strip() or "\t" in w.strip())),
               None)  # fmt: skip
    if odd is not None:
        held = "is empty" if not words[odd] else f"holds several words ({words[odd][:40]!r})"
        raise ValueError(
            f"Line {odd + 1} {held}; a list of words has one on each line, alone or with its count "
            "or id."
        )
    return words


def _are_ids(numbers: Sequence[str]) -> bool:
    """Return True if the numbers are ids of words: 0, 1, 2 ... in any order."""
    if not all(number.isdecimal() for number in numbers):
        return False
    return sorted(map(int, numbers)) == list(range(len(numbers)))


def _json(path: Path, content: bytes, begin: str) -> Any:
    """Return a ``tokenizer.json``, or a list or dictionary of words."""
    if begin == "[":
        return _table(parse(b'{"words": ' + content + b"}", path.name)["words"])
    words = parse(content, path.name)
    if isinstance(words.get("model"), dict) and "vocab" in words["model"]:
        return _fast(path)
    merges = path.with_name("merges.txt")
    if path.name == "vocab.json" and merges.is_file() and any("Ġ" in word for word in words):
        return read_byte_pairs(path.parent, (path.name, merges.name))
    return _table(words)


def _pickled(path: Path, content: bytes) -> Any:
    """Return words in a file of torch.save or pickle that holds plain data only.

    Raises:
        CheckpointError: It holds objects, such as a Vocab of torchtext.
    """
    if content.startswith(b"PK"):
        with zipfile.ZipFile(path) as opened:
            inner = [one for one in opened.infolist() if one.filename.endswith("/data.pkl")]
            if len(inner) != 1 or inner[0].file_size > MAX_PICKLE:
                raise ValueError("It is no file of torch.save with a vocabulary in it.")
            content = opened.read(inner[0])
    try:
        found = parse_plain_pickle(content, path)
    except CheckpointError as error:
        raise CheckpointError(
            f"{path.name} holds objects such as a Vocab of torchtext, and opening them could run "
            "code. Save the words alone: json.dump(vocab.get_itos(), open('source.json', 'w'))."
        ) from error
    return _table(found)


# ---- tokenizers of the library -----------------------------------------------------------------


def _fast(path: Path) -> FastTokenizer:
    """Return the tokenizer of a ``tokenizer.json``."""
    from tokenizers import Tokenizer

    refuse_steps(path)
    with _plain_errors(path):
        return FastTokenizer(Tokenizer.from_file(str(path)), roles_beside(path.parent))


def _word_pieces(path: Path, lines: Sequence[str]) -> FastTokenizer:
    """Return BERT's tokenizer from its ``vocab.txt``."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    ids = {word: number for number, word in enumerate(lines)}
    settings = _object(path.with_name("tokenizer_config.json"))
    cased = any(word.isalpha() and word != word.lower() for word in ids)
    lower = settings.get("do_lower_case", not cased)
    with _plain_errors(path):
        inner: Any = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        inner.normalizer = normalizers.BertNormalizer(lowercase=bool(lower))
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.decoder = decoders.WordPiece()
        ends = ("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"])
        inner.post_processor = processors.BertProcessing(*ends)
        return FastTokenizer(inner, roles_beside(path.parent))


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Convert errors of the package tokenizers into a `CheckpointError`."""
    try:
        with without_panics():
            yield
    except Exception as error:  # the library raises plain Exceptions
        reason = str(error).partition("\n")[0][:100].rstrip(". ")
        raise CheckpointError(
            f"{path.name} is no sound vocabulary ({reason}). Save it again."
        ) from error


def roles_beside(folder: Path) -> dict[str, str]:
    """Return the special tokens by role from ``special_tokens_map.json`` and similar files."""
    found: dict[str, str] = {}
    for name in ROLE_FILES:
        held = _object(folder / name)
        for role in ROLES:
            token = held.get(f"{role}_token")
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                found.setdefault(role, token)
    return found


def _object(path: Path) -> dict[str, Any]:
    """Return the object in a small JSON file; empty if there is none."""
    if not path.is_file() or path.stat().st_size > MAX_WORDS:
        return {}
    with suppress(ValueError, RecursionError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
