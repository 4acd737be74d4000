"""Where tokens reach each other outside the attentions that are shown.

Each attention that is shown looks at its own token alone, and some tokens are exchanged. A row of
any module's output that is none of theirs must stay what it was; where one changes, something else
mixes tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.pooling import (
    _AdaptiveAvgPoolNd,
    _AdaptiveMaxPoolNd,
    _AvgPoolNd,
    _LPPoolNd,
    _MaxPoolNd,
)

from .kernels import flat

T = TypeVar("T")
MIXED = "Tokens reach each other outside the attentions that are shown"
MOST_TURNS = 16  # calls that are compared with one on the unchanged tokens
DIRECTIONS = 4  # random directions onto which rows are projected to be compared
ROUNDING, FEWEST = 64, 4  # units of the last digit that routing may leave; in half precision
CHUNK = 64  # rows that are widened to float32 at a time
#: What mixes neighbouring tokens and is no attention, and what it is called.
MIXERS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((_ConvNd,), "convolution"),
    (
        (_MaxPoolNd, _AvgPoolNd, _LPPoolNd, _AdaptiveMaxPoolNd, _AdaptiveAvgPoolNd),
        "pooling",
    ),
    ((nn.RNNBase,), "recurrent"),
    ((_NormBase,), "batch norm"),
)
#: Modules of Transformers that carry a state from token to token, by the ends of their names.
STATES = re.compile(
    r"(Mamba\d?Mixer|MambaLayer|BambaMixer|FalconH1Mixer|GatedDeltaNet|ShortConv|RecurrentBlock)$"
)
Key = tuple[str, int, int]  # path of a module, number of its call, number of the tensor


@dataclass(frozen=True)
class Changed:
    """A call on the same input with some tokens exchanged for others.

    Attributes:
        tokens: their numbers.
        size: how many tokens there are.
        call: runs the module.
        stack: the stack that reads them; None if there is only one.
        values: a number a token that equal tokens share, in all calls of a text; may be left out.
    """

    tokens: tuple[int, ...]
    size: int
    call: Callable[[], Any]
    stack: str | None = None
    values: tuple[int, ...] = ()

    def unlike(self, other: Changed) -> tuple[int, ...]:
        """The tokens that differ from those of another call."""
        pairs = zip(self.values, other.values, strict=False)
        return tuple(n for n, (one, two) in enumerate(pairs) if one != two)


@dataclass
class RowWatch:
    """Watches the rows of all module outputs over passes in which some tokens are exchanged.

    ``known`` are modules that mix tokens by their kind, with its name; ``first`` is the path of
    the first other module whose output shows a change in another token's row.
    """

    module: nn.Module
    size: int
    changed: Sequence[Changed]
    known: dict[str, str] = field(default_factory=dict)
    first: str | None = None
    _rows: dict[Key, list[Tensor]] = field(default_factory=dict)
    _whole: dict[Key, Tensor] = field(default_factory=dict)
    _turns: dict[tuple[int, int, Key], Tensor] = field(default_factory=dict)
    _calls: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = {size for x in self.module.parameters() for size in x.shape}
        self._feature_size = self.size in sizes
        self._others = [self._but(one.tokens) for one in self.changed]
        several = [n for n, one in enumerate(self.changed) if len(one.tokens) > 1]
        self._pairs = {
            (n, m): self._but(tokens)
            for n, m in combinations(several, 2)
            if (tokens := self.changed[m].unlike(self.changed[n]))
        }

    def _but(self, tokens: Collection[int]) -> Tensor:
        return torch.tensor([n for n in range(self.size) if n not in tokens], dtype=torch.long)

    def before(self, call: Callable[[], T]) -> T:
        """Run the unchanged call and keep what its rows are."""

        def keep(path: str, mixer: str, key: Key, x: Tensor) -> None:
            self._rows[key] = [self._digest(x, other) for other in self._others]
            if mixer:
                self._whole[key] = x.detach().clone()

        return self._watched(call, keep)

    def after(self, number: int, call: Callable[[], T]) -> T:
        """Run the call with the tokens of a number exchanged and compare the other rows with those
        of the unchanged call, and of an earlier one."""
        others = self._others[number]

        def compare(path: str, mixer: str, key: Key, x: Tensor) -> None:
            known = self._rows.get(key)
            if known is None or self.first is not None:
                return
            now = self._digest(x, others)
            if now.shape == known[number].shape and not same(now, known[number], x.dtype):
                if not mixer:
                    self.first = path
                    return
                self.known[path] = mixer
                self._put_back(x, self._whole[key], others)
            if not mixer and not self.known:  # else exchanged rows carry their neighbours too
                self._compare_pairs(number, path, key, x)

        return self._watched(call, compare)

    def _compare_pairs(self, number: int, path: str, key: Key, x: Tensor) -> None:
        """Compare the rows that two exchanges leave alike, though both may have exchanged them."""
        for (one, two), others in self._pairs.items():
            if number == one:
                self._turns[one, two, key] = self._digest(x, others)
            before = self._turns.pop((one, two, key), None) if number == two else None
            now = None if before is None else self._digest(x, others)
            if now is None or before is None or now.shape != before.shape:
                continue
            if not same(now, before, x.dtype):
                self.first = path

    def _watched(self, call: Callable[[], T], visit: Callable[[str, str, Key, Tensor], None]) -> T:
        self._calls.clear()
        with ExitStack() as hooks, torch.no_grad():
            inside = "\n"  # of a mixer: its parts are not looked at
            for path, part in self.module.named_modules():
                if path.startswith(inside):
                    continue
                mixer = mixer_of(part)
                inside = f"{path}." if mixer else inside
                hook = self._hook(path, mixer, visit)
                hooks.callback(part.register_forward_hook(hook).remove)
            return call()

    def _hook(
        self, path: str, mixer: str, visit: Callable[[str, str, Key, Tensor], None]
    ) -> Callable[[nn.Module, Any, Any], None]:
        def hook(part: nn.Module, given: Any, out: Any) -> None:
            turn = self._calls[path] = self._calls.get(path, -1) + 1
            for number, x in enumerate(tensors_in(out)):
                if x.is_floating_point() and self._axes(x, bool(mixer)):
                    visit(path, mixer, (path, turn, number), x)

        return hook

    def _axes(self, x: Tensor, padded: bool = False) -> list[int]:
        """The axes that may be tokens; the last one of a ``padded`` convolution, whose further
        rows are cut off later."""
        axes = [axis for axis, size in enumerate(x.shape) if size == self.size]
        if padded and not axes and x.shape[-1:] > (self.size,):
            return [x.dim() - 1]
        only_features = axes == [x.dim() - 1] and (self._feature_size or x.dim() < 2)
        return [] if only_features else axes

    def _others_in(self, x: Tensor, axis: int, others: Tensor) -> Tensor:
        """The numbers of other tokens, and of rows behind the last token."""
        return torch.cat((others, torch.arange(self.size, x.shape[axis]))).to(x.device)

    def _digest(self, x: Tensor, others: Tensor) -> Tensor:
        """Project the part of a tensor that carries other tokens, ``[row, 1 + direction]``; the
        first column is its length."""
        first, *rest = self._axes(x, True)
        others = self._others_in(x, first, others)
        part = x.detach().index_select(first, others)
        for axis in rest:
            part = part.index_select(axis, others)
        rows = part.movedim(first, 0).flatten(1)
        seed = torch.Generator().manual_seed(rows.shape[1])
        signs = torch.randint(0, 2, (rows.shape[1], DIRECTIONS), generator=seed) * 2.0 - 1
        signs = signs.to(x.device)
        made = []
        for chunk in rows.split(CHUNK):
            wide = chunk.float().nan_to_num()
            made.append(torch.cat((wide.norm(dim=1, keepdim=True), wide @ signs), 1))
        return torch.cat(made) if made else rows.new_zeros(0, 1 + DIRECTIONS)

    def _put_back(self, x: Tensor, before: Tensor, others: Tensor) -> None:
        """Give other tokens' rows the numbers that they had before the exchange."""
        axis = self._axes(x, True)[0]
        others = self._others_in(x, axis, others)
        x.index_copy_(axis, others, before.index_select(axis, others))


