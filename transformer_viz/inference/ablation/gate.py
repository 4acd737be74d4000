"""Gates in front of output projections, which replace heads in some copies of a batch.

A gate intercepts the torch calls of its thread, as the probe does, and changes no module. It acts
before the output projection, since the projection mixes the heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...capture import torch_calls
from ...capture.handlers.fused_attention import OPENED
from ...capture.torch_function_mode import InterceptCalls
from ...core.sites import Site

#: Takes the index of a projection and the head outputs ``[batch, token, feature]`` there; returns
#: the projection's input.
Act = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Place:
    """Output projection of one attention.

    Attributes:
        site: Attention site.
        heads: Number of heads.
        columns: Head of each input feature of the projection, ``[feature]``.
        weight: Weight matrix of the projection.
        nth: Index of this use of the matrix within a pass.
        time_first: True if the token axis comes before the batch axis.
    """

    site: Site
    heads: int
    columns: Tensor
    weight: Tensor
    nth: int = 0
    time_first: bool = False


def intercept_linear(
    known: Container[int], handle: Callable[[Callable[..., Any], Any, Any, Tensor, int], Any]
) -> InterceptCalls:
    """Return a context that passes linear maps to ``handle``; other calls run unchanged.

    Args:
        known: Addresses of the matrices to intercept.
        handle: Takes the call (function, arguments, keywords), its input and the address of its
            matrix; returns the result.
    """

    def step(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if func in torch_calls.MULTI_HEAD:  # one opaque call: run its body in this mode
            with mode:
                return OPENED[func](*args, **kwargs)
        given = projected(func, args, kwargs, known)
        return func(*args, **kwargs) if given is None else handle(func, args, kwargs, *given)

    mode = InterceptCalls(step)
    return mode


def gate_projections(places: Sequence[Place], batch: int, act: Act) -> InterceptCalls:
    """Return a context in which ``act`` changes the inputs of these projections.

    ``batch`` is the number of sequences in a pass, copies included.
    """
    known: dict[int, list[int]] = {}
    for number, place in enumerate(places):
        known.setdefault(place.weight.data_ptr(), []).append(number)
    uses: Counter[int] = Counter()

    def gate(func: Callable[..., Any], args: Any, kwargs: Any, x: Tensor, matrix: int) -> Any:
        nth = uses[matrix]
        uses[matrix] += 1
        found = [n for n in known[matrix] if places[n].nth == nth]
        if not found:
            return func(*args, **kwargs)
        time_first = places[found[0]].time_first
        changed = act(found[0], by_sentence(x, batch, time_first))
        if time_first:
            changed = changed.transpose(0, 1)
        by = {id(x): changed.reshape(x.shape)}
        return func(*torch_calls.swap(args, by), **torch_calls.swap(kwargs, by))

    return intercept_linear(known, gate)


def projected(
    func: Any, args: Any, kwargs: dict[str, Any], known: Container[int]
) -> tuple[Tensor, int] | None:
    """Return a linear map's input and the address of its matrix, if the matrix is ``known``.

    Matrices are identified by their data address, since some modules transpose them at each call.
    """
    if func in torch_calls.PROJECT:
        first = 0 if func in torch_calls.LINEAR else 1  # addmm names its bias first
    elif func in torch_calls.MATMUL:
        first = 0
    else:
        return None
    given = torch_calls.tensors(args, kwargs)
    if len(given) < first + 2 or given[first + 1].dim() != 2:
        return None
    address = given[first + 1].data_ptr()
    return (given[first], address) if address in known else None


def by_sentence(x: Tensor, batch: int, time_first: bool) -> Tensor:
    """Return the input of a projection as ``[batch, token, feature]``."""
    if time_first:
        return x.reshape(-1, batch, x.shape[-1]).transpose(0, 1)
    return x.reshape(batch, -1, x.shape[-1])


def exchanged(x: Tensor, gates: Tensor, stand_in: Tensor, sentences: int) -> Tensor:
    """Return head outputs with the removed heads of each copy replaced.

    Args:
        x: ``[copy * sentence, token, feature]``.
        gates: Bool ``[copy, feature]``, True where the stand-in is used.
        stand_in: Replacement, broadcast over ``[copy, sentence, token, feature]``.
        sentences: Sentences per copy.
    """
    parts = x.reshape(-1, sentences, *x.shape[1:])
    return torch.where(gates[:, None, None, :], stand_in, parts).reshape(x.shape)
