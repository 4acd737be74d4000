"""Conversion of one input (text, ids, pair, picture, sound, vectors) to tensors and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..checkpoints import load
from ..checkpoints.common.model import Calls, Model
from ..core.interventions import Intervention
from ..core.trace import Trace
from ..core.trace_parts import Tokens
from ..preprocessing.tokenizers import target_side
from .generation import translate, written_ids
from .hearing import Heard, hear
from .proof.mixing import Changed
from .seeing import Beside, see, set_beside
from .token_ids import (
    ids_and_segments,
    padded_source,
    refuse_padding,
    source_ids,
    target_ids,
    target_pieces,
    vocabulary_ids,
)

#: Input of `trace`: a text, two texts, ids, vectors or a normalized picture, a PIL image, a path,
#: or a sound as samples.
Source = Any
Pair = tuple[Tensor, Tensor | None]  # tensors of source and target


@dataclass(frozen=True)
class Read:
    """Prepared input: tensors with a batch of one, and their tokens.

    Attributes:
        source: Tokens of the source.
        target: Tokens of the target.
        tensors: Source, target and mask of the source.
        produced: Tokens whose scores are reported per row, if fixed.
        segments: ``[batch, token]``, text index of each token of a pair.
        beside: Picture within the text, if any.
        prompt: Source tokens before a target was appended.
        masked: Positions of tokens to predict.
    """

    source: Tokens
    target: Tokens | None
    tensors: tuple[Tensor, Tensor | None, Tensor | None]
    produced: tuple[int, ...] | None = None
    segments: Tensor | None = None
    beside: Beside | None = None
    prompt: int | None = None
    masked: tuple[int, ...] = ()

    def through(self, model: Model, calls: Calls | None = None) -> Tensor:
        """Return the model's output for this input; ``calls`` may be those of a similar module."""
        named: dict[str, Any] = {} if self.segments is None else {"segments": self.segments}
        if self.beside is not None:
            named["seen"] = self.beside.seen
        return (calls or model.calls).forward(*self.tensors, **named)


def read_source(
    model: Model,
    source: Source,
    target: Source | None,
    intervention: Intervention,
    produced: Sequence[int] | None,
    masked: Sequence[int] = (),
    image: Any = None,
) -> Read:
    """Return the input as the model reads it; a missing target is decoded greedily.

    ``image`` is a picture beside the text.

    Raises:
        ValueError: The input is of the wrong kind, or does not fit the model.
    """
    if masked and model.mask_id is None:
        raise ValueError(f"The model {model.name!r} has no mask token; leave masked out.")
    if isinstance(source, Mapping):
        raise ValueError(
            f"A text was expected, or its ids; got {type(source).__name__} with "
            f"{', '.join(map(str, source))}. Give the text itself, or "
            'inputs["input_ids"][0].tolist().'
        )
    held = None if produced is None else tuple(int(i) for i in produced)
    if image is not None:
        image = see(model, image)
    if model.takes == "image":
        return _picture(model, source, target, intervention, held)
    if model.takes == "audio":
        return _sound(model, source, target, intervention, produced)
    if isinstance(source, np.ndarray) and source.dtype.kind == "f":
        return _vectors(model, source, target, intervention)
    if model.takes == "vectors":
        raise ValueError(
            f"The model {model.name!r} has no vocabulary and no embeddings: it reads vectors. Give "
            "floats [token, d_model]."
        )
    return _words(model, source, target, intervention, produced, masked, image)


def _words(
    model: Model,
    source: str | Sequence[Any] | np.ndarray,
    target: Source | None,
    intervention: Intervention,
    produced: Sequence[int] | None,
    masked: Sequence[int],
    image: Any,
) -> Read:
    if model.eyes is not None or image is not None:
        ids, beside = set_beside(model, source, image)
        segments = None
    else:
        (ids, segments), beside = ids_and_segments(model, source), None
    ids, prompt = _masked(model, ids, masked), None
    rows: list[int] | None = None
    said: tuple[int, ...] | None = None
    judging = model.kind == "encoder-decoder" and model.gives in ("classes", "spans")
    if target is None:
        if model.kind == "encoder-decoder":
            rows, said = (
                (_echoed(model, ids), None) if judging else _decoded(model, ids, intervention)
            )
    elif model.kind == "encoder-decoder":
        rows = target_ids(model, target)
    elif model.kind == "decoder-only":
        prompt = len(ids)
        ids = source_ids(model, [*ids, *_appended(model, target)])
    else:
        raise _no_decoder(model)
    padded, visible = padded_source(ids, intervention, model.pad_id)
    if judging and rows is not None:  # the decoder reads the source and its padding
        rows = [*rows, *[ids[-1], *padded[len(ids) :]][: len(padded) - len(ids)]]
    mask = (
        None if all(visible) and len(padded) == len(ids) else torch.tensor([visible], device="cpu")
    )
    tokens = _tokens(model, padded)
    return Read(
        tokens if beside is None else beside.named(tokens),
        None if rows is None else target_side(model.tokenizer).tokens(rows),
        (
            torch.tensor([padded], device=model.device),
            None if rows is None else torch.tensor([rows], device=model.device),
            None if mask is None else mask.to(model.device),
        ),
        said if produced is None else _held(model, produced),
        _row(model, segments, len(padded)),
        beside,
        prompt,
        tuple(masked),
    )


