"""Special tokens of a Hugging Face model, and rules for the tokens it writes.

They start, end and pad its texts, or begin a target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ...preprocessing.hugging_face import HuggingFaceText, pieces_of
from ...preprocessing.tokenizers import Tokenizer
from ...preprocessing.vocabularies import Vocabularies
from ..files.errors import CheckpointError

#: Options of the user, beside those of the config.
IDS = ("pad_id", "bos_id", "eos_id", "max_tokens", "forced_bos_token_id", "tgt_lang")
#: Rules of ``generate`` that are not implemented here, and their neutral values.
UNFOLLOWED = {
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "guidance_scale": (1,),
    "return_timestamps": (False,),
    "sequence_bias": (),
    "stop_strings": (),
    "watermarking_config": (),
}
#: Kinds of models whose training moves the last token of a target, its language, to the front.
WRAPPING = ("mbart", "plbart")


def special_ids(
    config: Any,
    generation: Mapping[str, Any],
    tokenizer: Any,
    overrides: Mapping[str, Any],
    *,
    decodes: bool,
    origin: str,
    place: str = "sidecar",
    said: Mapping[str, Any] | None = None,
    size: int | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the special ids of a model, and the origin of each.

    They come from the user, the generation options, the config or the tokenizer. ``pad_id``,
    ``bos_id`` and ``eos_id`` are those of the `Model`; with ``decodes``, ``bos_id`` starts the
    decoder. ``end_ids`` are all tokens that end a text, if there are several.
    ``forced_bos_token_id`` must be the first token of a decoder (the language of mBART). A padding
    token equal to the end token is dropped: an end token inside a text must stay visible.

    Args:
        config: The library's config.
        generation: Options of ``generate``, see `side_files.generation_words`.
        tokenizer: The library's, `Vocabularies`, or None.
        overrides: Options of the user, under our names.
        decodes: True if there is a decoder beside an encoder.
        origin: Origin of ``config``.
        place: Origin of ``generation``.
        said: Options of the user, under the config's names.
        size: Size of the larger vocabulary; ids beyond it, as in configs of small models, are left
            out.

    Raises:
        CheckpointError: An override is no id.
    """
    ids, origins = _said(overrides)
    limit = math.inf if size is None else size
    written = (place, generation.get)
    places = (
        ("override", (said or {}).get),
        written,
        (origin, lambda name: getattr(config, name, None)),
        ("sidecar", lambda name: _of_tokenizer(tokenizer, name)),
    )
    starts = ("decoder_start_token_id", "bos_token_id") if decodes else ("bos_token_id",)
    for word, names, asked in (
        ("bos_id", starts, places),
        ("pad_id", ("pad_token_id",), places),
        ("forced_bos_token_id", ("forced_bos_token_id",), places[:2]),
    ):
        found = [(_first(ask(name)), where) for where, ask in asked for name in names]
        known = ((token, where) for token, where in found if token is not None and token < limit)
        best = next(known, None)
        if best is not None and word not in ids:
            ids[word], origins[word] = best
    if "eos_id" not in ids:
        named = [
            ([i for i in _listed(ask("eos_token_id")) if i < limit], where) for where, ask in places
        ]
        if silent_end(config, generation) is not None:
            named = named[:2]  # `generate` does not end at the others either
        ends, where = next((one for one in named if one[0]), ([], ""))
        if ends:
            ids["eos_id"], origins["eos_id"] = ends[0], where
        if len(ends) > 1:
            ids["end_ids"], origins["end_ids"] = ends, where
    elif isinstance(ids["eos_id"], list):
        ends = ids["eos_id"]
        ids["eos_id"] = ends[0]
        if len(ends) > 1:
            ids["end_ids"], origins["end_ids"] = ends, "override"
    if ids.get("pad_id") == ids.get("eos_id") and origins.get("pad_id") != "override":
        ids.pop("pad_id", None)
        origins.pop("pad_id", None)
    return ids, origins


