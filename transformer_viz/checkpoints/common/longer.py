"""The same weights for longer texts: sinusoidal positions extend beyond any stored table."""

from __future__ import annotations

import copy
import dataclasses
from typing import TypeVar

from torch import nn

from ...model import Transformer
from ...model.positional_encoding import SinusoidalPositions
from . import native
from .model import Model

M = TypeVar("M", bound=nn.Module)


def goes_on(model: Model) -> bool:
    """Return True if a model's position table can be extended without training.

    This needs sinusoidal positions and a single stack: a longer source alone gives a decoder no
    positions to write with.
    """
    module = model.module
    sines = ("sinusoidal", "sinusoidal_halves")
    return (
        isinstance(module, Transformer)
        and model.kind != "encoder-decoder"
        and module.config.positions in sines
        and module.config.score != "location"
    )


def unlimited(model: Model) -> Model:
    """Return the model without a token limit, for reading an input before its length is known.

    Return the model itself if its positions cannot be extended.
    """
    return dataclasses.replace(model, max_tokens=None) if goes_on(model) else model


def longer(model: Model, tokens: int) -> Model:
    """Return a model that reads ``tokens`` tokens and shares all weights with the given one.

    Return the model itself if it reads as many already, or if its positions cannot be extended.
    Callers should show that the model was never trained on such texts.
    """
    module = model.module
    if model.max_tokens is None or tokens <= model.max_tokens or not goes_on(model):
        return model
    assert isinstance(module, Transformer)
    made, config = _twin(module), dataclasses.replace(module.config, max_positions=tokens)
    made.config = config
    first = next(module.parameters())
    for name in ("encoder", "decoder"):
        if hasattr(module, name):
            stack = _twin(getattr(module, name))
            stack.limit, stack.embedding = tokens, _twin(stack.embedding)
            positions = SinusoidalPositions(config).train(stack.training)
            stack.embedding.positions = positions.to(first.device, first.dtype)
            setattr(made, name, stack)
    return dataclasses.replace(model, module=made, calls=native.make_calls(made), max_tokens=tokens)


def _twin(module: M) -> M:
    """Return a shallow copy of a module whose submodules can be replaced."""
    made = copy.copy(module)
    made._modules = dict(module._modules)
    return made
