"""Similarity of one picture and several captions with CLIP or SigLIP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..checkpoints.common.model import Model, Pair
from ..core.trace import Trace
from ..core.trace_parts import read_only
from .token_ids import source_ids
from .tracing import trace

MOST = 256  # captions per call


@dataclass(frozen=True, eq=False)
class Match:
    """Similarity of a picture and captions in a two-tower model.

    Attributes:
        captions: The captions.
        logits: ``[caption]`` float32, cosines scaled and shifted by the model's own parameters
            (``logits_per_image``).
        probabilities: ``[caption]``, softmax over captions (CLIP) or sigmoid of each (SigLIP).
        sigmoid: True for a sigmoid.
        picture: Run of the picture tower.
        texts: Run of the text tower for each caption.
    """

    captions: tuple[str, ...]
    logits: np.ndarray
    probabilities: np.ndarray
    sigmoid: bool
    picture: Trace
    texts: tuple[Trace, ...]


def match(
    model: Model,
    captions: str | Sequence[Any],
    image: Any,
    *,
    keep: Iterable[str] = ("weights",),
    check: bool = True,
) -> Match:
    """Compare a picture with several captions, and capture both towers.

    Args:
        model: Result of ``load(path, part="both")`` for a CLIP or SigLIP model.
        captions: Texts, or lists of token ids; a single text is one caption.
        image: Image, path or bytes of one, or normalized floats ``[channel, height, width]``.
        keep: See `trace`; for the run of each tower.
        check: See `trace`; for the run of each tower.

    Raises:
        ValueError: The model lacks a tower, or caption or picture is missing.
    """
    pair = model.pair
    if pair is None:
        raise ValueError(
            f"The model {model.name!r} has not the two towers of CLIP or SigLIP; open such a model "
            'with load(path, part="both").'
        )
    given = [captions] if isinstance(captions, str) else list(captions)
    if not 0 < len(given) <= MOST:
        raise ValueError(f"Give 1 to {MOST} captions; got {len(given)}.")
    if image is None:
        raise ValueError("Captions are compared with a picture, and none came; give one (image=).")
    assert pair.picture.image is not None
    pixels = pair.picture.image.pixels(image)
    ids = [_filled(pair, _ids(model, caption)) for caption in given]
    logits = _logits(pair, ids, pixels)
    seen = trace(pair.picture, pixels, keep=keep, check=check)
    return Match(
        tuple(c if isinstance(c, str) else " ".join(map(str, c)) for c in given),
        read_only(logits),
        read_only(_probabilities(pair, logits)),
        pair.sigmoid,
        seen,
        tuple(trace(model, one, keep=keep, check=check) for one in ids),
    )


def _ids(model: Model, caption: Any) -> list[int]:
    """Return a caption's ids with its end token, at which CLIP reads the whole caption."""
    given = model.tokenizer.source_ids(caption) if isinstance(caption, str) else caption
    return source_ids(model, given)


def _filled(pair: Pair, ids: list[int]) -> list[int]:
    """Return a caption's ids, padded if the model was trained so."""
    if pair.length is None or pair.pad_id is None:
        return ids
    return [*ids, *[pair.pad_id] * (pair.length - len(ids))]


def _logits(pair: Pair, ids: Sequence[Sequence[int]], pixels: np.ndarray) -> np.ndarray:
    """Return the whole module's ``logits_per_image`` ``[caption]``, one caption at a time."""
    weight = next(pair.whole.parameters())
    picture = torch.as_tensor(pixels, device=weight.device)[None].to(weight.dtype)
    with torch.no_grad():
        found = [
            pair.whole(
                input_ids=torch.tensor([one], device=weight.device), pixel_values=picture
            ).logits_per_image[0, 0]
            for one in ids
        ]
    return torch.stack(found).float().cpu().numpy()


def _probabilities(pair: Pair, logits: np.ndarray) -> np.ndarray:
    """Return probabilities ``[caption]``: softmax over captions, or sigmoid of each."""
    values = torch.tensor(logits.tolist(), dtype=torch.float64, device="cpu")
    found = values.sigmoid() if pair.sigmoid else values.softmax(0)
    return found.float().numpy()
