"""Test for token mixing outside the attentions that are shown.

All shown attentions are restricted to each row's own token, and some tokens are exchanged. Rows of
other tokens must not change in any module's output; a change means that something else mixes
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from .kernels import flat
from .mixers import does_more, has_own_forward, mixers_in

T = TypeVar("T")
MIXED = "Tokens reach each other outside the attentions that are shown"
HEAD = -1  # call number that marks a visited input
MOST_TURNS = 16  # calls compared with one on the unchanged tokens
DIRECTIONS = 4  # random projections used to compare rows
ROUNDING, FEWEST = 64, 4  # units of the last digit allowed after routing; in half precision
CHUNK = 64  # rows converted to float32 at a time
Key = tuple[str, int, int]  # path of a module, number of its call, number of the tensor


@dataclass(frozen=True)
class Changed:
    """Call on the same input with some tokens exchanged.

    Attributes:
        tokens: Indices of the exchanged tokens.
        size: Number of tokens.
        call: Runs the module.
        stack: Stack that reads them; None if there is only one.
        made: The changed tokens.
    """

    tokens: tuple[int, ...]
    size: int
    call: Callable[[], Any]
    stack: str | None = None
    made: Tensor | None = None


class Suspect(NamedTuple):
    """Module output in which another token's row changed.

    ``late`` is the number of kernels run before, ``reordered`` True if the rows are those of the
    unchanged text in another order.
    """

    path: str
    late: int
    reordered: bool


@dataclass
class RowWatch:
    """Comparison of all module outputs' rows over passes with exchanged tokens.

    Attributes:
        module: The module.
        shapes: Shapes of the outputs for one text.
        changed: Changed texts.
        head: Submodule that makes the output; not compared.
        mixers: Submodules that mix tokens by design, with the name of their kind.
        known: Mixers that did mix tokens.
        first: Path of the first other submodule whose output changes in another token's row.
        late: Number of kernels run before that.
        torn: True if a batch gave equal texts different numbers.
        end: Last input of the head.
    """

    module: nn.Module
    shapes: dict[Key, tuple[int, ...]]
    changed: Sequence[Changed]
    head: str | None = None
    mixers: Mapping[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    first: str | None = None
    late: int | None = None
    torn: bool = False
    end: Tensor | None = None
    _rows: dict[Key, list[Tensor]] = field(default_factory=dict)
    _unchanged: dict[Key, Tensor] = field(default_factory=dict)
    _whole: dict[Key, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size = self.changed[0].size
        self._feature_size = self.size in {n for x in self.module.parameters() for n in x.shape}
        self._others = [
            torch.tensor([n for n in range(self.size) if n not in one.tokens], dtype=torch.long)
            for one in self.changed
        ]

    def run(
        self, numbers: Sequence[int], count: int, kernels: Sequence[Any], call: Callable[[], T]
    ) -> T:
        """Run a call and compare the other rows with those of the unchanged text.

        Args:
            numbers: Indices of the changed texts; empty for the unchanged one, which comes first.
            count: Texts of a batch, with the unchanged one first and last; 1 for a single text.
            kernels: Growing list of the kernels that ran.
            call: Runs the texts.
        """

        def visit(path: str, mixer: str, key: Key, x: Tensor) -> None:
            if key[1] == HEAD:
                self.end = x
            items = items_of(x, self.shapes.get(key, ()), count)
            if items is None:
                self.torn = self.torn or (count > 1 and self._lost(key, x))
                return
            if not self._axes(items[0], bool(mixer)):
                return
            if not numbers:
                self._rows[key] = [self._digest(items[0], others) for others in self._others]
                self._unchanged[key] = self._digest(items[0], torch.arange(self.size))
                if mixer:
                    self._whole[key] = items[0].detach().clone()
                return
            batch = count > 1
            if not batch and key not in self._rows:
                return
            if batch and not torch.equal(items[0], items[-1]):
                one, other = (self._digest(items[n], torch.arange(self.size)) for n in (0, -1))
                self.torn = self.torn or not same(one, other, x.dtype)
            whole = items[0] if batch else self._whole.get(key)
            for number, item in zip(numbers, items[1:-1] if batch else items, strict=True):
                others = self._others[number]
                before = self._digest(items[0], others) if batch else self._rows[key][number]
                if self.first is not None:
                    continue
                now = self._digest(item, others)
                if same(now, before, x.dtype):
                    # Rows sorted by a router return to their tokens in an enclosing module. A
                    # change that is only scaled down there has mixed tokens.
                    if key[2] == 0 and suspects.get(number):
                        unused = torch.equal(now, before)
                        suspects[number] = [
                            one
                            for one in suspects[number]
                            if not (inside(one.path, path) and (unused or one.reordered))
                        ]
                    continue
                if not mixer or whole is None:
                    known = suspects.setdefault(number, [])
                    if not known or known[-1].reordered:
                        known.append(Suspect(path, len(kernels), only_moves_rows(key, items)))
                    continue
                self.known[path] = mixer
                self._put_back(item, whole, others)

        def only_moves_rows(key: Key, items: Tensor) -> bool:
            """Return True if at most as many rows are new as tokens were exchanged."""
            every = torch.arange(self.size)
            before = self._digest(items[0], every) if count > 1 else self._unchanged[key]
            new = 0
            for item in items[1:-1] if count > 1 else items:
                for rows in self._digest(item, every).split(CHUNK):
                    new += int((~near(rows, before, item.dtype).any(1)).sum())
            return new <= sum(len(self.changed[number].tokens) for number in numbers)

        suspects: dict[int, list[Suspect]] = {}
        found = watched(self.module, call, visit, self.mixers, self.head)
        left = next((found[0] for found in suspects.values() if found), None)
        if self.first is None and left is not None:
            self.first, self.late = left.path, left.late
        return found

    def _lost(self, key: Key, x: Tensor) -> bool:
        """Return True if a batch output belongs to a module that has token rows for one text alone.

        In the batch, it ran more often or in another shape.
        """
        path, _, number = key
        known = self.shapes.get(key, self.shapes.get((path, 0, number)))
        other = key not in self.shapes or known != tuple(x.shape)
        return known is not None and self.size in known and other

    def _axes(self, x: Tensor, padded: bool = False) -> list[int]:
        """Return the axes that may be tokens.

        For a ``padded`` convolution, the last axis, whose extra rows are cut off later.
        """
        axes = [axis for axis, size in enumerate(x.shape) if size == self.size]
        if padded and not axes and x.shape[-1:] > (self.size,):
            return [x.dim() - 1]
        only_features = axes == [x.dim() - 1] and (self._feature_size or x.dim() < 2)
        return [] if only_features else axes

    def _others_in(self, x: Tensor, axis: int, others: Tensor) -> Tensor:
        """Return the indices of other tokens, and of rows after the last token."""
        return torch.cat((others, torch.arange(self.size, x.shape[axis]))).to(x.device)

    def _digest(self, x: Tensor, others: Tensor) -> Tensor:
        """Project the rows of other tokens to ``[row, 1 + direction]``; column 0 is their norm."""
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
        """Restore the rows of other tokens to their values before the exchange."""
        axis = self._axes(x, True)[0]
        others = self._others_in(x, axis, others)
        x.index_copy_(axis, others, before.index_select(axis, others))


def watched(
    module: nn.Module,
    call: Callable[[], T],
    visit: Callable[[str, str, Key, Tensor], None],
    mixers: Mapping[str, str],
    head: str | None = None,
) -> T:
    """Run a call and visit each floating-point tensor that a submodule returns.

    ``visit`` gets the path, the kind if the submodule mixes tokens, the key and the tensor. The
    ``head``, which maps each row separately to the output, gets only one row; its input is visited
    instead of its output.
    """
    calls: dict[str, int] = {}
    ended = False

    def enter_head(part: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        nonlocal ended
        ended = True
        with _disable_current_modes():
            visit(str(head), "", (str(head), HEAD, 0), given[0])
            return (given[0][(slice(1),) * (given[0].dim() - 1)],)

    def hook_of(path: str, mixer: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(part: nn.Module, given: Any, out: Any) -> None:
            if ended:
                return
            turn = calls[path] = calls.get(path, -1) + 1
            for number, x in enumerate(tensors_in(out)):
                if x.is_floating_point():
                    with _disable_current_modes():
                        visit(path, mixer, (path, turn, number), x)

        return hook

    with ExitStack() as hooks, torch.no_grad():
        inside = "\n"  # prefix of a mixer, whose parts are skipped
        for path, part in module.named_modules():
            if path.startswith(inside):
                continue
            mixer = mixers.get(path, "")
            inside = f"{path}." if mixer else inside
            hooks.callback(part.register_forward_hook(hook_of(path, mixer)).remove)
            if path == head:
                hooks.callback(part.register_forward_pre_hook(enter_head).remove)
        return call()


def inside(path: str, around: str) -> bool:
    """Return True if a module is part of another one."""
    return path != around and f"{path}.".startswith(around and f"{around}.")


def shapes_of(
    module: nn.Module, call: Callable[[], list[Tensor]], calls: Sequence[Any]
) -> tuple[list[Tensor], dict[Key, tuple[int, ...]], str | None, dict[str, str]]:
    """Return a call's result, the shapes of submodule outputs, the head, and the mixers.

    The head is the path of the last linear map, if it widens its input and no other call follows;
    None without one. Each output row then depends on one row of its input. The shape of its input
    has call number `HEAD`.

    Args:
        module: The module.
        call: Runs it.
        calls: Growing list of all calls.
    """
    shapes: dict[Key, tuple[int, ...]] = {}
    last: tuple[str, int, Tensor | None] = ("", 0, None)
    mixers, begun = mixers_in(module), dict[str, int]()

    def note(path: str, mixer: str, key: Key, x: Tensor) -> None:
        nonlocal last
        if path in begun and does_more(calls[begun[path] :]):
            mixers.pop(path, None)
        shapes[key] = tuple(x.shape)
        if path and len(calls) > last[1]:
            last = path, len(calls), x

    def begin(path: str) -> Callable[[nn.Module, Any], None]:
        return lambda part, given: begun.update({path: len(calls)})

    with ExitStack() as before:
        for path in mixers:
            part = module.get_submodule(path)
            if has_own_forward(part):
                before.callback(part.register_forward_pre_hook(begin(path)).remove)
        out = watched(module, call, note, dict(mixers))
    path, count, made = last
    part = module.get_submodule(path)
    ends = len(calls) == count and len(out) == 1 and made is not None and path not in many(shapes)
    if not ends or made is None or type(part) is not nn.Linear or not path or made.dim() < 2:
        return out, shapes, None, mixers
    hooks = len(part._forward_hooks) + len(part._forward_pre_hooks) + ("forward" in vars(part))
    if hooks or out[0] is not made:
        return out, shapes, None, mixers
    if part.out_features < part.in_features:
        return out, shapes, None, mixers
    shapes[path, HEAD, 0] = (*made.shape[:-1], part.in_features)
    return out, shapes, path, mixers


def many(shapes: dict[Key, tuple[int, ...]]) -> set[str]:
    """Return the modules that ran more than once."""
    return {path for path, turn, _ in shapes if turn}


def ways(x: Tensor, single: Sequence[int], count: int) -> list[Tensor]:
    """Return the views ``[item, *single]`` of a batched tensor; none if it did not grow."""
    if count == 1:
        return [x[None]] if tuple(x.shape) == tuple(single) else []
    grown = [n for n, (one, other) in enumerate(zip(x.shape, single, strict=False)) if one != other]
    if x.dim() != len(single) or len(grown) != 1 or x.shape[grown[0]] != count * single[grown[0]]:
        return []
    axis, size = grown[0], single[grown[0]]
    found = [x.unflatten(axis, (count, size)).movedim(axis, 0)]
    return found if size == 1 else [*found, x.unflatten(axis, (size, count)).movedim(axis + 1, 0)]


def same(now: Tensor, before: Tensor, dtype: torch.dtype) -> bool:
    """Return True if digests of rows are equal except for rounding."""
    return bool(((now - before).abs() <= _rounding(before, dtype)).all())


def near(now: Tensor, before: Tensor, dtype: torch.dtype) -> Tensor:
    """Return True where digests of rows are equal up to rounding, ``[row now, row before]``."""
    return ((now[:, None] - before).abs() <= _rounding(before, dtype)).all(-1)


def _rounding(digest: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the allowed difference of digests, ``[row, 1]``."""
    eps = torch.finfo(dtype).eps
    return max(FEWEST * eps, min(ROUNDING * eps, 1e-5)) * digest[:, :1].clamp(min=1e-30)


