"""Runs of the pages: conversion of a question to the arguments of `trace` and `translate`.

Torch is imported inside, when a run is made.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ...core.errors import TooLongError
from ...core.interventions import Intervention, Pad
from ...core.search_tree import usual_limit
from ...core.sites import Site
from ...core.trace import Trace
from ...i18n import mark, say
from ...preprocessing.images import example_picture
from .query import File, Question
from .task import Task

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...checkpoints.common.eyes import Eyes, Seen
    from ...inference.decoding.read_sources import ReadSources
    from ...inference.generation import Hypothesis
    from ...preprocessing.audio import AudioReader

TOO_LONG = {
    "text": mark(
        "This text has {count:,} tokens and the app takes at most {most:,}. Shorten it, or use "
        "transformer-viz trace for longer texts."
    ),
    "page": mark(
        "This text has {count:,} tokens and this page takes at most {most:,}. Shorten it, or open "
        "Explore, which draws longer ones."
    ),
    "room": mark(
        "This text has {count:,} tokens; of this model there is room for {most:,} here. Shorten it."
    ),
    "picture": mark(
        "This text and its picture have {count:,} tokens and the app takes at most {most:,}. Give "
        "a smaller picture, or use transformer-viz trace for larger ones."
    ),
    "target": mark(
        "This target has {count:,} tokens and the app takes at most {most:,}. Shorten it, or use "
        "transformer-viz trace for longer texts."
    ),
    "array": mark(
        "This array has {count:,} tokens and the app takes at most {most:,}. Shorten it, or use "
        "transformer-viz trace for longer texts."
    ),
}
MAX_TOKENS = 1024  # tokens of a text that every page accepts; the model may accept more
MOST_TOKENS = 32_768  # tokens of a text for which Explore draws tiled maps
EXAMPLE = "house"  # name of the example picture beside a text
AROUND = 6  # maximum number of marker tokens around a picture in a text
KEEP = ("weights", "scores", "hidden")  # data that pages show
LONG = ("tiles",)  # data that Explore shows of a long text
ROWS = {"source": 12, "target": 9}  # random vectors, by sentence

Held = dict[str, Any]


def source_of(model: Model, question: Question, picture: Path | None = None) -> Any:
    """Return the input of the model: text, two texts, a picture, a sound, or vectors.

    Raises:
        ValueError: The file cannot be read, or there is no input.
    """
    if model.takes == "image":
        assert model.image is not None
        given = question.file.content if question.file else picture
        if given is None:
            raise ValueError(say("This model reads a picture; choose one above."))
        return model.image.pixels(given)
    if model.audio is not None:
        return samples(model.audio, question.file)
    if model.takes == "vectors":
        return _vectors(model, question, "source")
    if question.second:
        return question.text, question.second
    return beside(model, question, question.text)


def beside(model: Model, question: Question, text: Any) -> Any:
    """Return a text or ids, together with the question's picture if there is one."""
    if model.eyes is None or not (question.file or question.picture == EXAMPLE):
        return text
    from ...inference.seeing import Pictured

    return Pictured(text, seen(model.eyes, question.file))


def seen(eyes: Eyes, file: File | None) -> Seen:
    """Return an uploaded picture, or the example, as the model sees it.

    Raises:
        ValueError: The file is no picture, or the model cannot read it.
    """
    return _seen(ref(eyes), file)


@lru_cache(maxsize=4)
def _seen(of: ref[Eyes], file: File | None) -> Seen:
    """Return the picture, cached without a strong reference to the eyes, a part of their model."""
    eyes = of()
    assert eyes is not None
    return eyes.look(example_picture() if file is None else file.content)


@lru_cache(maxsize=8)
def samples(reader: AudioReader, file: File | None) -> np.ndarray:
    """Return an uploaded sound, or the example, as model input: float32 ``[sample]``.

    Raises:
        ValueError: The file is no sound, or the model cannot read it.
    """
    found = reader.example() if file is None else reader.samples(file.content)
    found.setflags(write=False)  # the cached array is shared by all
    return found