def _masked(model: Model, ids: list[int], places: Sequence[int]) -> list[int]:
    """Return the ids with the mask token at these positions."""
    made = list(ids)
    for place in places:
        if model.mask_id is None or not 0 <= place < len(ids):
            raise ValueError(
                f"masked names token {place}, and this source has 0 to {len(ids) - 1}; give one "
                "of these."
            )
        made[place] = model.mask_id
    return made


def _tokens(model: Model, ids: list[int]) -> Tokens:
    """Return the tokens of a source; the mask token is not special, since it replaces a word."""
    tokens = model.tokenizer.tokens(ids)
    if model.mask_id not in ids:
        return tokens
    marks = zip(ids, tokens.special, strict=True)
    return replace(tokens, special=tuple(mark and i != model.mask_id for i, mark in marks))


def _row(model: Model, segments: list[int] | None, length: int) -> Tensor | None:
    if segments is None:
        return None
    return torch.tensor([segments + [0] * (length - len(segments))], device=model.device)


def _held(model: Model, produced: Sequence[int]) -> tuple[int, ...]:
    """Return the ids that the caller assigns to the rows."""
    if model.gives != "words":
        return tuple(int(i) for i in produced)
    return tuple(vocabulary_ids(model, "target", produced))


def _decoded(
    model: Model, ids: list[int] | Heard, intervention: Intervention
) -> tuple[list[int], tuple[int, ...] | None]:
    """Return the decoder's input from greedy decoding, and its rows' outputs if complete.

    The last token is read only if decoding stopped before the end token and a position is left.
    """
    best = translate(model, ids, intervention=intervention)[0]
    rows = [*([] if model.bos_id is None else [model.bos_id]), *best.ids]
    full = model.max_tokens is not None and len(rows) > model.max_tokens
    return (rows[:-1], best.ids) if best.finished or full else (rows, None)


def _echoed(model: Model, ids: list[int]) -> list[int]:
    """Return the decoder input of a classifier: the source, shifted by the start token.

    Raises:
        ValueError: The source lacks the end token at which the classifier reads.
    """
    if model.gives == "classes" and model.eos_id is not None and model.eos_id not in ids:
        raise ValueError(
            f"The classifier of {model.name!r} reads the decoder at the end token, and these ids "
            f"have none; add {model.eos_id} at the end."
        )
    return [model.bos_id or 0, *ids[:-1]]


def _appended(model: Model, target: Any) -> list[int]:
    """Return the ids that a target appends to a decoder-only model's text."""
    if isinstance(target, str):
        return target_pieces(model, target)
    return vocabulary_ids(model, "target", target)


def _picture(
    model: Model,
    source: Any,
    target: Any,
    intervention: Intervention,
    held: tuple[int, ...] | None,
) -> Read:
    """Return a picture as patches, which are the model's tokens."""
    if target is not None:
        raise _no_decoder(model)
    refuse_padding(intervention, "a picture has none")
    if isinstance(source, list | tuple):
        raise ValueError(
            f"The model {model.name!r} reads a picture; got {type(source).__name__}. Give an "
            "image, the path of one, or floats [channel, height, width]."
        )
    assert model.image is not None
    given = Path(source) if isinstance(source, str) else source
    pixels = torch.as_tensor(model.image.pixels(given), device=model.device)[None]
    return Read(model.image.tokens(), None, (pixels, None, None), held)


def _sound(
    model: Model,
    source: Any,
    target: Source | None,
    intervention: Intervention,
    produced: Sequence[int] | None,
) -> Read:
    """Return a sound, whose time frames are the model's tokens; its text is decoded greedily."""
    heard = hear(model, source, intervention)
    if model.kind == "encoder-only":
        if target is not None:
            raise _no_decoder(model)
        asked = None if produced is None else _held(model, produced)
        return Read(heard.tokens, None, (heard.features, None, None), asked)
    said: tuple[int, ...] | None = None
    if target is None:
        rows, said = _decoded(model, heard, intervention)
    else:
        rows = written_ids(model, heard, target)
    return Read(
        heard.tokens,
        target_side(model.tokenizer).tokens(rows),
        (heard.features, torch.tensor([rows], device=model.device), None),
        said if produced is None else _held(model, produced),
    )


