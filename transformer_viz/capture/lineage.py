"""Lineage store: the marks of one run, and their propagation from operands to results.

A mark is an attribute of the tensor itself, so it ends with it. Each run has its own attribute
name, so marks of another run are never read.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..core.numerics import MASK_SCORE
from . import torch_calls
from .axes.atoms import Axes, of_input
from .axes.rules import of_parameter, results
from .module_names import Names
from .propagation import packed, passed
from .refusals import refuse_wrapped
from .roles import NOWHERE, Front, Ids, Mark, Scores, Table
from .torch_calls import SEQUENCES, Args, Kwargs, in_place, swap, tensors

KEY = "_transformer_viz"  # prefix of each probe's attribute name
_numbers = itertools.count()
ROOM = 4096  # number of marked tensors before ended ones are dropped from the list
HOLDERS = (Tensor, *SEQUENCES)


class Lineage:
    """Origin and role of every tensor of one run, stored as marks.

    ``lengths`` are the possible lengths of each stream's token axis, by stream number; ``last``
    shape and mark of the newest scores; ``shapes`` those of the model's own tensors; ``waves`` the
    angles of the model's sine and cosine tables, by identity; ``edited_angles`` the edited rotary
    angles, by stack.
    """

    def __init__(self, names: Names):
        self.names, self.owned = names, names.owned
        self.key = f"{KEY}_{next(_numbers)}"
        self.kept: dict[int, Mark] = {}
        self.marked: list[weakref.ref[Tensor]] = []
        self.room = ROOM
        self.inputs: dict[int, tuple[Tensor, frozenset[int]]] = {}
        self.lengths: dict[int, set[int]] = {}
        self.waves: dict[int, Tensor] = {}
        self.edited_angles: dict[str, Tensor] = {}
        self.last: tuple[tuple[int, ...], Mark] | None = None
        self.shapes = {(t.shape, t.dtype) for t in names.tensors}

    # ---- looking up --------------------------------------------------------------------------

    def mark(self, x: Any) -> Mark | None:
        """Return the mark that this run left on a tensor."""
        if not isinstance(x, Tensor):
            return None
        found: Mark | None = x.__dict__.get(self.key)
        if found is not None:
            return found
        if id(x) in self.owned:
            return self.kept.get(id(x))
        if self.last is None or self.last[0] != x.shape or id(x) in self.inputs:
            return None
        return x.__dict__.get(self.key) if self.unseen(x) else None

    def role(self, x: Any) -> Any:
        mark = self.mark(x)
        return None if mark is None else mark.role

    def depth(self, x: Any) -> int:
        mark = self.mark(x)
        return 0 if mark is None else mark.depth

    def serial(self, x: Any) -> int:
        """Return the creation number of a tensor, which grows; 0 without a mark."""
        mark = self.mark(x)
        return 0 if mark is None else mark.serial

    def origin(self, x: Any) -> frozenset[int]:
        """Return the token streams of a tensor; empty for weights, masks and constants."""
        mark = self.mark(x)
        return self.unmarked(x) if mark is None else mark.origin

    def unmarked(self, x: Any) -> frozenset[int]:
        """Return the streams of a tensor that no call under this mode made."""
        if id(x) in self.owned or not isinstance(x, Tensor) or isinstance(x, nn.Parameter):
            return NOWHERE
        return self.input_origin(x)

    def input_origin(self, x: Tensor) -> frozenset[int]:
        """Return the token stream of an unmarked float input: new for vectors, none for a mask."""
        if not x.dim() or not x.is_floating_point():
            return NOWHERE
        refuse_wrapped(x)
        if id(x) not in self.inputs and self.unseen(x):
            return self.inputs[id(x)][1]
        if id(x) not in self.inputs:
            masked = x <= MASK_SCORE
            mask = bool(masked.any()) and bool((masked | (x == 0)).all())
            self.inputs[id(x)] = (x, NOWHERE if mask else self.new_stream(x.shape[:-1] or x.shape))
        return self.inputs[id(x)][1]

    def unseen(self, x: Tensor) -> bool:
        """Return True, and mark it, if a tensor came from a scripted call or outside parameter."""
        if not self.lengths or self.names.given(x) is not False:
            return False
        if (x.shape, x.dtype) in self.shapes:
            self.inputs[id(x)] = (x, NOWHERE)
            return True
        last = self.last
        if last is None or last[0] != tuple(x.shape):
            return False
        mark = last[1]
        self.inputs[id(x)] = (x, mark.origin)
        self.attach(x, replace(mark))
        return True

    def new_stream(self, sizes: Any) -> frozenset[int]:
        """Return a new token stream; ``sizes`` are the possible lengths of its token axis."""
        number = len(self.lengths) + 1
        self.lengths[number] = {int(size) for size in sizes}
        return frozenset((number,))

    def token_lengths(self, origin: Iterable[int]) -> set[int]:
        """Return the possible lengths of the token axes of some streams."""
        return set().union(*(self.lengths[stream] for stream in origin))

    def wave(self, x: Tensor) -> Tensor | None:
        """Return the angles of a tensor that was read from a stored table of waves."""
        mark = self.mark(x)
        return self.waves.get(id(x)) if mark is None else mark.wave

    def front(self, x: Any) -> Front | None:
        """Return the keys before the newest tokens of a tensor that grew."""
        mark = self.mark(x)
        return None if mark is None else mark.front

    def tokens(self, x: Any) -> frozenset[int]:
        """Return the sequences whose tokens are the rows of a tensor."""
        mark = self.mark(x)
        if mark is not None:
            return mark.tokens
        return (self.unmarked(x) or frozenset((-id(x),))) if isinstance(x, Tensor) else NOWHERE

    def starts(self, x: Tensor, sizes: Any) -> None:
        """Start a token stream at a marked tensor; ``sizes`` are the lengths of its token axis."""
        mark = self.mark(x)
        assert mark is not None
        mark.origin = mark.tokens = self.new_stream(sizes)

    def grown(self, query: Any, key: Any) -> Front | None:
        """Return what precedes the newest tokens of keys, but not those of their queries."""
        front, own = self.front(key), self.front(query) or Front()
        if front is None:
            return None
        memory, cached = front.memory - own.memory, front.cached - own.cached
        joined = max(0, front.joined - own.joined)
        return replace(front, memory=max(0, memory), cached=max(0, cached), joined=joined)

    def axes(self, x: Tensor) -> Axes | None:
        """Return the composition of a tensor's axes; None if unknown."""
        mark = self.mark(x)
        if mark is not None:
            return mark.axes
        shape = tuple(x.shape)
        if id(x) in self.owned or isinstance(x, nn.Parameter):
            buffer = not isinstance(x, nn.Parameter) and x.dim() == 3
            float_table = x.is_floating_point() and not buffer
            return of_parameter(shape) if float_table else of_input(shape, x.is_floating_point())
        return of_input(shape, x.is_floating_point() and x.dim() in (2, 3))

    def facts(self, x: Tensor) -> tuple[Any, ...] | None:
        """Return all facts that the axis rules need of a tensor; None for an unmarked input."""
        if type(x) is not Tensor and type(x) is not nn.Parameter:
            return None
        mark: Mark | None = x.__dict__.get(self.key)
        if mark is None:
            if id(x) not in self.owned:
                return None
            mark = self.kept.get(id(x))
        if mark is None:
            return x.shape, x.dtype
        return x.shape, x.dtype, mark.axes, not mark.origin

    # ---- setting -----------------------------------------------------------------------------

    def propagate(
        self,
        out: Any,
        parents: Iterable[Tensor],
        role: Any = None,
        *,
        deeper: int = 0,
        tokens: frozenset[int] | None = None,
    ) -> Any:
        """Mark a call's results: streams and depth of the operands, a role, and ``tokens``."""
        origin, depth, rows, constant, scored = NOWHERE, 0, NOWHERE, NOWHERE, 0
        product = isinstance(role, Scores)
        for parent in parents:
            mark = self.mark(parent)
            more = self.unmarked(parent) if mark is None else mark.origin
            if more:
                origin = origin | more if origin else more
                mine = more if mark is None else mark.tokens
                rows = rows | mine if rows else mine
            elif not origin and not constant:
                constant = frozenset((-id(parent),)) if mark is None else mark.tokens
            depth = depth if mark is None else max(depth, mark.depth)
            if mark is not None:
                scored = max(scored, mark.scored)
                product = product and not isinstance(mark.role, Scores)
        depth += deeper
        rows = (rows if origin else constant) if tokens is None else tokens
        for x in out if isinstance(out, SEQUENCES) else (out,):
            if type(x) is Tensor or (isinstance(x, Tensor) and not isinstance(x, nn.Parameter)):
                made = Mark(origin, depth, role, tokens=rows or frozenset((-id(x),)))
                made.scored = made.serial if product else scored
                self.attach(x, made)
        return out

    def attach(self, x: Tensor, mark: Mark) -> None:
        """Attach a mark to a tensor; marks of the model's own tensors are kept separately."""
        before = x.__dict__.get(self.key) or self.kept.get(id(x))
        if before is not None:  # overwritten in place: its axes stay
            mark.axes = before.axes
        if id(x) in self.owned:
            self.kept[id(x)] = mark
            return
        x.__dict__[self.key] = mark
        self.marked.append(weakref.ref(x))
        if len(self.marked) > self.room:
            self.marked = [ref for ref in self.marked if ref() is not None]
            self.room = 2 * len(self.marked) + ROOM

    def name_axes(self, out: Any, func: Any, args: Args, kwargs: Kwargs) -> None:
        """Record the composition of the axes of a call's results."""
        marks = [(x, self.mark(x)) for x in (out if isinstance(out, SEQUENCES) else (out,))]
        made = [(x, mark) for x, mark in marks if mark is not None]
        if not made:
            return
        found = results(func, args, kwargs, [x for x, _ in made], self)
        for (x, mark), axes in zip(made, found, strict=True):
            mark.axes = axes
            if isinstance(mark.role, Scores):
                self.last = (tuple(x.shape), mark)

    def forget(self) -> None:
        """Remove the marks from all tensors that are still alive."""
        for ref in self.marked:
            x = ref()
            if x is not None:
                x.__dict__.pop(self.key, None)
        self.marked = []

    # ---- calls without a handler -------------------------------------------------------------

    def follow(self, out: Any, func: Any, args: Args, kwargs: Kwargs) -> Any:
        if not isinstance(out, HOLDERS):
            return out
        parents = [] if func in torch_calls.SHAPED else tensors(args, kwargs)
        parents = parents[:1] if func in torch_calls.AS else parents
        if not parents and (func in torch_calls.GIVEN or not self.computing(func)):
            return out  # random, from Python's numbers, or between calls: an input
        if id(out) in map(id, parents) and not in_place(func):
            return out  # a call that returned its operand, such as dropout outside training
        marks = [self.mark(parent) for parent in parents]
        role: Any = packed(func, parents, out)
        if role is None and func in torch_calls.KEEP:
            known = zip(parents, marks, strict=True)
            given = next(((p, m.role) for p, m in known if m and m.role is not None), None)
            if given is not None:
                role = passed(given[1], given[0], out, func, args, kwargs)
        if role is None:
            role = self.ids_role(func, parents, marks) or self.table_role(func, parents, marks)
        self.propagate(out, parents, role)
        if func in torch_calls.GROWS:
            self.grow(out, parents, func, args, kwargs)
        elif func in torch_calls.KEEP or func in torch_calls.PROJECT:
            self.keep_front(out, marks)
        if self.edited_angles:
            self.propagate_edited_rotary(out, parents, func, args, kwargs)
        if self.waves:
            self.propagate_waves(out, parents, func, args, kwargs)
        return out

    def keep_front(self, out: Any, parents: list[Mark | None]) -> None:
        """Keep the preceding keys of the newest tokens while keys are moved."""
        front = next((mark.front for mark in parents if mark and mark.front is not None), None)
        if front is None:
            return
        for x in out if isinstance(out, SEQUENCES) else (out,):
            mark = self.mark(x)
            if mark is not None:
                mark.front = front

    def grow(self, out: Any, parents: list[Tensor], func: Any, args: Args, kwargs: Kwargs) -> None:
        """Handle tokens joined to older ones, or written after them into a cache."""
        mark = self.mark(out)
        if mark is None:
            return
        if func in torch_calls.JOIN:
            dim: int = kwargs["dim"] if "dim" in kwargs else (*args, 0)[1]
            mark.front = self.joined_front([p for p in parents if p.numel()], dim)
        else:
            index = next((p for p in parents if not p.is_floating_point()), None)
            start = int(index.min()) if index is not None and index.numel() else 0
            mark.front = Front(cached=start, written=True)

    def joined_front(self, parts: list[Tensor], dim: int) -> Front | None:
        """Return the part before the newest of some joined tensors: memory, or older tokens."""
        if len(parts) < 2:
            return self.front(parts[0]) if parts else None
        newest = max((max(self.origin(p), default=0) for p in parts if self.mark(p)), default=0)
        memory = cached = 0
        for part in parts:
            made = self.mark(part) is not None
            if made and newest in self.origin(part):
                inner = self.front(part) or Front()
                joined = sum(p.shape[dim] for p in parts[:-1]) - memory - cached
                return Front(memory + inner.memory, cached + inner.cached, joined=max(0, joined))
            size = part.shape[dim]
            constant = id(part) in self.owned or (made and not self.origin(part))
            memory, cached = (memory + size, cached) if constant else (memory, cached + size)
        return None

    def computing(self, func: Any) -> bool:
        """Return True if the model computes now; a call without operands then makes a constant."""
        return self.names.computing(func is torch.arange)

    def ids_role(self, func: Any, parents: list[Tensor], marks: list[Mark | None]) -> Ids | None:
        """Return the role of integers of the input, which stay ids while they are only moved."""
        for x, mark in zip(parents, marks, strict=True):
            role = None if mark is None else mark.role
            if x.is_floating_point():
                if isinstance(role, Ids) and func in torch_calls.NUMERIC:
                    return role
                continue
            if x.dtype == torch.bool:
                continue
            if isinstance(role, Ids) or (mark is None and id(x) not in self.owned):
                return Ids((isinstance(role, Ids) and role.counted) or func in torch_calls.COUNT)
        return None

    def table_role(
        self, func: Any, parents: list[Tensor], marks: list[Mark | None]
    ) -> Table | None:
        """Return the role of rows of a table that the model owns."""
        if not parents or marks[0] is not None or func not in torch_calls.RESHAPE:
            return None
        x = parents[0]
        if x.dim() < 2 or not x.is_floating_point() or self.unmarked(x):
            return None
        return Table(max(x.shape[:-1]))

    def propagate_edited_rotary(
        self,
        out: Any,
        parents: list[Tensor],
        func: Any,
        args: Args,
        kwargs: Kwargs,
    ) -> None:
        """Compute a constant's value with edited rotary angles beside it."""
        if not isinstance(out, Tensor) or self.origin(out):
            return
        shadows = {
            id(p): m.edited_rotary
            for p in parents
            if (m := self.mark(p)) and m.edited_rotary is not None
        }
        if shadows:
            mark = self.mark(out)
            assert mark is not None
            mark.edited_rotary = func(*swap(args, shadows), **swap(kwargs, shadows))

    def propagate_waves(
        self, out: Any, parents: list[Tensor], func: Any, args: Args, kwargs: Kwargs
    ) -> None:
        """Propagate the angles of a stored table like its values."""
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
