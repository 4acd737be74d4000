"""What a Hugging Face model returned: which of its parts are the maps, also those of generate()."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .layers import NOTHING, is_steps

#: Parts of an output object that hold maps of a single stack, and of two.
LONE, PAIR = "attentions", ("encoder_attentions", "decoder_attentions", "cross_attentions")
#: Parts of models that are two models side by side, such as CLIP.
INNER = ("text_model_output", "vision_model_output", "language_model_outputs", "vision_outputs")


@dataclass(frozen=True, eq=False)
class Parts:
    """The maps as they came: ``attentions`` of a lone stack or an encoder, and a decoder's own;
    ``beams`` are the rows that a sequence of a beam search went through, a number a step."""

    attentions: Any = None
    cross: Any = None
    decoder: Any = None
    beams: tuple[int, ...] | None = None


def is_output(thing: Any) -> bool:
    """Whether this is what a model returned, and no array and no list."""
    named = hasattr(thing, "to_tuple")  # of the library, also one without any maps
    return hasattr(thing, "keys") and (
        named or any(hasattr(thing, n) for n in (LONE, *PAIR, *INNER))
    )


def parts_of(given: Parts, batch: int | None) -> Parts:
    """The maps of an output object; arrays and lists as they came.

    Raises:
        ValueError: an output without weights, or of two models side by side; says what to give.
    """
    out = given.attentions
    if not is_output(out):
        return given
    encoder, decoder, cross = (_held(out, name) for name in PAIR)
    lone = _held(out, LONE)
    if encoder is not None or decoder is not None:
        found = Parts(encoder, cross, decoder, _beams(out, batch))
    elif lone is not None and cross is not None:  # a decoder that was given an encoder's states
        found = Parts(None, cross, lone, _beams(out, batch))
    elif lone is not None:
        found = Parts(lone, beams=_beams(out, batch))
    else:
        inner = [name for name in INNER if getattr(out, name, None) is not None]
        if inner:
            raise ValueError(
                f"This output holds two models side by side; give the one to look at, such as "
                f"outputs.{inner[0]}."
            )
        raise ValueError(NOTHING.format(what=f"The {type(out).__name__}"))
    return replace(
        found,
        cross=given.cross if given.cross is not None else found.cross,
        decoder=given.decoder if given.decoder is not None else found.decoder,
    )


def _held(out: Any, name: str) -> Any:
    """A part of an output that has weights: models that return none leave it empty."""
    found = getattr(out, name, None)
    if isinstance(found, list | tuple) and all(one is None for one in found):
        return None
    return found


def _beams(out: Any, batch: int | None) -> tuple[int, ...] | None:
    """Which rows of the batch a sequence of a beam search went through, step by step."""
    found = getattr(out, "beam_indices", None)
    if found is None:
        return None
    rows: Sequence[Sequence[int]] = found.tolist()
    if batch is None:
        if len(rows) > 1:
            raise ValueError(
                f"generate() returned {len(rows)} sequences; say which with batch=0 to "
                f"batch={len(rows) - 1}, and give the tokens of that sequence."
            )
        batch = 0
    if not 0 <= batch < len(rows):
        raise ValueError(f"There are {len(rows)} sequences, so batch= is from 0; got {batch}.")
    return tuple(int(row) for row in rows[batch] if row >= 0)


def written(parts: Parts) -> bool:
    """Whether the maps are steps of generate()."""
    return any(is_steps(one) for one in (parts.attentions, parts.decoder, parts.cross))


def sequence_of(encoder: Any, parts: Parts, batch: int | None) -> int | None:
    """Which row of an encoder's batch a sequence of a beam search read: each was run once, and
    its beams stand one after another."""
    if not parts.beams:
        return batch
    steps = parts.decoder if parts.decoder is not None else parts.cross
    return parts.beams[0] * len(encoder[0]) // len(steps[0][0])
