"""What stands beside the weights in a Hugging Face folder: its tokenizer, ways to generate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...preprocessing.elsewhere import maker
from ...preprocessing.hugging_face import without_panics
from ..files.errors import CheckpointError
from ..files.reading import read_config
from ..files.tokenizer_json import read_object, refuse_steps
from .library import plainly

#: Files of which at least one stands where there is a tokenizer.
VOCABULARIES = (
    *("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "tokenizer.model", "source.spm", "spm.model"),
)
GENERATION = "generation_config.json"
PARTS = ("decoder", "generator", "text_config")  # of configs, whose words a whole may leave out
MAX_BESIDE = 2**26  # bytes of any file of a tokenizer
WRITTEN = (".json", ".txt", ".model", ".spm", ".bpe", ".vocab", ".jinja")  # how their names end
MAX_NUMBER = 2**20  # of any number that is no length
MAX_EXTRA = 2**12  # pieces that a tokenizer is told to make up: each costs, and T5 has 100


def open_tokenizer(transformers: Any, folder: Path, size: int | None) -> tuple[Any, str]:
    """The folder's tokenizer, and a sentence where there is one that cannot be opened.

    Raises:
        CheckpointError: a vocabulary larger than the model's.
    """
    if not any((folder / name).is_file() for name in VOCABULARIES):
        return None, ""
    made = maker()
    if made is not None:
        return made.library(folder, size)
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
    words = read_object(folder / "tokenizer_config.json")
    for word, value in words.items():
        most = MAX_EXTRA if "extra" in word else MAX_NUMBER
        if "length" not in word and isinstance(value, int) and value > most:
            raise ValueError(f"it asks for {word}={value:,}, and {most:,} are the most")
    refuse_steps(folder / "tokenizer.json")


def _unread(reason: str) -> str:
    return f"Its tokenizer cannot be opened ({reason}), so token ids are typed as numbers."


def generation_words(
    module: Any, folder: Path | None, file: Mapping[str, Any], origin: str
) -> tuple[dict[str, Any], str]:
    """Return the words that ``generate`` reads, such as start and end tokens, and their origin.

    They are those of ``generation_config.json``, or for a model in memory of its
    ``generation_config``; they count alone where there are any. Else they are those of the config.

    Args:
        module: the library's model.
        folder: where its files stand; None for a model in memory.
        file: what ``config.json`` itself said; the library's config leaves some of it out.
        origin: where the words of ``file`` stand.
    """
    if folder is not None and (folder / GENERATION).is_file():
        return read_config(folder / GENERATION), "sidecar"
    own = getattr(module, "generation_config", None)
    if folder is None and own is not None:
        return dict(own.to_dict()), "module"
    config, words = module.config.to_dict(), dict[str, Any]()
    inner = [_part(config), _part(file)]
    for given in (*inner, config, file):
        words |= {word: value for word, value in given.items() if value is not None}
    return words, origin


def _part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the words of the part of a model that writes, where its config has one."""
    named = (config[name] for name in PARTS if isinstance(config.get(name), Mapping))
    found: Mapping[str, Any] = next(named, {})
    return found


def makes_pairs(tokenizer: Any) -> bool:
    """Whether a tokenizer puts marks of its own around and between two texts."""
    try:
        return int(tokenizer.num_special_tokens_to_add(pair=True)) > 0
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return False  # tokenizers of other makes have no such count; then one text is offered