def same(now: Tensor, before: Tensor, dtype: torch.dtype) -> bool:
    """Whether digests of rows are equal but for rounding."""
    eps = torch.finfo(dtype).eps
    allowed = max(FEWEST * eps, min(ROUNDING * eps, 1e-5)) * before[:, :1].clamp(min=1e-30)
    return bool(((now - before).abs() <= allowed).all())


def mixer_of(part: nn.Module) -> str:
    """What a module that mixes tokens without attention is called; empty for others."""
    known = type(part).__module__.startswith("transformers.models.")
    if known and STATES.search(type(part).__name__):
        return "recurrent"
    return next((name for kinds, name in MIXERS if isinstance(part, kinds)), "")


def tensors_in(out: Any) -> list[Tensor]:
    """The tensors in what a module returned."""
    if hasattr(out, "to_tuple"):  # an output object of Transformers
        out = out.to_tuple()
    return flat(out)


def groups(changed: Sequence[Changed]) -> list[list[Changed]]:
    """Calls that exchange tokens of one sequence, together, so many that their rows can be kept."""
    alike = [list(some) for _, some in groupby(changed, lambda one: (one.stack, one.size))]
    return [some[n : n + MOST_TURNS] for some in alike for n in range(0, len(some), MOST_TURNS)]


def mixed(watch: RowWatch) -> list[str]:
    """A sentence where tokens reach each other outside the attentions that are shown."""
    if watch.first is None:
        return []
    where = f"first at the output of {watch.first}" if watch.first else "at the model's output"
    return [
        f"{MIXED}: while each row looks at "
        f"its own token alone, an exchanged token changes another row, {where}"
    ]