def as_it_is(path: Path) -> np.ndarray:
    """Return a picture in its original size and colours: uint8 ``[height, width, 3]``."""
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def plain_ids(model: Model, question: Question) -> list[int]:
    """Return the ids of a question's text, or of both its texts, before masking."""
    from ...inference.token_ids import reads_prompt

    goes_on = reads_prompt(model)
    return list(_ids(ref(model.tokenizer), question.text, question.second, goes_on))


@lru_cache(maxsize=16)
def _ids(of: ref[Any], text: str, second: str, goes_on: bool) -> tuple[int, ...]:
    """Return the ids, cached, since each tile of a long text needs their number.

    A weak reference keeps neither the tokenizer nor its process alive.
    """
    tokenizer: Any = of()
    if second:
        return tuple(tokenizer.pair_ids(text, second)[0])
    return tuple((tokenizer.prompt_ids if goes_on else tokenizer.source_ids)(text))


def beginning_of(model: Model, text: str, most: int) -> str:
    """Return the longest beginning of a text with at most ``most`` tokens of the model.

    Raises:
        ValueError: Not even the first word fits.
    """
    from ...inference.long_texts import beginning
    from ...inference.token_ids import reads_prompt

    tokenizer: Any = model.tokenizer
    read = tokenizer.prompt_ids if reads_prompt(model) else tokenizer.source_ids
    return beginning(text, most, lambda part: len(read(part)))


def held_of(model: Model, question: Question, clean: Trace | None, changes: Intervention) -> Held:
    """Return what both runs of a question hold fixed: target ids, produced ids and masks.

    Args:
        clean: The clean run that fixes a changed one; None while the clean one is being made.
    """
    if model.takes == "vectors":
        lone = model.kind != "encoder-decoder"
        return {} if lone else {"target": _vectors(model, question, "target")}
    if clean is None:
        fills = model.kind == "encoder-only" and model.mask_id is not None
        if not fills:
            return {}
        ids = plain_ids(model, question)
        return {"produced": ids, "masked": [n for n in question.masked if n < len(ids)]}
    from ...inference.held_words import held_words

    held: Held = {"masked": question.masked} if question.masked else {}
    return held | held_words(model, clean, changes)


def traced(
    model: Model,
    question: Question,
    picture: Path | None,
    held: Held,
    intervention: Intervention,
    only: Sequence[Site] | None,
    keep: Sequence[str] = KEEP,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
    known: ReadSources | None = None,
) -> Trace:
    """Run the model once with capture; a long text reports its progress.

    Args:
        on_progress: Called for long texts; an exception from it ends the run.
        known: Sources that this server's models have read before.
    """
    from ...inference import tracing
    from ...inference.long_texts.stopping import report_attentions

    source = source_of(model, question, picture)
    options: dict[str, Any] = {"keep": keep, "only": only, "check": False, **held}
    if tuple(keep) != LONG:
        return tracing.traced(model, source, intervention=intervention, known=known, **options)
    length(model, question, intervention, long=True)  # refuses texts that need too much memory
    layers = int(model.config.get("encoder_layers") or model.config.get("decoder_layers") or 1)
    with report_attentions(on_progress, layers):
        made = tracing.trace(model, source, intervention=intervention, **options)
    if made.logits is None or made.logits.ndim == 1:
        return made
    # A vocabulary row per token; Explore reads `produced` instead.
    return dataclasses.replace(made, logits=None)


def may_share(model: Model, source: Any, intervention: Intervention) -> bool:
    """Return True if a search can share passes with others and give the same result."""
    from ...inference.batching.shared_passes import may_share

    return may_share(model, source, intervention)


def search(
    model: Model,
    source: Any,
    beam: int,
    intervention: Intervention,
    task: Task,
) -> Hypothesis:
    """Return the best hypothesis of the model."""
    from ...inference.generation import translate

    return translate(model, source, beam=beam, intervention=intervention, on_progress=task.step)[0]


