"""Where heads leave an attention, and the gate there: some heads of some copies are exchanged.

A gate sees the torch calls of its thread, as the probe does, and touches no module. It stands
before the output projection: behind it the heads are mixed, and what one could remove there is no
head of the model any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...capture import torch_calls
from ...capture.handlers.fused_attention import OPENED
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


class Gate(TorchFunctionMode):
    """Lets ``act`` change what the projections at these places read, inside ``with``.

    ``batch`` is how many sequences, copies counted, go through at once.
    """

    def __init__(self, places: Sequence[Place], batch: int, act: Act):
        super().__init__()
        self.places, self.batch, self.act = places, batch, act
        self.known: dict[int, list[int]] = {}
        for number, place in enumerate(places):
            self.known.setdefault(id(place.weight), []).append(number)
        self.uses: Counter[int] = Counter()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in torch_calls.MULTI_HEAD:  # one opaque call; its body is run under the gate
            with self:
                return OPENED[func](*args, **kwargs)
        if func not in torch_calls.PROJECT:
            return func(*args, **kwargs)
        given = projected(func, args, kwargs)
        numbers = None if given is None else self.known.get(id(given[1]))
        if given is None or numbers is None:
            return func(*args, **kwargs)
        x, weight = given
        nth = self.uses[id(weight)]
        self.uses[id(weight)] += 1
        found = [n for n in numbers if self.places[n].nth == nth]
        if not found:
            return func(*args, **kwargs)
        time_first = self.places[found[0]].time_first
        changed = self.act(found[0], by_sentence(x, self.batch, time_first))
        if time_first:
            changed = changed.transpose(0, 1)
        by = {id(x): changed.reshape(x.shape)}
        return func(*torch_calls.swap(args, by), **torch_calls.swap(kwargs, by))


def projected(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    """What a linear map reads, and its matrix."""
    given = torch_calls.tensors(args, kwargs)
    first = 0 if func in torch_calls.LINEAR else 1  # addmm names its bias first
    return (given[first], given[first + 1]) if len(given) > first + 1 else None


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
