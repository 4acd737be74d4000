"""What stands beside the weights in a Hugging Face folder: its tokenizer, ways to generate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..preprocessing.hugging_face import without_panics
from .errors import CheckpointError
from .hf_library import plainly
from .reading import read_config

#: Files of which at least one stands where there is a tokenizer.
VOCABULARIES = (
    *("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "tokenizer.model", "source.spm", "spm.model"),
)
GENERATION = "generation_config.json"
MAX_BESIDE = 2**26  # bytes of any file of a tokenizer
WRITTEN = (".json", ".txt", ".model", ".spm", ".bpe", ".vocab", ".jinja")  # how their names end
MAX_GROWTH = 4096  # times its length that a text may grow while it is cut into pieces
MAX_TEMPLATE = 64  # special tokens that a tokenizer may put around one text
MAX_PADDED = 2**16  # tokens to which it may pad one
MAX_EXTRA = 2**20  # of any number of pieces that a tokenizer is told to make up


def open_tokenizer(transformers: Any, folder: Path, size: int | None) -> tuple[Any, str]:
    """The folder's tokenizer, and a sentence where there is one that cannot be opened.

    Raises:
        CheckpointError: a vocabulary larger than the model's.
    """
    if not any((folder / name).is_file() for name in VOCABULARIES):
        return None, ""
    try:
        refuse_growth(folder)
        with without_panics():
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # each tokenizer fails in its own way
        return None, _unread(plainly(error).replace(str(folder), folder.name))
    if set(tokenizer.all_special_ids) >= set(range(len(tokenizer))):
        return None, _unread("it has special tokens and no vocabulary")
    if size is not None and len(tokenizer) > size:
        raise CheckpointError(
            f"The tokenizer has {len(tokenizer):,} pieces, but the model beside it knows {size:,}; "
            "they do not belong together. Take the tokenizer that the model was trained with."
        )
    return tokenizer, ""


def refuse_growth(folder: Path) -> None:
    """Refuse a tokenizer that would fill the memory: with pieces, or with the text as it grows.

    Thirty steps that each write one letter twice make 10^9 letters of one.

    Raises:
        ValueError: says what asks for it.
    """
    for file in folder.iterdir():
        if file.suffix in WRITTEN and file.stat().st_size > MAX_BESIDE:
            raise ValueError(f"{file.name} has more than {MAX_BESIDE:,} bytes")
    words = _json(folder / "tokenizer_config.json")
    for word, value in words.items():
        if "length" not in word and isinstance(value, int) and value > MAX_EXTRA:
            raise ValueError(f"it asks for {word}={value:,}, and {MAX_EXTRA:,} are the most")
    refuse_steps(folder / "tokenizer.json")


def refuse_steps(path: Path) -> None:
    """Refuse a ``tokenizer.json`` whose steps would fill the memory with a short text.

    Raises:
        ValueError: says which do.
    """
    growth = 1
    whole = _json(path)
    for step in _steps([whole.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")]):
        growth *= _growth(step)
        if growth > MAX_GROWTH:
            raise ValueError(f"its steps may make a text {MAX_GROWTH:,} times as long and more")
    added = sum(_added(step) for step in _steps(whole.get("post_processor")))
    if added > MAX_TEMPLATE:
        raise ValueError(
            f"it puts {added:,} special tokens around a text, and {MAX_TEMPLATE} are the most"
        )
    for step in _steps(whole.get("padding")):
        for value in step.values():
            if isinstance(value, int) and value > MAX_PADDED:
                raise ValueError(f"it pads to {value:,} tokens, and {MAX_PADDED:,} are the most")


def _json(path: Path) -> dict[str, Any]:
    """The object in a file of the library's, whose numbers may be endless; empty without one."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """Every object in a part of ``tokenizer.json``, at any depth."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from _steps(inner)


def _growth(step: dict[str, Any]) -> int:
    """How many times as long a text may get in one step."""
    written = step.get("content", step.get("prepend"))
    if step.get("type") in ("Replace", "Prepend") and isinstance(written, str):
        return max(1, len(written))
    return 2 if step.get("type") in ("ByteLevel", "Precompiled") else 1


def _added(step: dict[str, Any]) -> int:
    """How many special tokens one step may put around a text, or a pair of them."""
    if step.get("type") != "TemplateProcessing":
        return 0
    known = step.get("special_tokens")
    tokens = known.values() if isinstance(known, dict) else ()
    widest = max(
        (len(token.get("ids", ())) for token in tokens if isinstance(token, dict)), default=1
    )
    sides = (step.get("single"), step.get("pair"))
    return max(len(side) if isinstance(side, list) else 0 for side in sides) * max(1, widest)


def _unread(reason: str) -> str:
    return f"Its tokenizer cannot be opened ({reason}), so token ids are typed as numbers."


def generation(folder: Path) -> dict[str, Any]:
    """The words of ``generation_config.json``: start and end tokens; empty where there is none."""
    return read_config(folder / GENERATION)


def makes_pairs(tokenizer: Any) -> bool:
    """Whether a tokenizer puts marks of its own around and between two texts."""
    try:
        return int(tokenizer.num_special_tokens_to_add(pair=True)) > 0
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return False  # tokenizers of other makes have no such count; then one text is offered