def length(model: Model, question: Question, intervention: Intervention, long: bool = False) -> int:
    """Return the number of tokens of the longer sentence, appended ones included.

    Args:
        long: True if a text may be longer than most pages accept.

    Raises:
        ValueError: There is no input, or more than the app accepts.
    """
    if model.image is not None:
        return len(model.image.tokens())
    if model.audio is not None:
        return model.audio.frames(len(samples(model.audio, question.file)))
    if model.takes == "vectors":
        return max(len(_vectors(model, question, side)) for side in ROWS)
    tokens = len(plain_ids(model, question))
    given = beside(model, question, "")
    if given and model.eyes is not None:
        patches = len(given.seen.names) + AROUND
        if tokens + patches > MAX_TOKENS:
            raise ValueError(say(TOO_LONG["picture"], count=tokens + patches, most=MAX_TOKENS))
        tokens += patches
    padding = _padding(intervention)
    if is_long(model, question):
        _check_room(model, tokens, padding, long)
        return tokens + padding
    target = len(model.tokenizer.target_ids(question.target)) if question.target else 0
    if tokens > MAX_TOKENS:
        most = min(MAX_TOKENS, model.max_tokens or MAX_TOKENS)
        raise TooLongError(say(TOO_LONG["text"], count=tokens, most=MAX_TOKENS), most - padding)
    _check_length("target", target)
    if tokens + padding > MAX_TOKENS:
        raise ValueError(
            say(
                "This text has {tokens:,} tokens and its padding {padding:,}; the app takes at "
                "most {most:,} in all. Take padding away.",
                tokens=tokens,
                padding=padding,
                most=MAX_TOKENS,
            )
        )
    return max(tokens + padding, target, usual_limit(tokens))


def is_long(model: Model, question: Question) -> bool:
    """Return True if a text is longer than most pages accept and its maps are drawn in tiles.

    Only models with one stack and a single text have tiles.
    """
    lone = model.kind != "encoder-decoder" and model.takes == "text"
    if not lone or model.eyes is not None or question.second:
        return False
    return len(plain_ids(model, question)) > MAX_TOKENS


def _check_room(model: Model, tokens: int, padding: int, long: bool) -> None:
    from ...inference.long_texts import room

    most, count = room(model, MOST_TOKENS), tokens + padding
    if count > most:
        raise TooLongError(say(TOO_LONG["room"], count=count, most=most), most - padding)
    if not long:
        told = say(TOO_LONG["page"], count=count, most=MAX_TOKENS)
        raise TooLongError(told, MAX_TOKENS - padding)


def _check_length(name: str, count: int) -> None:
    if count > MAX_TOKENS:
        raise ValueError(say(TOO_LONG[name], count=count, most=MAX_TOKENS))


def _padding(intervention: Intervention) -> int:
    return sum(edit.count for edit in intervention if isinstance(edit, Pad))


def _vectors(model: Model, question: Question, side: str) -> np.ndarray:
    """Return vectors ``[token, d_model]`` of a file, or random ones; a target is always random."""
    if question.file is not None and side == "source":
        return _of_file(question.file.content)
    width = model.config.get("d_model")
    if not width:
        raise ValueError(
            say("Nobody knows how wide the vectors of this model are; give them as a .npy file.")
        )
    draw = np.random.default_rng([question.seed, list(ROWS).index(side)])
    return draw.standard_normal((ROWS[side], int(width))).astype(np.float32)


def _of_file(content: bytes) -> np.ndarray:
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(
            say(
                "This file holds no numbers that can be read; save an array [token, d_model] with "
                "numpy.save, as a .npy file."
            )
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.ndim != 2:
        raise ValueError(
            say(
                "The file must hold one array of numbers [token, d_model]; got {type} {shape}.",
                type=getattr(array, "dtype", say("several arrays")),
                shape=list(getattr(array, "shape", ())),
            )
        )
    _check_length("array", len(array))
    return array.astype(np.float32)
