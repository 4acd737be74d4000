"""Outputs of Hugging Face models: selection of their attention maps, also from generate()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .layers import NOTHING, KeywordNeededError, is_steps
from .numbers import is_array

#: Fields of an output object with the maps of a single stack, and of two.
LONE, PAIR = "attentions", ("encoder_attentions", "decoder_attentions", "cross_attentions")
#: Fields of outputs that contain two models, such as CLIP.
INNER = ("text_model_output", "vision_model_output", "language_model_outputs", "vision_outputs")


@dataclass(frozen=True, eq=False)
class Parts:
    """Maps as given.

    Attributes:
        attentions: Maps of a lone stack or an encoder.
        cross, decoder: Cross-attention and self-attention of a decoder.
        beams: Batch rows of a sequence in a beam search, one per step.
        evidence: Type of a lone stack according to the output, see `stack_evidence`.
    """

    attentions: Any = None
    cross: Any = None
    decoder: Any = None
    beams: tuple[int, ...] | None = None
    evidence: str = ""


def is_output(thing: Any) -> bool:
    """Return True for the output of a model, also as a plain dict, but not for arrays and lists."""
    named = hasattr(thing, "to_tuple")  # an output of the library, with or without maps
    return hasattr(thing, "keys") and (
        named or any(_field(thing, n) is not None for n in (LONE, *PAIR, *INNER))
    )


def _field(out: Any, name: str) -> Any:
    """Return a field of an output object or of a dict, or None."""
    found = getattr(out, name, None)
    return out.get(name) if found is None and isinstance(out, Mapping) else found


def parts_of(given: Parts, batch: int | None) -> Parts:
    """Return the maps of an output object; arrays and lists are unchanged.

    Raises:
        ValueError: An output without weights, or of two models. The message names valid inputs.
    """
    out = given.attentions
    if not is_output(out):
        out = _named(out)
        if out is None:
            return replace(given, evidence=stack_evidence(given.attentions))
    encoder, decoder, cross = (_held(out, name) for name in PAIR)
    lone = _held(out, LONE)
    if encoder is not None or decoder is not None:
        found = Parts(encoder, cross, decoder, _beams(out, batch))
    elif lone is not None and cross is not None:  # a decoder with the states of an encoder
        found = Parts(None, cross, lone, _beams(out, batch))
    elif lone is not None:
        found = Parts(lone, beams=_beams(out, batch), evidence=stack_evidence(out))
    else:
        inner = [name for name in INNER if _field(out, name) is not None]
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


def _named(thing: Any) -> dict[str, Any] | None:
    """Return the maps of a forward pass with ``return_dict=False`` by their names, or None.

    Such an output is a tuple of an array (logits or states) and of tuples with an array per layer,
    in the library's order.
    """
    if not isinstance(thing, list | tuple) or not any(is_array(part) for part in thing):
        return None
    maps = [part for part in thing if isinstance(part, list | tuple) and _has_maps(part)]
    names = {1: (LONE,), 2: (LONE, "cross_attentions"), 3: (*PAIR[1:], PAIR[0])}
    found = names.get(len(maps))
    return None if found is None else dict(zip(found, maps, strict=True))


def _has_maps(part: Sequence[Any]) -> bool:
    """Return True for arrays ``[batch, head, row, column]``, one per layer."""
    layers = [layer for layer in part if layer is not None]
    return bool(layers) and all(is_array(layer) and len(layer.shape) == 4 for layer in layers)


def stack_evidence(out: Any) -> str:
    """Return the type of a lone stack according to its output, apart from the weights.

    ``generated``: always a decoder. ``causal``: the type of causal language models, which CTC
    encoders have too. ``cached``: keys and values for later tokens. Otherwise empty.
    """
    names = " ".join(one.__name__ for one in type(out).__mro__)
    held = _held(out, LONE)
    if "DecoderOnlyOutput" in names or is_steps(out if held is None else held):
        return "generated"
    if "CausalLMOutput" in names:
        return "causal"
    return "cached" if _field(out, "past_key_values") is not None else ""


def _held(out: Any, name: str) -> Any:
    """Return a field of an output with weights, or None: models without weights leave it empty."""
    found = _field(out, name)
    if isinstance(found, list | tuple) and all(one is None for one in found):
        return None
    return found


def _beams(out: Any, batch: int | None) -> tuple[int, ...] | None:
    """Return the batch rows of a sequence in a beam search, by step."""
    found = _field(out, "beam_indices")
    if found is None:
        return None
    rows: Sequence[Sequence[int]] = found.tolist()
    if batch is None:
        if len(rows) > 1:
            raise KeywordNeededError(
                f"generate() returned {len(rows)} sequences; say which with batch=0 to "
                f"batch={len(rows) - 1}, and give the tokens of that sequence."
            )
        batch = 0
    if not 0 <= batch < len(rows):
        raise ValueError(f"There are {len(rows)} sequences, so batch= is from 0; got {batch}.")
    return tuple(int(row) for row in rows[batch] if row >= 0)


def written(parts: Parts) -> bool:
    """Return True if the maps are steps of generate()."""
    return any(is_steps(one) for one in (parts.attentions, parts.decoder, parts.cross))


def sequence_of(encoder: Any, parts: Parts, batch: int | None) -> int | None:
    """Return the row of an encoder's batch that a beam search sequence used.

    The encoder ran once per input, and the beams of an input are consecutive.
    """
    if not parts.beams:
        return batch
    steps = parts.decoder if parts.decoder is not None else parts.cross
    return parts.beams[0] * len(encoder[0]) // len(steps[0][0])
