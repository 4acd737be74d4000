"""Data flow of a pass: tokens reordered by the input's own numbers, and other uses of weights.

Reordering means sorting, selecting or moving. Other uses are anything but the weighted sum of
values. While each row looks only at its own token, weights are ones and zeros, so exchanged tokens
do not reveal such uses. Examples are a gate of their entropy, rows scaled by received attention, a
second step with the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from .kernels import PARTS, PRODUCTS, WHOLE, Changes, KernelMode, flat, short
from .mixing import ways
from .program import Program, content

#: Calls that read or write by an index: argument positions of the data and of the index.
#: `masked_scatter` is excluded: it fills positions in order, as for patches among text tokens.
MOVES = (
    dict.fromkeys(("index", "_unsafe_index", "take", "take_along_dim", "masked_select"), (0, 1))
    | dict.fromkeys(("gather", "index_select"), (0, 2))
    | dict.fromkeys(("embedding",), (0, 1))
    | dict.fromkeys(("index_put", "_unsafe_index_put", "_index_put_impl"), (2, 1))
    | dict.fromkeys(("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy"), (3, 2))
)
SORTS = frozenset(("sort", "msort", "topk"))  # they move their own numbers
TAKEN = frozenset(("sort", "topk", "max", "min", "kthvalue", "median", "mode"))  # with indices
MOST_KNOWN = 64  # entries of freed tensors kept
LIFTED = "lift_fresh"  # dispatch name of Python's numbers
#: Calls that take a part of a tensor by Python's numbers.
NUMBERED = frozenset(("select", "slice", "narrow", "roll", "split_with_sizes", LIFTED))
Step = tuple[str, Any]  # such a call, and its numbers
Choice = tuple[str, list[Tensor]]  # a call that made integers from other numbers, and its result


class Facts(NamedTuple):
    """Facts about a tensor's numbers; kernels are bits of an integer.

    Attributes:
        made: Derived from the input.
        moved: Reordered by other numbers of the input.
        cells: Weights of these kernels, one number per cell.
        derived: Derived from weights of these kernels, no longer one number per cell.
        weighed: Derived from products of these kernels' weights.
    """

    made: bool = False
    moved: bool = False
    cells: int = 0
    derived: int = 0
    weighed: int = 0

    def joined(self, other: Facts) -> Facts:
        """Return the facts of numbers derived from both."""
        return Facts(
            self.made or other.made,
            self.moved or other.moved,
            self.cells | other.cells,
            self.derived | other.derived,
            self.weighed | other.weighed,
        )


@dataclass
class WeightReads:
    """Calls of a pass that read weights, by the `Facts` of their arguments.

    Attributes:
        others: For each kernel, the first call that used its weights without a weighted sum, and
            its module.
        again: Kernels whose weights multiplied their own product.
    """

    others: dict[int, tuple[str, str]] = field(default_factory=dict)
    again: set[int] = field(default_factory=set)

    def note(
        self, name: str, path: str, given: Sequence[Tensor], facts: Sequence[Facts], out: Tensor
    ) -> Facts:
        """Record a call, and return the facts about weights of its result."""
        mine = [
            (x, fact) for x, fact in zip(given, facts, strict=True) if fact.cells | fact.derived
        ]
        others = [fact for fact in facts if fact.made and not fact.cells | fact.derived]
        weighed = 0
        for fact in facts:
            weighed |= fact.weighed
        if not mine:
            return Facts(weighed=weighed)
        cells = derived = 0
        for _, fact in mine:
            cells, derived = cells | fact.cells, derived | fact.derived
        kept = any(fact.cells and x.numel() == out.numel() for x, fact in mine)
        if cells and (
            name in PRODUCTS or (name == "mul" and others and out.numel() > largest(mine))
        ):
            values = 0
            for fact in others:
                values |= fact.weighed
            self.again.update(numbers_of(cells & values))
            return Facts(weighed=weighed | cells)
        if kept or (cells and not others and name in PARTS | {"cat"}):
            return Facts(cells=cells, weighed=weighed)
        if others and out.numel() > 1 and name not in ("cat", "stack"):
            for number in numbers_of(cells | derived):
                self.others.setdefault(number, (name, path))
            return Facts(weighed=weighed)
        return Facts(derived=cells | derived, weighed=weighed)

    def untold(self, numbers: Sequence[int]) -> str:
        """Return the undecided point of an attention by these kernels; empty without any."""
        if not self.again.isdisjoint(numbers):
            return (
                "its weights weigh what they gave before, so that its map shows one step of several"
            )
        found = next((self.others[n] for n in numbers if n in self.others), None)
        if found is None:
            return ""
        where = f" in {found[1]}" if found[1] else ""
        return (
            f"its weights are also read by {found[0]}{where}, besides the weighted sum of values; "
            "through it a row may see other tokens"
        )


def largest(mine: Sequence[tuple[Tensor, Facts]]) -> int:
    """Return the size of the largest tensor of weights."""
    return max(x.numel() for x, fact in mine if fact.cells)


def numbers_of(bits: int) -> list[int]:
    """Return the kernels whose bits are set."""
    return [n for n in range(bits.bit_length()) if bits >> n & 1]


class StepMode(KernelMode):
    """Kernel list, with ``steps``: numbers from outside PyTorch that select parts of tensors.

    These come from Python, or from an index that no call made.
    """

    def __init__(
        self,
        module: nn.Module,
        changes: Changes | None = None,
        keep: bool = True,
        shown: Sequence[Tensor | None] = (),
    ):
        super().__init__(module, changes, keep, shown)
        self.steps = list[Step]()
        self.tables = {storage(x) for x in self.names.tensors}
        self.made = set(self.tables)
        self.counted = set[StorageWeakRef | None]()  # made of integers alone

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.note_step(short(func), args)
        out = super().__torch_dispatch__(func, types, args, kwargs)
        self.made.update(map(storage, chosen(out)))  # an index consists of integers
        given = flat((args, kwargs or {}))
        if given and not any(map(self.measured, given)):
            self.counted.update(map(storage, flat(out)))
        return out

    def note_step(self, name: str, args: tuple[Any, ...]) -> None:
        """Record the numbers of a call of the model."""
        if name in NUMBERED and not self.names.outside():
            self.steps.append((name, content(args[0]) if name == LIFTED else args[1:]))
            return
        what, index = MOVES.get(name.rstrip("_"), (0, len(args)))
        if index < len(args) and not {storage(x) for x in flat([args[what]])} & self.tables:
            for x in flat([args[index]]):
                if storage(x) not in self.made and not self.names.outside():
                    self.steps.append((name, content(x)))

    def measured(self, x: Tensor) -> bool:
        """Return True if a tensor is not made of integers alone."""
        return x.is_floating_point() and storage(x) not in self.counted

    def chooses(self, name: str, given: Sequence[Tensor], out: Any) -> bool:
        """Return True if a call makes integers or booleans from other numbers."""
        if not chosen(out) or name.endswith("_like"):
            return False
        if name.startswith(("new_", "_scaled_dot", "view")):
            return False
        return bool(given) and self.measured(given[0])


class ReorderMode(StepMode):
    """Kernel list, with ``reordered``: kernels whose rows or keys may have been reordered.

    Only reordering by an index that the input's numbers made counts. An index that passed through
    Python is detected by a difference from the ``steps`` of ``before``, a pass on another input.
    Views share the facts of their storage, which is weakly referenced. ``program`` lists all calls
    of the pass, and ``choices`` its data-dependent decisions. ``chose`` is True if numbers of the
    input selected others, as in a top-k.
    """

    def __init__(
        self,
        module: nn.Module,
        before: Sequence[Step] | None = None,
        shown: Sequence[Tensor | None] = (),
    ):
        super().__init__(module, shown=shown)
        self.before = before
        self.reordered: set[int] = set()
        self.program = Program()
        self.read: StorageWeakRef | None = None  # the first tensor that no call made: the input
        self.known: dict[StorageWeakRef, Facts] = {}
        self.reads = WeightReads()
        self.most = MOST_KNOWN
        self.choices: list[Choice] = []
        self.chose = False
        for x in self.names.tensors:
            self.mark(x, Facts())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        first, name = len(self.kernels), short(func)
        given = flat((args, kwargs or {}))
        self.note_call(func, args, kwargs or {}, given)
        turn = len(self.steps)
        facts = [self.facts(x) for x in given]
        moved = self.moves(name.rstrip("_"), args)
        read = bool(args) and self.of_input(args[0])
        out = super().__torch_dispatch__(func, types, args, kwargs)
        other = name in NUMBERED and self.other_numbers(turn)
        facts = facts if name != LIFTED else [Facts(other)]
        moved = moved or any(fact.moved for fact in facts) or (other and name != LIFTED and read)
        if moved:
            self.reordered.update(range(first, len(self.kernels)))
        sized = name.endswith("_like") or name.startswith("new_")  # takes only a shape
        made = not sized and any(fact.made for fact in facts)
        sorted_ones = [x for x, fact in zip(given, facts, strict=False) if fact.moved]
        level = sorted_ones and all(x.is_floating_point() for x in sorted_ones)
        if made:
            self.program.note_result(name, out)
        if self.chooses(name, given, out):
            self.choices.append((name, [x.clone() for x in chosen(out)]))
            whole = any(x.dtype != torch.bool for x in chosen(out))
            self.chose = self.chose or (made and whole and not self.names.outside())
        for x in flat(out):
            threshold = level and x.dtype == torch.bool  # a threshold is no reordering
            whole = sized or func in WHOLE  # its component calls were recorded
            found = Facts() if whole else self.reads_of(name, given, facts, x, first)
            self.mark(x, found._replace(made=made, moved=moved and not sized and not threshold))
        return out

    def reads_of(
        self, name: str, given: Sequence[Tensor], facts: Sequence[Facts], out: Tensor, first: int
    ) -> Facts:
        """Return the facts about attention weights in a result of a call.

        ``first`` is the number of the first kernel that ran in the call.
        """
        if len(given) != len(facts):
            return Facts()
        found = self.reads.note(name, self.names.path(), given, facts, out)
        for number in range(first, len(self.kernels)):
            kind = "weighed" if self.kernels[number].met == "product" else "cells"
            found = found._replace(**{kind: getattr(found, kind) | 1 << number})
        return found

    def note_call(self, func: Any, args: Any, kwargs: Any, given: Sequence[Tensor]) -> None:
        """Record a call in the program, and numbers that came from outside PyTorch."""
        self.program.note(func, args, kwargs)
        for x in given:
            place = storage(x)
            if place is None or place in self.known or short(func) == LIFTED:
                continue
            self.read = self.read or place
            if x.is_floating_point() and place != self.read and not x.is_meta:
                self.program.note_content(x)

    def moves(self, name: str, args: tuple[Any, ...]) -> bool:
        """Return True if a call reorders numbers of the input by others."""
        if name in SORTS:
            return self.of_input(args[0]) and not self.names.outside()
        places = MOVES.get(name)
        if places is None or len(args) <= max(places):
            return False
        what, index = places
        moved = self.of_input(args[what]) and self.of_input(args[index])
        return moved and not self.names.outside()

    def other_numbers(self, turn: int) -> bool:
        """Return True if a call differs in its numbers from the same call of the other pass."""
        if self.before is None or turn == len(self.steps):
            return False
        return turn >= len(self.before) or self.before[turn] != self.steps[turn]

    def of_input(self, value: Any) -> bool:
        """Return True if a tensor, or one of several, derives from the input."""
        return any(self.facts(x).made for x in flat([value]))

    def facts(self, x: Tensor) -> Facts:
        """Return the facts of a tensor; one that no call made is the input."""
        place = storage(x)
        return Facts(True) if place is None else self.known.get(place, Facts(True))

    def mark(self, x: Tensor, found: Facts) -> None:
        """Add facts of a tensor to those of its storage."""
        place = storage(x)
        if place is not None:
            self.known[place] = self.known.get(place, Facts()).joined(found)
        if len(self.known) > self.most:  # dead references keep their memory
            self.known = {x: facts for x, facts in self.known.items() if not x.expired()}
            self.most = 2 * len(self.known) + MOST_KNOWN


class HeldMode(StepMode):
    """Mode that repeats the choices of another pass, for each of ``count`` items of a batch.

    ``lost`` is True if its calls do not match.
    """

    def __init__(self, module: nn.Module, changes: Changes, choices: Sequence[Choice], count: int):
        super().__init__(module, changes, keep=False)
        self.choices, self.count, self.turn, self.lost = choices, count, 0, False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out, name = super().__torch_dispatch__(func, types, args, kwargs), short(func)
        if self.chooses(name, flat((args, kwargs or {})), out):
            self.hold(func, args, kwargs or {}, out)
        return out

    def hold(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Overwrite a call's result with the numbers of the other pass."""
        known = self.choices[self.turn] if self.turn < len(self.choices) else ("", [])
        self.turn += 1
        made = chosen(out)
        if known[0] != short(func) or len(known[1]) != len(made):
            self.lost = True
            return
        for x, other in zip(made, known[1], strict=True):
            found = [x[None]] if x.shape == other.shape else ways(x, other.shape, self.count)
            if not found:
                self.lost = True
                return
            found[0].copy_(other)
        numbers = flat(out)
        if len(numbers) == 2 and numbers[0].is_floating_point():  # values and their indices
            given = dict(zip((one.name for one in func._schema.arguments), args, strict=False))
            dim, x = (given | kwargs).get("dim", -1), args[0]
            if short(func) in TAKEN and isinstance(dim, int):
                index = made[0] if made[0].dim() == x.dim() else made[0].unsqueeze(dim)
                numbers[0].copy_(x.gather(dim, index).view(numbers[0].shape))


def chosen(out: Any) -> list[Tensor]:
    """Return the integer and boolean tensors in a call's result."""
    return [x for x in flat([out]) if not (x.is_floating_point() or x.is_complex())]


def storage(x: Tensor) -> StorageWeakRef | None:
    """Return a reference to a tensor's storage; None for a tensor without one."""
    try:
        return StorageWeakRef(x.untyped_storage())
    except (NotImplementedError, RuntimeError):
        return None
