"""The function mode behind the probe: sees every torch call of one thread and keeps the marks."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..core.interventions import Edit, Intervention
from ..core.numerics import MASK_SCORE
from . import torch_calls
from .edit_plan import SCORE_EDITS
from .lineage import (
    NOWHERE,
    Biased,
    Context,
    Ids,
    Located,
    Mark,
    Packed,
    Scores,
    Stream,
    SubLayer,
    Table,
    Weights,
)
from .module_names import Names
from .run import Run, Want
from .score_scale import multiplied
from .site_numbering import Numbering

Handlers = Mapping[Any, Callable[..., Any]]  # torch function -> what is done when it is called
KEY = "_transformer_viz"  # each probe hangs its marks under a name of its own that begins so
_numbers = itertools.count()
ROOM = 4096  # so many marked tensors before those that ended are dropped from the list
SEQUENCES = (list, tuple)
HOLDERS = (Tensor, *SEQUENCES)


class Mode(TorchFunctionMode):
    """Follows tensors by their marks and hands the calls that matter to their handlers.

    Lives in one thread and one `with`; what it learns goes to ``run``. ``used`` collects the edits
    that found their place.
    """

    def __init__(
        self, module: nn.Module, intervention: Intervention, want: Want, handlers: Handlers
    ):
        super().__init__()
        self.handlers = handlers
        self.key = f"{KEY}_{next(_numbers)}"
        self.names = Names(module)
        self.intervention, self.want, self.run = intervention, want, Run(want)
        self.numbering = Numbering(want.stack)
        self.shapes_scores = any(isinstance(edit, SCORE_EDITS) for edit in intervention)
        self.kept: dict[int, Mark] = {}
        self.marked: list[weakref.ref[Tensor]] = []
        self.room = ROOM
        self.leaves: dict[int, tuple[Tensor, frozenset[int]]] = {}
        self.lengths: dict[int, set[int]] = {}
        self.used: set[Edit] = set()
        self.open: dict[str, None] = {}  # modules whose softmax met no values yet
        self.offset = 0
        self.layers: dict[str, int] = {}
        self.tables: dict[str, Tensor] = {}
        self.waves: dict[int, Tensor] = {}
        self.norm_frame: Any = None

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        handler = self.handlers.get(func)
        if handler is not None:
            return handler(self, func, args, kwargs)
        if getattr(func, "__name__", "") == "__get__" and func not in torch_calls.TURNS:
            return func(*args, **kwargs)
        return self.plain(func, args, kwargs)

    def mark(self, x: Any) -> Mark | None:
        """The mark that this run left on a tensor."""
        if not isinstance(x, Tensor):
            return None
        return x.__dict__.get(self.key) or self.kept.get(id(x))

    def role(self, x: Any) -> Any:
        mark = self.mark(x)
        return None if mark is None else mark.role

    def depth(self, x: Any) -> int:
        mark = self.mark(x)
        return 0 if mark is None else mark.depth

    def origin(self, x: Any) -> frozenset[int]:
        """The token streams a tensor was made from; empty for weights, masks and constants."""
        mark = self.mark(x)
        return self.unmarked(x) if mark is None else mark.origin

    def unmarked(self, x: Any) -> frozenset[int]:
        """The streams of what no call under this mode made."""
        if id(x) in self.names.owned or not isinstance(x, Tensor) or isinstance(x, nn.Parameter):
            return NOWHERE
        return self.leaf(x)

    def leaf(self, x: Tensor) -> frozenset[int]:
        """An input of the model that nothing made here: a stream of vectors, or a mask."""
        if x.dim() < 2 or not x.is_floating_point():
            return NOWHERE
        if id(x) not in self.leaves:
            masked = x <= MASK_SCORE
            mask = bool(masked.any()) and bool((masked | (x == 0)).all())
            self.leaves[id(x)] = (x, NOWHERE if mask else self.stream(x.shape[:-1]))
        return self.leaves[id(x)][1]

    def stream(self, sizes: Any) -> frozenset[int]:
        """A new token stream; ``sizes`` are the lengths its token axis may have."""
        number = len(self.lengths) + 1
        self.lengths[number] = {int(size) for size in sizes}
        return frozenset((number,))

    def put(
        self,
        out: Any,
        parents: Iterator[Tensor] | list[Tensor],
        role: Any = None,
        *,
        deeper: int = 0,
    ) -> Any:
        """Mark what a call gave: streams and depth from its operands, and a role."""
        origin, depth = NOWHERE, 0
        for parent in parents:
            mark = self.mark(parent)
            more = self.unmarked(parent) if mark is None else mark.origin
            origin = origin | more if more and origin else more or origin
            depth = depth if mark is None else max(depth, mark.depth)
        depth += deeper
        for x in out if isinstance(out, SEQUENCES) else (out,):
            if isinstance(x, Tensor) and not isinstance(x, nn.Parameter):
                self.hang(x, Mark(origin, depth, role))
        return out

    def hang(self, x: Tensor, mark: Mark) -> None:
        """Hang a mark on a tensor; those of the model's own tensors are kept beside them."""
        if id(x) in self.names.owned:
            self.kept[id(x)] = mark
            return
        x.__dict__[self.key] = mark
        self.marked.append(weakref.ref(x))
        if len(self.marked) > self.room:
            self.marked = [ref for ref in self.marked if ref() is not None]
            self.room = 2 * len(self.marked) + ROOM

    def forget(self) -> None:
        """Take the marks off all tensors that are still alive."""
        for ref in self.marked:
            x = ref()
            if x is not None:
                x.__dict__.pop(self.key, None)
        self.marked, self.norm_frame = [], None

    # ---- calls that need no special care ------------------------------------------------------

    def plain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call as it is and pass the marks on."""
        out = func(*args, **kwargs)
        return self.follow(out, func, args, kwargs)

    def follow(self, out: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(out, HOLDERS):
            return out
        parents = [] if func in torch_calls.SHAPED else tensors(args, kwargs)
        parents = parents[:1] if func in torch_calls.AS else parents
        if not parents and not self.names.computing(func is torch.arange):
            return out  # made between the model's calls: an input, not one of its constants
        if id(out) in map(id, parents) and not in_place(func):
            return out  # a call that gave back its operand, such as dropout outside training
        role: Any = packed(func, parents, out)
        if role is None and func in torch_calls.KEEP:
            carrier = next((p for p in parents if self.role(p) is not None), None)
            if carrier is not None:
                role = self.passed(self.role(carrier), carrier, out, func, args, kwargs)
        if role is None:
            role = self.ids(func, parents) or self.table(func, parents)
        self.put(out, parents, role)
        self.cast_shadow(out, parents, func, args, kwargs)
        if self.waves:
            self.carry_wave(out, parents, func, args, kwargs)
        return out

    def ids(self, func: Any, parents: list[Tensor]) -> Ids | None:
        """Integers of the input stay ids while they are only moved about."""
        for x in parents:
            if x.is_floating_point() or x.dtype == torch.bool:
                continue
            role = self.role(x)
            if isinstance(role, Ids) or (self.mark(x) is None and id(x) not in self.names.owned):
                return Ids((isinstance(role, Ids) and role.counted) or func in torch_calls.COUNT)
        return None

    def table(self, func: Any, parents: list[Tensor]) -> Table | None:
        """Rows of a table that the model owns."""
        x = parents[0] if parents and func in torch_calls.RESHAPE else None
        if x is None or x.dim() < 2 or not x.is_floating_point():
            return None
        if self.mark(x) is not None or self.origin(x):
            return None
        return Table(max(x.shape[:-1]))

    def passed(
        self,
        role: Any,
        x: Tensor,
        out: Any,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The role of a result whose operand ``x`` had one; None where the call ends it."""
        if isinstance(role, Located):
            return role
        if func not in torch_calls.PASS:
            return None
        if isinstance(role, Scores):
            return follow_scores(role, x, out, func, args, kwargs)
        if isinstance(role, Weights):
            same = role.same and func in torch_calls.CAST
            return replace(role, labels=relabel(role.labels, x, out, func, args, kwargs), same=same)
        if isinstance(role, Context):
            step = (func, args, kwargs)
            return (
                Context(role.record, (*role.chain, step)) if func in torch_calls.IDENTITY else None
            )
        if isinstance(role, SubLayer):
            return replace(role, exact=role.exact and func in torch_calls.IDENTITY)
        if isinstance(role, Stream):
            kept = (
                func in torch_calls.IDENTITY or func in torch_calls.MULTIPLY or broadcast(x, args)
            )
            return role if kept else None
        if isinstance(role, Table) and func in torch_calls.IDENTITY:
            return role
        if isinstance(role, Biased) and func in torch_calls.IDENTITY:
            return Biased(
                replay(func, args, kwargs, x, role.base), replay(func, args, kwargs, x, role.hidden)
            )
        return None

    def cast_shadow(
        self,
        out: Any,
        parents: list[Tensor],
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """What a constant would be with edited rotary angles, carried along beside it."""
        if not self.tables or not isinstance(out, Tensor) or self.origin(out):
            return
        shadows = {id(p): m.shadow for p in parents if (m := self.mark(p)) and m.shadow is not None}
        if shadows:
            mark = self.mark(out)
            assert mark is not None
            mark.shadow = func(*swap(args, shadows), **swap(kwargs, shadows))

    def wave(self, x: Tensor) -> Tensor | None:
        """The angles behind a tensor that was read from a stored table of waves."""
        mark = self.mark(x)
        return self.waves.get(id(x)) if mark is None else mark.wave

    def carry_wave(
        self, out: Any, parents: list[Tensor], func: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        """The angles of a stored table go the same way as its values."""
        waves = {id(p): wave for p in parents if (wave := self.wave(p)) is not None}
        if not waves or func not in torch_calls.READ | torch_calls.CAST:
            return
        moved = next(iter(waves.values()))
        if func in torch_calls.READ:
            moved = func(*swap(args, waves), **swap(kwargs, waves))
        many = isinstance(out, tuple | list)
        for x, wave in zip(out, moved, strict=True) if many else ((out, moved),):
            mark = self.mark(x)
            if mark is not None:
                mark.wave = wave


def tensors(*groups: Any) -> list[Tensor]:
    """The tensors among the arguments of a call, lists and tuples looked into."""
    found: list[Tensor] = []
    for group in groups:
        for value in group.values() if isinstance(group, dict) else group:
            if isinstance(value, Tensor):
                found.append(value)
            elif value and isinstance(value, SEQUENCES):
                found.extend(tensors(value))
    return found


def packed(func: Any, parents: list[Tensor], out: Any) -> Packed | None:
    """Query heads that were moved to the token axis of a lone token, a group of heads a key."""
    if func not in torch_calls.VIEW or not isinstance(out, Tensor):
        return None
    if not out.dim() == 4 == parents[0].dim():
        return None
    (batch, heads, tokens, width), group = parents[0].shape, out.shape[2]
    lone = tokens == 1 < group and heads % group == 0
    return Packed() if lone and out.shape == (batch, heads // group, group, width) else None


def broadcast(x: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether every other operand is one number a token, or a vector: as inside a norm."""
    others = [t for t in tensors(args) if t is not x]
    return all(t.dim() < 2 or t.shape[-1] == 1 for t in others)


def swap(group: Any, by: dict[int, Tensor]) -> Any:
    """The same arguments with some tensors exchanged, found by identity."""
    if isinstance(group, Tensor):
        return by.get(id(group), group)
    if isinstance(group, dict):
        return {name: swap(value, by) for name, value in group.items()}
    if isinstance(group, list | tuple) and not hasattr(group, "_fields"):
        return type(group)(swap(value, by) for value in group)
    return group


def replay(func: Any, args: Any, kwargs: Any, x: Tensor, other: Tensor) -> Tensor:
    """The same call on another tensor in the place of ``x``."""
    if other.shape != x.shape:
        other = other.expand(x.shape)
    other = other.clone() if in_place(func) else other.contiguous()  # a view of it must be possible
    result = func(*swap(args, {id(x): other}), **swap(kwargs, {id(x): other}))
    assert isinstance(result, Tensor)
    return result


def in_place(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def relabel(
    labels: tuple[str, ...] | None, x: Tensor, out: Any, func: Any, args: Any, kwargs: Any
) -> tuple[str, ...] | None:
    """The names of the dimensions after a call; None where they can no longer be told."""
    if labels is None or not isinstance(out, Tensor) or len(labels) != x.dim():
        return None
    if func in torch_calls.TURNS or (
        func in torch_calls.RESHAPE and getattr(func, "__name__", "") in PERMUTES
    ):
        # A small tensor whose sizes are its dimension numbers shows where each one went.
        sizes = torch.empty(tuple(range(2, 2 + x.dim())), device="meta")
        moved = func(*swap(args, {id(x): sizes}), **swap(kwargs, {id(x): sizes}))
        return tuple(labels[size - 2] for size in moved.shape)
    return labels if out.dim() == x.dim() else None


PERMUTES = {"permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "t"}


def follow_scores(role: Scores, x: Tensor, out: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Scores after one more call; the unmasked twin and the mask go the same way."""
    if not isinstance(out, Tensor) or out.dim() < 2:
        return None
    labels = relabel(role.labels, x, out, func, args, kwargs)
    role = multiplied(role, x, func, args, kwargs)
    bias = role.bias
    if bias is not None and func in torch_calls.RESHAPE:
        bias = replay(func, args, kwargs, x, bias)
    role = replace(role, labels=labels, bias=bias)
    if role.base is None or role.hidden is None:
        return role
    hidden = role.hidden
    if func in torch_calls.RESHAPE or func in torch_calls.JOIN:
        hidden = (
            replay(func, args, kwargs, x, hidden)
            if func in torch_calls.RESHAPE
            else _joined(hidden, x, out)
        )
    return replace(role, base=replay(func, args, kwargs, x, role.base), hidden=hidden)


def _joined(hidden: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """A mask beside which columns were joined to the scores: the new ones are visible."""
    hidden = hidden.expand(x.shape)
    grown = torch.zeros(out.shape, dtype=torch.bool, device=out.device)
    grown[tuple(slice(0, size) for size in hidden.shape)] = hidden
    return grown