def names_start(
    config: Any,
    generation: Mapping[str, Any],
    overrides: Mapping[str, Any],
    said: Mapping[str, Any],
) -> bool:
    """Return True if the decoder's start is named as such, and not only as ``bos_token_id``."""
    if overrides.get("bos_id") is not None:
        return True
    for ask in (said.get, generation.get, lambda name: getattr(config, name, None)):
        if _first(ask("decoder_start_token_id")) is not None:
            return True
        if _first(ask("bos_token_id")) is not None:
            return False
    return False


def silent_end(config: Any, generation: Mapping[str, Any]) -> int | None:
    """Return the config's end token if ``generate`` ignores it.

    Its own options replace the config's, and name none.
    """
    if _listed(generation.get("eos_token_id")):
        return None
    return _first(getattr(config, "eos_token_id", None))


def _of_tokenizer(tokenizer: Any, name: str) -> Any:
    """Return a special id by the library's name for it, from its tokenizers or `Vocabularies`."""
    if isinstance(tokenizer, Vocabularies):
        return tokenizer.named.get(name.replace("_token_id", "_id"))
    return getattr(tokenizer, name, None)


def _said(overrides: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    said = {word: overrides[word] for word in IDS if word in overrides and word != "tgt_lang"}
    for word, value in said.items():
        several = isinstance(value, list | tuple) and word == "eos_id"
        if several and value and len(_listed(value)) == len(value):
            said[word] = list(value)
        elif value is not None and (several or _first([value]) is None):
            raise CheckpointError(f"{word} is a whole number from 0; got {value!r}.")
    return said, dict.fromkeys(said, "override")


def _listed(value: Any) -> list[int]:
    """Return the valid ids of a value that is one id or several."""
    given = value if isinstance(value, list | tuple) else [value]
    return list(dict.fromkeys(i for i in map(_first, given) if i is not None))


def _first(value: Any) -> int | None:
    """Return an id, or the first of several; negative ones mean that there is none."""
    if isinstance(value, list | tuple) and value:
        value = value[0]
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if good else None


def opening(generation: Mapping[str, Any], config: Any, size: int) -> list[list[int]]:
    """Return the ids from which each of Whisper's first tokens is chosen, as in ``generate``.

    They are its language (all of them if none is named), its task, and "no timestamps". Empty if
    the generation options do not state them.

    Args:
        generation: Options of ``generate``.
        config: Config of the model; its ``forced_decoder_ids`` are used if generation has none.
        size: Size of the vocabulary; ids beyond it, which files of small models have, are left out.
    """
    several = generation.get("is_multilingual") is not False
    languages, tasks = (
        words if several and isinstance(words, Mapping) else {}
        for words in map(generation.get, ("lang_to_id", "task_to_id"))
    )
    task, language = (generation.get(word) if several else None for word in ("task", "language"))
    steps: list[Any] = []
    if task is None and language is None:
        pairs = generation.get("forced_decoder_ids")
        pairs = pairs or getattr(config, "forced_decoder_ids", None)
        pairs = pairs if isinstance(pairs, list | tuple) else ()
        listed = [pair for pair in pairs if isinstance(pair, list | tuple)]
        steps = [pair[-1] for n, pair in enumerate(listed, 1) if len(pair) == 2 and pair[0] == n]
    if languages and (language is not None or steps[:1] in ([], [None])):
        steps[:1] = [_language_ids(language, languages)]
    if task is not None or language is not None:
        steps.append(tasks.get(task or "transcribe"))
    untimed = generation.get("no_timestamps_token_id")
    steps = [step for step in steps if step != untimed]
    steps += [] if generation.get("return_timestamps") else [untimed]
    return [chosen for chosen in (_known(step, size) for step in steps) if chosen]


def _language_ids(language: Any, languages: Mapping[str, Any]) -> list[Any]:
    """Return the id of a language given by name or code; all ids if none is given."""
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    named = str(language).lower()
    for name in (named, f"<|{TO_LANGUAGE_CODE.get(named, named)}|>"):
        if name in languages:
            return [languages[name]]
    return list(languages.values())


def writing_rules(generation: Mapping[str, Any], ends: Iterable[int | None]) -> dict[str, Any]:
    """Return the rules of ``generate`` on allowed tokens, as options of the config.

    ``banned_ids`` are never written (Marian's padding), ``banned_first_ids`` not as first token;
    ``banned_words`` are sequences. ``min_length`` counts read tokens too, ``min_new_tokens`` does
    not. ``no_repeat_ngram_size``, ``encoder_no_repeat_ngram_size`` and ``repetition_penalty`` are
    as in the library. Neutral rules are left out.

    Args:
        generation: Options of ``generate``.
        ends: Tokens that end a text; they are never banned alone.
    """
    words = generation.get("bad_words_ids")
    bad = [_known(word) for word in words] if isinstance(words, list) else []
    alone = [ids[0] for ids in bad if len(ids) == 1 and ids[0] not in set(ends)]
    found: dict[str, Any] = {
        "banned_ids": alone + _known(generation.get("suppress_tokens")),
        "banned_first_ids": _known(generation.get("begin_suppress_tokens")),
        "banned_words": [ids for ids in bad if len(ids) > 1],
    }
    sizes = ("no_repeat_ngram_size", "encoder_no_repeat_ngram_size")
    for word in ("min_length", "min_new_tokens", *sizes):
        found[word] = _first(generation.get(word))
    penalty = generation.get("repetition_penalty")
    if isinstance(penalty, int | float) and not isinstance(penalty, bool):
        found["repetition_penalty"] = float(penalty) if 0 < penalty < math.inf else 1.0
    if found.get("repetition_penalty") == 1:
        del found["repetition_penalty"]
    return {word: given for word, given in found.items() if given}


def unfollowed_rules(generation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rules of ``generate`` that change its output and are not implemented here."""
    for word, idle in UNFOLLOWED.items():
        value = generation.get(word)
        if value is not None and value not in idle:
            yield word


def _known(given: Any, size: float = math.inf) -> list[int]:
    """Return the given ids, one or several, that a vocabulary of this size has."""
    listed = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    numbers = [_first(i) for i in (given if listed else [given])]
    return [i for i in numbers if i is not None and i < size]


def of_language(
    tokenizer: Any, overrides: Mapping[str, Any], model_type: str, *, decodes: bool
) -> Mapping[str, Any]:
    """Return overrides with the id of a language in place of ``tgt_lang``.

    It becomes ``forced_bos_token_id``, as for ``generate``, or ``bos_id`` if the language is the
    start token (mBART before mBART-50). Ids that the user gave win.

    Raises:
        CheckpointError: The tokenizer does not know the language, or the model has no languages.
    """
    if overrides.get("tgt_lang") is None:
        return overrides
    language = overrides["tgt_lang"]
    tongues = decodes and tokenizer is not None and hasattr(tokenizer, "tgt_lang")
    before, after = HuggingFaceText(tokenizer).frame() if tongues else ((), ())
    if not tongues or (tokenizer.tgt_lang is not None and not before and len(after) < 2):
        raise CheckpointError(
            "tgt_lang is for translators whose tokenizer marks a target with its language, as "
            "NLLB, M2M100 and mBART do. Leave it out."
        )
    pieces = pieces_of(tokenizer)
    names = [name for name in (language, f"__{language}__") if name in pieces]
    if not names:
        raise CheckpointError(
            f"The tokenizer has no language {language!r}. Give its code as the tokenizer writes "
            "it, such as deu_Latn, de or de_DE."
        )
    starts = model_type in WRAPPING and not before
    word = "bos_id" if starts else "forced_bos_token_id"
    return {word: pieces.index(names[0]), **overrides}


def text_options(
    ids: Mapping[str, Any], config: Any, *, decodes: bool, start_named: bool, typed: bool
) -> dict[str, Any]:
    """Return the keywords of `HuggingFaceText` that make the tokenizer read as in training.

    Args:
        ids: The special ids.
        config: Config of the language model.
        decodes: True if there is a decoder beside an encoder.
        start_named: True if a start token of the decoder is named.
        typed: True if the model takes token types.
    """
    ends = ids.get("end_ids") or [ids[word] for word in ("eos_id",) if ids.get(word) is not None]
    if not decodes:
        return {"end_ids": ends, "types_count": typed and not hasattr(config, "type_vocab_size")}
    return {
        "framed": True,
        "forced_id": ids.get("forced_bos_token_id"),
        "language_starts": config.model_type in WRAPPING and not start_named,
        "end_ids": ends,
    }


def target_notes(
    face: Tokenizer,
    ids: Mapping[str, Any],
    origins: Mapping[str, str],
    config: Any,
    generation: Mapping[str, Any],
    kind: str,
) -> Iterator[str]:
    """Yield notes on the first tokens of targets, their ends, and unimplemented rules."""
    if kind == "encoder-only":
        return
    if kind == "encoder-decoder" and isinstance(face, HuggingFaceText):
        with suppress(ValueError):  # a tokenizer without targets raises when it reads one
            yield from _languages(face, ids, origins, config)
    if len(ids.get("end_ids", ())) > 1:
        yield f"A text ends with any of the tokens {ids['end_ids']}."
    silent = silent_end(config, generation)
    if silent is not None and ids.get("eos_id") is None:
        yield (
            f"Its config names the end token {silent} and its generation_config none. Like "
            "generate, it goes on to the limit; load it with eos_id= for an end."
        )
    others = list(unfollowed_rules(generation))
    if others:
        yield f"Its generation_config asks for {', '.join(others)}, which is not followed here."


def _languages(
    face: HuggingFaceText, ids: Mapping[str, Any], origins: Mapping[str, str], config: Any
) -> Iterator[str]:
    """Yield notes if tokenizer and generation options disagree on a target's first tokens."""
    before, after = face.frame()
    forced, start = ids.get("forced_bos_token_id"), ids.get("bos_id")
    wraps = config.model_type in WRAPPING and not before and len(after) > 1
    theirs = after[-1] if wraps else before[-1] if before else None
    said = start if wraps else forced
    if origins.get("bos_id" if wraps else "forced_bos_token_id") == "override":
        return
    if not face.languages:
        if forced is not None and theirs not in (None, forced):
            yield _instead(face, forced, before[-1])
        return
    if face.language is None and (said is None or theirs is None) and forced is None:
        taken = "without one" if theirs is None else f"as {_named(face, theirs)}"
        yield (
            "Its tokenizer names no target language, so a given target is read "
            f"{taken}. Say which it is with tgt_lang=."
        )
    elif theirs is not None and wraps and face.opening_ids()[:1] != [start]:
        yield (
            f"A given target starts with {_named(face, theirs)}, and what it writes itself with "
            f"{'nothing' if start is None else _named(face, start)}, as generate does. Say "
            "tgt_lang= to make them one."
        )
    elif theirs is not None and not wraps and forced is None:
        yield (
            f"A given target begins with {_named(face, theirs)}. Nothing makes the model's own "
            "text begin so; say tgt_lang= for that."
        )
    elif theirs is not None and said is not None and said != theirs and face.language is not None:
        yield _instead(face, said, theirs)


def _instead(face: HuggingFaceText, said: int, theirs: int) -> str:
    return (
        f"A target begins with {_named(face, said)}, as its generation_config says, and not with "
        f"{_named(face, theirs)}, as its tokenizer does."
    )


def _named(face: HuggingFaceText, token: int) -> str:
    return face.pieces[token] if token < len(face.pieces) else str(token)