def _vectors(model: Model, source: np.ndarray, target: Any, intervention: Intervention) -> Read:
    """Return vectors ``[token, d_model]`` for a model without embeddings; tokens are numbered."""
    if model.kind == "decoder-only" or model.config.get("source_vocab"):
        raise ValueError("This model reads token ids; give text or ids instead of vectors.")
    if target is not None and model.kind == "encoder-only":
        raise _no_decoder(model)
    if target is None and model.kind == "encoder-decoder":
        raise ValueError("Vectors are not decoded; give the target's vectors too: target=array.")
    refuse_padding(intervention, "vectors have none")
    parts: list[Tensor] = []
    for name, array in (("source", source), ("target", target)):
        if array is None:
            continue
        given = isinstance(array, np.ndarray) and array.ndim == 2 and array.size > 0
        if not given or not np.isfinite(array).all():
            raise ValueError(
                f"The {name} must be finite numbers [token, d_model]; got "
                f"{getattr(array, 'shape', type(array).__name__)}."
            )
        _check_width(model, name, array)
        parts.append(torch.as_tensor(array, dtype=torch.float32, device=model.device)[None])
    tokens = [_numbered(part.shape[1]) for part in parts]
    pair = (parts[0], parts[1] if len(parts) > 1 else None, None)
    return Read(tokens[0], tokens[1] if len(tokens) > 1 else None, pair)


def _check_width(model: Model, name: str, array: np.ndarray) -> None:
    width = model.config.get(f"{name}_width") or model.config.get("d_model")
    if width and array.shape[1] != width:
        raise ValueError(
            f"The {name} has vectors of {array.shape[1]} numbers and this model reads {width}; "
            "give floats [token, d_model]."
        )


def _no_decoder(model: Model) -> ValueError:
    return ValueError(f"The model {model.name!r} has no decoder; leave the target out.")


def _numbered(count: int) -> Tokens:
    names = tuple(map(str, range(count)))
    return Tokens((), names, names, tuple(range(count)), (False,) * count)


def model_of(thing: Model | nn.Module) -> Model:
    """Return a model from a model or module; a module that takes ids alone predicts the next id."""
    if isinstance(thing, Model):
        return thing
    if isinstance(thing, Trace):
        raise ValueError(
            "This needs a model to run, and a trace is one run that is over; open the model with "
            "tv.load and give that."
        )
    ready = load(thing)
    words = ready.gives == "words"
    if ready.layout == "module in memory" and ready.kind == "encoder-only" and words:
        return load(thing, kind="decoder-only")
    return ready


def source_and_target(model: Model, sentence: Any) -> tuple[Source, Source | None]:
    """Return source and target of a pair; a source alone has no target.

    A pair model reads two texts as one source.
    """
    pair = isinstance(sentence, tuple) and len(sentence) == 2
    if pair and not model.pairs and not isinstance(sentence[0], int | np.integer):
        return sentence[0], sentence[1]
    return sentence, None


def doubled(read: Read) -> Read:
    """Return a batch of two: the input, and the same with tokens (or columns) reversed."""
    return batch_of(read, [read.tensors[:2], reverse(read)])


def between(read: Read) -> Read:
    """Return a batch of three: the input between two copies of its reverse."""
    return batch_of(read, [reverse(read), read.tensors[:2], reverse(read)])


def reverse(read: Read) -> Pair:
    """Return source and target with tokens (or columns) reversed."""
    source, target = (
        None if x is None else x.flip(-1 if x.dim() != 3 else 1) for x in read.tensors[:2]
    )
    return cast(Tensor, source), target


def batch_of(read: Read, texts: Sequence[Pair]) -> Read:
    """Return a batch of texts, all with the input's mask and segments."""
    source = torch.cat([one for one, _ in texts])
    targets = [other for _, other in texts if other is not None]
    mask, segments = (
        None if x is None else x.repeat(len(texts), *[1] * (x.dim() - 1))
        for x in (read.tensors[2], read.segments)
    )
    tensors = (source, torch.cat(targets) if targets else None, mask)
    return replace(read, tensors=tensors, segments=segments)


def text_of(read: Read, made: Tensor | None, stack: str | None) -> Pair:
    """Return source and target with a stack's tokens replaced by changed ones."""
    source, target, _ = read.tensors
    return (source, made) if stack == "decoder" else (cast(Tensor, made), target)


def joined(read: Read, changed: Sequence[Changed]) -> Read:
    """Return a batch of changed texts, with the original input first and last."""
    own = read.tensors[:2]
    return batch_of(read, [own, *(text_of(read, one.made, one.stack) for one in changed), own])
