"""The same weights for longer texts: sines and cosines go on beyond any table of them."""

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
    """Whether a model's positions are a table that can be made longer without training: sines, and
    one stack, since a longer source alone gives a decoder nothing to write it down with."""
    module = model.module
    sines = ("sinusoidal", "sinusoidal_halves")
    return (
        isinstance(module, Transformer)
        and model.kind != "encoder-decoder"
        and module.config.positions in sines
        and module.config.score != "location"
    )


def unlimited(model: Model) -> Model:
    """The model as its input is read with, before it is known how long a table that needs; itself
    where its positions do not go on."""
    return dataclasses.replace(model, max_tokens=None) if goes_on(model) else model


def longer(model: Model, tokens: int) -> Model:
    """A model that reads so many tokens and shares all weights with the given one.

    The model itself where it reads as many already, or where its positions do not go on. Whoever
    shows it should say that it was never trained on such texts.
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
    """A module with the same parts, in which a part can be exchanged."""
    made = copy.copy(module)
    made._modules = dict(module._modules)
    return made
