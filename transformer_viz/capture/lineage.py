"""The lineage store: the marks of one run, and how they travel from operands to results.

A mark hangs on the tensor itself, so it ends with it and nothing outlives its layer; each run has a
name of its own for its marks, so that those of another run are never read.
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

KEY = "_transformer_viz"  # each probe hangs its marks under a name of its own that begins so
_numbers = itertools.count()
ROOM = 4096  # so many marked tensors before those that ended are dropped from the list
HOLDERS = (Tensor, *SEQUENCES)


class Lineage:
    """Where every tensor of one run comes from and what it is, as marks that it looks up and sets.

    ``lengths`` are the lengths that the token axis of each stream may have, by the stream's number;
    ``last`` shape and mark of the newest scores, ``shapes`` those of the model's own tensors;
    ``waves`` the angles behind the tables of sines and cosines that the model stores, by identity;
    ``edited_angles`` the rotary angles after the edits, by stack: empty while none was met.
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
        """The mark that this run left on a tensor."""
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
        """When a tensor was made: a number that grows; 0 for what has no mark."""
        mark = self.mark(x)
        return 0 if mark is None else mark.serial

    def origin(self, x: Any) -> frozenset[int]:
        """The token streams a tensor was made from; empty for weights, masks and constants."""
        mark = self.mark(x)
        return self.unmarked(x) if mark is None else mark.origin

    def unmarked(self, x: Any) -> frozenset[int]:
        """The streams of what no call under this mode made."""
        if id(x) in self.owned or not isinstance(x, Tensor) or isinstance(x, nn.Parameter):
            return NOWHERE
        return self.input_origin(x)

    def input_origin(self, x: Tensor) -> frozenset[int]:
        """An input of the model that nothing made here: a stream of vectors, or a mask."""
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
        """Whether a tensor came up in the middle of a pass: made by what no mode sees (a scripted
        function), or a parameter that was given from outside. It stands for what it was made of."""
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
        """A new token stream; ``sizes`` are the lengths its token axis may have."""
        number = len(self.lengths) + 1
        self.lengths[number] = {int(size) for size in sizes}
        return frozenset((number,))

    def token_lengths(self, origin: Iterable[int]) -> set[int]:
        """The lengths that the token axes of some streams may have."""
        return set().union(*(self.lengths[stream] for stream in origin))

    def wave(self, x: Tensor) -> Tensor | None:
        """The angles behind a tensor that was read from a stored table of waves."""
        mark = self.mark(x)
        return self.waves.get(id(x)) if mark is None else mark.wave

    def front(self, x: Any) -> Front | None:
        """What stands before the newest tokens of a tensor that grew."""
        mark = self.mark(x)
        return None if mark is None else mark.front

    def tokens(self, x: Any) -> frozenset[int]:
        """The sequences whose tokens the rows of a tensor are."""
        mark = self.mark(x)
        if mark is not None:
            return mark.tokens
        return (self.unmarked(x) or frozenset((-id(x),))) if isinstance(x, Tensor) else NOWHERE

    def starts(self, x: Tensor, sizes: Any) -> None:
        """Let a marked tensor start a token stream; ``sizes`` are the lengths of its token axis."""
        mark = self.mark(x)
        assert mark is not None
        mark.origin = mark.tokens = self.new_stream(sizes)

    def grown(self, query: Any, key: Any) -> Front | None:
        """What stands before the newest tokens of keys, and not before those of their queries."""
        front, own = self.front(key), self.front(query) or Front()
        if front is None:
            return None
        memory, cached = front.memory - own.memory, front.cached - own.cached
        joined = max(0, front.joined - own.joined)
        return replace(front, memory=max(0, memory), cached=max(0, cached), joined=joined)

    def axes(self, x: Tensor) -> Axes | None:
        """What the axes of a tensor are made of; None where that is not known."""
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
        """All that the rules of axes ask about a tensor; None for an input that has no mark yet, as
        asking for its streams would number them."""
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
        """Mark what a call gave: streams and depth from its operands, and a role; ``tokens`` are
        those of its activations, if they are not given."""
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
        """Hang a mark on a tensor; those of the model's own tensors are kept beside them."""
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
        """Note what the axes of a call's results are made of."""
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
        """Take the marks off all tensors that are still alive."""
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
            return out  # made by chance, of Python's numbers, or between calls: an input
        if id(out) in map(id, parents) and not in_place(func):
            return out  # a call that gave back its operand, such as dropout outside training
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
        """What stands before the newest tokens stays there while keys are moved about."""
        front = next((mark.front for mark in parents if mark and mark.front is not None), None)
        if front is None:
            return
        for x in out if isinstance(out, SEQUENCES) else (out,):
            mark = self.mark(x)
            if mark is not None:
                mark.front = front

    def grow(self, out: Any, parents: list[Tensor], func: Any, args: Args, kwargs: Kwargs) -> None:
        """Tokens that are joined to older ones, or written after them into a store."""
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
        """What stands before the newest of some parts that are joined: memory, or older tokens."""
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
        """Whether the model computes now, so that what a call makes of nothing is a constant."""
        return self.names.computing(func is torch.arange)

    def ids_role(self, func: Any, parents: list[Tensor], marks: list[Mark | None]) -> Ids | None:
        """Integers of the input stay ids while they are only moved about."""
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
        """Rows of a table that the model owns."""
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
        """What a constant would be with edited rotary angles, carried along beside it."""
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
