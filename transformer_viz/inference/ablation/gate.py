"""Where heads leave an attention, and the gate there: some heads of some copies are exchanged.

A gate sees the torch calls of its thread, as the probe does, and touches no module. It stands
before the output projection: behind it the heads are mixed, and what one could remove there is no
head of the model any more.
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

#: Gets the number of a place and the heads' outputs ``[batch, token, feature]`` there; gives what
#: the projection is to read.
Act = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Place:
    """One attention's output projection.

    ``columns`` ``[feature]`` names the head of each feature that the projection reads; ``weight``
    is its matrix, ``nth`` which of its uses in a pass this is; ``time_first`` where tokens and not
    sentences come first.
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
    """Return a context that hands linear maps to ``handle``, other calls run unchanged.

    Args:
        known: addresses of the matrices that are asked about.
        handle: gets the call (function, arguments, keywords), what it reads, and the address of its
            matrix; returns the result.
    """

    def step(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if func in torch_calls.MULTI_HEAD:  # one opaque call: its body runs under the same mode
            with mode:
                return OPENED[func](*args, **kwargs)
        given = projected(func, args, kwargs, known)
        return func(*args, **kwargs) if given is None else handle(func, args, kwargs, *given)

    mode = InterceptCalls(step)
    return mode


def gate_projections(places: Sequence[Place], batch: int, act: Act) -> InterceptCalls:
    """Return a context in which ``act`` changes what the projections at these places read.

    ``batch`` is how many sequences, copies counted, go through at once.
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
    """What a linear map reads, and where its matrix lies, if that is one of the ``known`` places.

    A matrix is known by the address of its numbers, since some modules turn it anew at each call.
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
    """What a projection reads as ``[batch, token, feature]``."""
    if time_first:
        return x.reshape(-1, batch, x.shape[-1]).transpose(0, 1)
    return x.reshape(batch, -1, x.shape[-1])


def exchanged(x: Tensor, gates: Tensor, stand_in: Tensor, sentences: int) -> Tensor:
    """The heads' outputs with those exchanged that a copy removes.

    Args:
        x: ``[copy * sentence, token, feature]``.
        gates: bool ``[copy, feature]``, true where the stand-in comes.
        stand_in: what comes, broadcast over ``[copy, sentence, token, feature]``.
        sentences: of each copy.
    """
    parts = x.reshape(-1, sentences, *x.shape[1:])
    return torch.where(gates[:, None, None, :], stand_in, parts).reshape(x.shape)
