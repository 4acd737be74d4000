"""Files beside the weights in a Hugging Face folder, and the tokenizer of a model.

A tokenizer is the library's own or another. It serves both sides, or one of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...preprocessing.elsewhere import RemoteTokenizer, maker
from ...preprocessing.fast_tokenizer import FastTokenizer
from ...preprocessing.given_tokenizers import library_vocabulary
from ...preprocessing.hugging_face import HuggingFaceText, needed_size, pieces_of, without_panics
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ...preprocessing.vocabularies import Tables, Vocabularies
from ..common.vocabularies import settled
from ..files.errors import CheckpointError
from ..files.reading import read_config
from ..files.tokenizer_json import read_object, refuse_steps
from .library import plainly
from .parts import vocabulary_size, words_config

#: Files of which a folder with a tokenizer has at least one.
VOCABULARIES = (
    *("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "tokenizer.model", "source.spm", "spm.model"),
)
GENERATION = "generation_config.json"
PARTS = ("decoder", "generator", "text_config")  # parts of a config
MAX_BESIDE = 2**26  # bytes of any file of a tokenizer
WRITTEN = (".json", ".txt", ".model", ".spm", ".bpe", ".vocab", ".jinja")  # suffixes
MAX_NUMBER = 2**20  # of any number that is no length
BASES = ("PreTrainedModel", "PreTrainedTokenizerBase")
MAX_EXTRA = 2**12  # extra pieces that a tokenizer may create: each costs, and T5 has 100


def open_tokenizer(transformers: Any, folder: Path, size: int | None) -> tuple[Any, str]:
    """Return the folder's tokenizer, and a sentence if there is one that cannot be opened.

    Raises:
        CheckpointError: Its vocabulary is larger than the model's.
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
        reason = _own_class(transformers, folder) or plainly(error).replace(
            str(folder), folder.name
        )
        return None, _unread(reason)
    if set(tokenizer.all_special_ids) >= set(range(len(tokenizer))):
        return None, _unread(_empty(tokenizer, folder))
    if size is not None and needed_size(tokenizer) > size:
        raise CheckpointError(
            f"The tokenizer has {len(tokenizer):,} pieces, but the model beside it knows {size:,}; "
            "they do not belong together. Take the tokenizer that the model was trained with."
        )
    return tokenizer, ""


def unused_tokens_note(tokenizer: Any, size: int | None) -> tuple[str, ...]:
    """Return a note on added tokens for which the model has no rows; empty if there are none."""
    if tokenizer is None or size is None or len(tokenizer) <= size:
        return ()
    names = pieces_of(tokenizer)[size:]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"Its tokenizer has added tokens that the model does not know ({shown}); a text with one "
        "of them is refused.",
    )


def refuse_growth(folder: Path) -> None:
    """Refuse a tokenizer that would fill the memory: with pieces, or with the text as it grows.

    Thirty steps that each write one letter twice make 10^9 letters of one.

    Raises:
        ValueError: Names the cause.
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


def _own_class(transformers: Any, folder: Path) -> str:
    """Return the advice for a tokenizer of a class that the library does not have; else empty."""
    try:
        name = read_object(folder / "tokenizer_config.json").get("tokenizer_class")
    except ValueError:
        return ""
    if not isinstance(name, str) or not name.isidentifier() or hasattr(transformers, name):
        return ""
    return f"the library has no {name}; build it with its own code and give it as tokenizer="


def _empty(tokenizer: Any, folder: Path) -> str:
    """Return the reason why a tokenizer has only special tokens.

    The library's class may not read the vocabulary that is there.
    """
    there = [name for name in VOCABULARIES if not name.endswith("_config.json")]
    there = [name for name in there if (folder / name).is_file()]
    if not there:
        return "it has special tokens and no vocabulary"
    return (
        f"{type(tokenizer).__name__} took no pieces from {there[0]}; build the tokenizer that "
        "reads it and give it as tokenizer="
    )


def generation_words(
    module: Any, folder: Path | None, file: Mapping[str, Any], origin: str
) -> tuple[dict[str, Any], str]:
    """Return the options that ``generate`` reads, such as start and end tokens, and their origin.

    They are those of ``generation_config.json``, or of the ``generation_config`` of a model in
    memory. Such options replace all others. Without them the config's are used.

    Args:
        module: The library's model.
        folder: Folder of its files; None for a model in memory.
        file: Content of ``config.json`` itself; the library's config leaves some of it out.
        origin: Origin of the options in ``file``.
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
    """Return the options of the part of a model that writes, if its config has one."""
    named = (config[name] for name in PARTS if isinstance(config.get(name), Mapping))
    found: Mapping[str, Any] = next(named, {})
    return found


