"""Stages of a norm: mean, spread, gain and bias."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor, nn

from ..core.stages import Stage
from ..inference.capture_to_numpy import to_numpy
from ..model.normalization import AnnotatedNorm
from .arrays import as_float32, row_of


def norm_stage(norm: nn.Module, block: str, x: Tensor, out: Tensor, row: int) -> Stage:
    """Return the norm stage of one token: input, output, and the steps between in float64.

    Ba et al. 2016; with the unbiased spread for The Annotated Transformer; Zhang and Sennrich 2019
    for ``rms``, which subtracts no mean.
    """
    given = row_of(x, row)
    kind = kind_of(norm)
    numbers = _measured(norm, kind, given.astype(np.float64))
    centred = given.astype(np.float64) - numbers.get("mean", 0.0)
    arrays = {"x": given}
    if kind != "rms":
        arrays["centred"] = as_float32(centred)
    arrays["normal"] = as_float32(centred / numbers["spread"])
    arrays["gain"] = to_numpy(_of(norm).weight)
    if getattr(norm, "bias", None) is not None:
        arrays["bias"] = to_numpy(_of(norm).bias)
    arrays["out"] = row_of(out, row)
    return Stage("norm", block, arrays, numbers, {"norm": kind})


def _of(norm: nn.Module) -> Any:
    return norm


def kind_of(norm: nn.Module) -> str:
    """Return the kind of a norm: ``layer``, ``annotated`` or ``rms``."""
    if isinstance(norm, AnnotatedNorm):
        return "annotated"
    return "rms" if isinstance(norm, nn.RMSNorm) else "layer"


def _measured(norm: nn.Module, kind: str, x: np.ndarray) -> dict[str, float]:
    eps = float(_of(norm).eps)
    mean = 0.0 if kind == "rms" else float(x.mean())
    variance = float(((x - mean) ** 2).sum()) / (len(x) - (kind == "annotated"))
    spread = math.sqrt(variance) + eps if kind == "annotated" else math.sqrt(variance + eps)
    numbers = {"variance": variance, "eps": eps, "spread": spread}
    return numbers if kind == "rms" else {"mean": mean} | numbers
