"""What stands beside the weights in a Hugging Face folder: its tokenizer, ways to generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import CheckpointError
from .hf_library import plainly
from .reading import read_config

#: Files of which at least one stands where there is a tokenizer.
VOCABULARIES = (
    *("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "tokenizer.model", "source.spm", "spm.model"),
)
GENERATION = "generation_config.json"


def open_tokenizer(transformers: Any, folder: Path, size: int | None) -> tuple[Any, str]:
    """The folder's tokenizer, and a sentence where there is one that cannot be opened.

    Raises:
        CheckpointError: a vocabulary larger than the model's.
    """
    if not any((folder / name).is_file() for name in VOCABULARIES):
        return None, ""
    try:
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
        return False
