"""The special tokens of a Hugging Face model: which ids start, end and pad its texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...preprocessing.vocabularies import Vocabularies
from ..files.errors import CheckpointError

IDS = ("pad_id", "bos_id", "eos_id", "max_tokens")  # what a user may say, beside the config's words


def special_ids(
    config: Any,
    generation: Mapping[str, Any],
    tokenizer: Any,
    overrides: Mapping[str, Any],
    *,
    decodes: bool,
    origin: str,
    size: int | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """The special ids that a model has, and where each came from.

    They come from the user, ``generation_config.json``, the config or the tokenizer. ``pad_id``,
    ``bos_id`` (what a decoder beside an encoder reads first, where ``decodes``) and ``eos_id`` are
    those of the `Model`; ``forced_bos_token_id`` is what a decoder must write first (the language
    of mBART), ``banned_ids`` what it never writes (Marian's padding). Padding that is the end token
    too is no padding: an end token inside a text must be seen. ``origin`` is where the words of
    ``config`` stand. Ids beyond ``size``, as configs of small models keep them, are left out.

    Raises:
        CheckpointError: an override that is no id.
    """
    ids, origins = _said(overrides)
    places = (("sidecar", generation.get), (origin, lambda name: getattr(config, name, None)),
              ("sidecar", lambda name: _of_tokenizer(tokenizer, name)))  # fmt: skip
    starts = ("decoder_start_token_id", "bos_token_id") if decodes else ("bos_token_id",)
    for word, names in (
        ("bos_id", starts),
        ("eos_id", ("eos_token_id",)),
        ("pad_id", ("pad_token_id",)),
        ("forced_bos_token_id", ("forced_bos_token_id",)),
    ):
        found = [(_first(ask(name)), place) for name in names for place, ask in places]
        known = [one for one in found if one[0] is not None and one[0] < (size or one[0] + 1)]
        best = next(iter(known), None)
        if best is not None and word not in ids:
            ids[word], origins[word] = best
    if ids.get("pad_id") == ids.get("eos_id") and origins.get("pad_id") != "override":
        ids.pop("pad_id", None)
        origins.pop("pad_id", None)
    banned = generation.get("bad_words_ids") or getattr(config, "bad_words_ids", None) or []
    alone = [words[0] for words in banned if isinstance(words, list) and len(words) == 1]
    if alone:
        ids["banned_ids"] = alone
        origins["banned_ids"] = "sidecar" if generation.get("bad_words_ids") else origin
    return ids, origins


def _of_tokenizer(tokenizer: Any, name: str) -> Any:
    """A special id by the library's name for it, of its own tokenizers or of `Vocabularies`."""
    if isinstance(tokenizer, Vocabularies):
        return tokenizer.named.get(name.replace("_token_id", "_id"))
    return getattr(tokenizer, name, None)


def _said(overrides: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    said = {word: value for word, value in overrides.items() if word in IDS}
    for word, value in said.items():
        if value is not None and _first([value]) is None:
            raise CheckpointError(f"{word} is a whole number from 0; got {value!r}.")
    return said, dict.fromkeys(said, "override")


def _first(value: Any) -> int | None:
    """An id, or the first of several; negative ones mean that there is none."""
    if isinstance(value, list | tuple) and value:
        value = value[0]
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if good else None


def opening(generation: Mapping[str, Any], size: int) -> dict[str, list[Any]]:
    """What Whisper's ``generation_config.json`` says about the words that it writes.

    ``opening_ids`` are the ids that each of the first words is chosen from (its language, to
    transcribe, without times), ``banned_ids`` what it never writes, and ``banned_first_ids`` what
    not right after the opening. Empty where the file does not say it.

    Args:
        generation: the file's words.
        size: of the vocabulary; ids beyond it, which files of small models have too, are left out.
    """

    def ids(given: Any) -> list[int]:
        listed = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
        numbers = [_first([i]) for i in (given if listed else [given])]
        return [i for i in numbers if i is not None and i < size]

    several = generation.get("is_multilingual") is not False
    languages, tasks = (
        words if several and isinstance(words, Mapping) else {}
        for words in map(generation.get, ("lang_to_id", "task_to_id"))
    )
    steps = (languages.values(), tasks.get("transcribe"), generation.get("no_timestamps_token_id"))
    found: dict[str, list[Any]] = {
        "opening_ids": [chosen for chosen in map(ids, steps) if chosen],
        "banned_ids": ids(generation.get("suppress_tokens")),
        "banned_first_ids": ids(generation.get("begin_suppress_tokens")),
    }
    return {word: given for word, given in found.items() if given}
