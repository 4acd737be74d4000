"""Where tokens reach each other outside the attentions that are shown.

Each attention that is shown looks at its own token alone, and some tokens are exchanged. A row of
any module's output that is none of theirs must stay what it was; where one changes, something else
mixes tokens.
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
HEAD = -1  # the number of a call whose input is visited
MOST_TURNS = 16  # calls that are compared with one on the unchanged tokens
DIRECTIONS = 4  # random directions onto which rows are projected to be compared
ROUNDING, FEWEST = 64, 4  # units of the last digit that routing may leave; in half precision
CHUNK = 64  # rows that are widened to float32 at a time
Key = tuple[str, int, int]  # path of a module, number of its call, number of the tensor


@dataclass(frozen=True)
class Changed:
    """A call on the same input with some tokens exchanged for others.

    Attributes:
        tokens: their numbers.
        size: how many tokens there are.
        call: runs the module.
        stack: the stack that reads them; None if there is only one.
        made: the changed tokens.
    """

    tokens: tuple[int, ...]
    size: int
    call: Callable[[], Any]
    stack: str | None = None
    made: Tensor | None = None


class Suspect(NamedTuple):
    """A module's output in which another token's row changed.

    ``late`` is how many kernels had run by then, ``reordered`` whether the rows are those of the
    unchanged text in another order.
    """

    path: str
    late: int
    reordered: bool


@dataclass
class RowWatch:
    """Watches the rows of all module outputs over passes in which some tokens are exchanged.

    ``shapes`` are those of the outputs for one text, ``head`` the module that makes the output and
    is left out. ``mixers`` are modules that mix tokens by their kind, with its name, and ``known``
    those of them that did; ``first`` is the path of the first other module whose output shows a
    change in another token's row, and ``late`` how many kernels had run by then. ``torn`` where a
    batch gave equal texts other numbers. ``end`` is what the head got last.
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
            numbers: of the changed texts in it; none for the unchanged one, which comes first.
            count: the texts of a batch, where the unchanged one stands before and behind them; 1
                where a text runs alone.
            kernels: the list of those that ran, which grows.
            call: runs them.
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
                    # Rows that a router sorted come back to their tokens in a module around it.
                    # A change that is only scaled down there has mixed tokens.
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
            """Return whether no more rows are new than tokens were exchanged."""
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
        """Tell whether an output of a batch is of a module that shows rows for one text alone: it
        ran more often, or in another shape."""
        path, _, number = key
        known = self.shapes.get(key, self.shapes.get((path, 0, number)))
        other = key not in self.shapes or known != tuple(x.shape)
        return known is not None and self.size in known and other

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


def watched(
    module: nn.Module,
    call: Callable[[], T],
    visit: Callable[[str, str, Key, Tensor], None],
    mixers: Mapping[str, str],
    head: str | None = None,
) -> T:
    """Run a call and visit each tensor of numbers that a part of a module returns: its path, its
    kind if it mixes tokens, its key and itself.

    The ``head``, which turns each row alone into the output, gets one row, and its input is visited
    in the place of its output.
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
        inside = "\n"  # of a mixer: its parts are not looked at
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
    """Return whether a module is a part of another one."""
    return path != around and f"{path}.".startswith(around and f"{around}.")


def shapes_of(
    module: nn.Module, call: Callable[[], list[Tensor]], calls: Sequence[Any]
) -> tuple[list[Tensor], dict[Key, tuple[int, ...]], str | None, dict[str, str]]:
    """Return what a call gives, the shapes of what the parts of its module return, the head, and
    the modules that mix tokens by their kind.

    The head is the path of a linear map behind which no other call runs and which widens its input:
    each row of the output is made of one row of its input. None without one. Its input's shape is
    that of its call `HEAD`.

    Args:
        module: the module.
        call: runs it.
        calls: the list of all calls, which grows as they run.
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
    """Return the views ``[item, *single]`` of a tensor of several items, each of which has a shape
    alone; none where it did not grow with them."""
    if count == 1:
        return [x[None]] if tuple(x.shape) == tuple(single) else []
    grown = [n for n, (one, other) in enumerate(zip(x.shape, single, strict=False)) if one != other]
    if x.dim() != len(single) or len(grown) != 1 or x.shape[grown[0]] != count * single[grown[0]]:
        return []
    axis, size = grown[0], single[grown[0]]
    found = [x.unflatten(axis, (count, size)).movedim(axis, 0)]
    return found if size == 1 else [*found, x.unflatten(axis, (size, count)).movedim(axis + 1, 0)]


def same(now: Tensor, before: Tensor, dtype: torch.dtype) -> bool:
    """Return whether digests of rows are equal but for rounding."""
    return bool(((now - before).abs() <= _rounding(before, dtype)).all())


def near(now: Tensor, before: Tensor, dtype: torch.dtype) -> Tensor:
    """Return which digests of rows are equal but for rounding, ``[row now, row before]``."""
    return ((now[:, None] - before).abs() <= _rounding(before, dtype)).all(-1)


def _rounding(digest: Tensor, dtype: torch.dtype) -> Tensor:
    """Return by how much digests of rows ``[row, 1]`` may differ."""
    eps = torch.finfo(dtype).eps
    return max(FEWEST * eps, min(ROUNDING * eps, 1e-5)) * digest[:, :1].clamp(min=1e-30)


def items_of(x: Tensor, single: Sequence[int], count: int) -> Tensor | None:
    """Return the view ``[item, *single]`` of a batch whose first and last items are alike; None
    where the tensor did not grow with the batch."""
    found = ways(x, single, count)
    if len(found) < 2:
        return found[0] if found else None
    return min(found, key=lambda way: float((way[0] - way[-1]).detach().float().norm()))


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