def items_of(x: Tensor, single: Sequence[int], count: int) -> Tensor | None:
    """Return the view ``[item, *single]`` of a batch whose first and last items are alike.

    None if the tensor did not grow with the batch.
    """
    found = ways(x, single, count)
    if len(found) < 2:
        return found[0] if found else None
    return min(found, key=lambda way: float((way[0] - way[-1]).detach().float().norm()))


def tensors_in(out: Any) -> list[Tensor]:
    """Return the tensors in a module's output."""
    if hasattr(out, "to_tuple"):  # an output object of Transformers
        out = out.to_tuple()
    return flat(out)


def groups(changed: Sequence[Changed]) -> list[list[Changed]]:
    """Return calls grouped by sequence, in groups whose rows fit into memory."""
    alike = [list(some) for _, some in groupby(changed, lambda one: (one.stack, one.size))]
    return [some[n : n + MOST_TURNS] for some in alike for n in range(0, len(some), MOST_TURNS)]


def mixed(watch: RowWatch) -> list[str]:
    """Return a sentence if tokens are mixed outside the attentions that are shown."""
    if watch.first is None:
        return []
    where = f"first at the output of {watch.first}" if watch.first else "at the model's output"
    return [
        f"{MIXED}: while each row looks at "
        f"its own token alone, an exchanged token changes another row, {where}"
    ]