def makes_pairs(tokenizer: Any) -> bool:
    """Return True if a tokenizer puts special tokens around and between two texts."""
    try:
        return int(tokenizer.num_special_tokens_to_add(pair=True)) > 0
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return False  # other tokenizers have no such count; then one text is offered


def reads_pairs(tokenizer: Any, kind: str, gives: str) -> bool:
    """Return True if a model reads two texts as one source, as its tokenizer joins them."""
    if kind == "encoder-only":
        return makes_pairs(tokenizer)
    return tokenizer is not None and gives in ("classes", "spans")


def pair_notes(face: Tokenizer, config: Any) -> tuple[str, ...]:
    """Return a note if a model has several token types and its tokenizer makes none."""
    known = getattr(config, "type_vocab_size", None) or 0
    with suppress(ValueError):
        if known > 1 and isinstance(face, HuggingFaceText) and face.pair_ids("a", "a")[1] is None:
            return (
                f"It knows {known} token types and its tokenizer makes none, so both texts of a "
                "pair have type 0, as in transformers. If it was trained with types, add "
                "token_type_ids to model_input_names of the tokenizer.",
            )
    return ()


def of_library(thing: Any) -> bool:
    """Return True if a module or tokenizer in memory belongs to the transformers library."""
    return isinstance(thing, RemoteTokenizer | FastTokenizer) or any(
        base.__module__.startswith("transformers.") and base.__name__ in BASES
        for base in type(thing).__mro__
    )


def largest_vocabulary(config: Any) -> int | None:
    """Return the size of the larger vocabulary of a model, if its config states it."""
    decoder = getattr(config, "decoder", None)
    places = ((config, "tgt_vocab_size"), (config, "decoder_vocab_size"), (decoder, "vocab_size"))
    sizes = [vocabulary_size(config), *(getattr(place, name, None) for place, name in places)]
    return max((size for size in sizes if isinstance(size, int) and size > 0), default=None)


def as_vocabularies(tokenizer: Any) -> tuple[Any, Any]:
    """Return `Vocabularies` for a library tokenizer, others unchanged, and the library's tokenizer.

    The second value is None if the source has no library tokenizer.
    """
    if of_library(tokenizer):
        tokenizer = Vocabularies(library_vocabulary(tokenizer))
    given = tokenizer.of_source if isinstance(tokenizer, Vocabularies) else None
    return tokenizer, given.given if given is not None and of_library(given.given) else None


def tokenizer_of(
    tokenizer: Any, ids: Mapping[str, Any], module: Any, decodes: bool, reads: str
) -> tuple[Tokenizer, tuple[str, ...]]:
    """Return the tokenizer of a model, and notes.

    Args:
        tokenizer: Ours, or `Vocabularies`; None for ids typed as numbers.
        ids: The special ids of the model.
        module: The model of the library.
        decodes: True if it has a decoder beside an encoder.
        reads: Kind of source: ``text``, ``audio`` or ``image``.

    Raises:
        CheckpointError: The vocabularies do not fit the model.
    """
    tables = _tables(module, decodes, reads)
    if tokenizer is None:
        plain: dict[str, Any] = {word: ids.get(word) for word in ("pad_id", "bos_id", "eos_id")}
        plain["end_ids"] = ids.get("end_ids", ())
        advice = "No tokenizer is open for this model"  # there may be one that did not open
        return PlainIds(tables.source, target_size=tables.target, advice=advice, **plain), ()
    # otherwise the library's tokenizer decides how texts begin
    start = ids.get("bos_id") if decodes else None
    return settled(tokenizer, {**ids, "start_id": start}, tables)


def _tables(module: Any, decodes: bool, reads: str) -> Tables:
    """Return the vocabulary sizes of a library model.

    Its families have one vocabulary for both sides. Two have FSMT, Marian without shared
    embeddings, and models combined of two others.
    """
    config = words_config(module.config)
    source, target = vocabulary_size(config), getattr(config, "tgt_vocab_size", None)
    if not decodes:
        return Tables(source)
    if reads != "text":  # the only tokens are those of the target
        return Tables(None, source, True)
    parts: list[Any] = [getattr(config, part, None) for part in ("encoder", "decoder")]
    if all(hasattr(part, "vocab_size") for part in parts):
        source, target = (part.vocab_size for part in parts)
        alike = source == target and parts[0].model_type == parts[1].model_type
        return Tables(source, target, alike)
    if target is not None:  # FSMT
        return Tables(source, target, False)
    written = getattr(config, "decoder_vocab_size", None)
    apart = getattr(config, "share_encoder_decoder_embeddings", True) is False
    return Tables(source, written or source, not apart and written in (None, source))
