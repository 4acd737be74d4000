"""Passes with some tokens exchanged for others: in batches, or one at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .accounts import Account, name
from .laws import Laws, enter
from .mixing import HEAD, Changed, RowWatch, groups, items_of, mixed, same
from .reordered import HeldMode, ReorderMode, StepMode
from .token_order import Stilled

MOST_BATCHES = 3  # over all stacks, so that a proof makes 8 passes
COPIES = 4  # copies of a layer's scores and of a module's output held at once
LEAST = 2**21  # numbers allowed in a batch even if the maps have fewer
Join = Callable[[Sequence[Changed]], Any]


@dataclass
class Exchanging:
    """Passes with exchanged tokens, in one stack or in several (only ``held``).

    Attributes:
        passes: Prover that makes them.
        changed: Changed texts.
        held: True if all choices, such as a top-k, are fixed to those of the unchanged text. Then
            only token order is tested.
        gaps: Results of `order_gap` for each pass, by account.
        torn: True if a pass ran other kernels, or a batch changed a text's numbers.
        other: True if Python numbers differed from those without these edits.
    """

    passes: Any
    changed: Sequence[Changed]
    held: bool = False
    gaps: dict[int, list[float | None]] = field(default_factory=dict)
    torn: bool = False
    other: bool = False

    def __post_init__(self) -> None:
        passes = self.passes
        self.watch = RowWatch(
            passes.module, passes.shapes, self.changed, passes.head, passes.mixing
        )

    @property
    def clean(self) -> bool:
        """True if all passes show no error."""
        gaps = [gap for found in self.gaps.values() for gap in found]
        return not self.torn and self.watch.first is None and math.inf not in gaps

    def in_batches(self, join: Join, count: int) -> bool:
        """Run all changed texts in ``count`` batches; return True if no error shows."""
        for numbers in (range(n, len(self.changed), count) for n in range(count)):
            try:
                self.run(numbers, partial(join, [self.changed[n] for n in numbers]))
            except Exception:  # the module takes no such batch
                return False
            if not self.clean:
                return False
        return True

    def in_turn(self) -> None:
        """Run the unchanged text, then each changed one."""
        before = self.run((), self.passes.call)
        for number, one in enumerate(self.changed):
            self.run((number,), one.call, before)

    def run(
        self, numbers: Sequence[int], call: Callable[[], Any], before: Stilled | None = None
    ) -> Stilled:
        """Make a pass with these changed texts and compare it with the unchanged one."""
        passes, some = self.passes, [self.changed[n] for n in numbers]
        still = Stilled(passes.accounts, passes.kernels, some, before, self.watch.known)
        mode = StepMode(passes.module, still, keep=False)
        if self.held:
            mode = HeldMode(passes.module, still, passes.choices, still.count)
        still.mode = mode
        several = len({one.stack for one in self.changed}) > 1  # then rows are not compared
        run = call if several else partial(self.watch.run, numbers, still.count, mode.kernels, call)
        still.out = passes.under(mode, run)
        if self.watch.end is not None:  # input of the head, row by row
            still.out, self.watch.end = [self.watch.end], None
        paths = [kernel.path for kernel in mode.kernels]
        fits = paths == [kernel.path for kernel in passes.kernels]
        fits = fits and not (isinstance(mode, HeldMode) and mode.lost)
        if before is None:
            self.other = self.other or mode.steps != passes.steps
        self.torn = self.torn or not fits or still.torn or self.watch.torn
        self.torn = self.torn or (self.held and self.other)
        for number, gaps in still.gaps.items():
            self.gaps.setdefault(number, []).extend(gaps if fits else [])
        if some and not self.held and crosses(passes.accounts, some[0].stack):
            self.compare_outputs(still, before)
        return still

    def compare_outputs(self, still: Stilled, before: Stilled | None) -> None:
        """Check if the output depends on tokens that it can read only by cross-attention."""
        shapes: list[Any] = [x.shape for x in self.passes.plain]
        if self.watch.head is not None:
            shapes = [self.passes.shapes[self.watch.head, HEAD, 0]]
        for n, (x, single) in enumerate(zip(still.out, shapes, strict=False)):
            items = items_of(x, single, still.count) if x.is_floating_point() else None
            if items is None:
                continue
            unchanged = items[0] if before is None else before.out[n]
            lines = unchanged.reshape(1, -1).float()
            size = lines.norm(dim=1, keepdim=True)
            for item in items:
                gap = (item.reshape(1, -1).float() - lines).norm(dim=1, keepdim=True)
                if self.watch.first is None and not same(size + gap, size, x.dtype):
                    self.watch.first = ""


def order_of_tokens(passes: Any, changed: Sequence[Changed], join: Join | None, laws: Laws) -> None:
    """Test with exchanged tokens that row 3 is token 3, and that no other path mixes tokens.

    Args:
        passes: Prover; failures to decide are added to its ``untold``.
        changed: Changed texts.
        join: Runs several of them in a batch, with the unchanged one first and last; used only if
            the batch law holds.
        laws: Earlier results; token order is added.
    """
    accounts: Sequence[Account] = passes.accounts
    if not accounts:
        return
    join = join if takes_batch(passes, laws) else None
    told: set[int] = set()
    still = all(account.parts for account in accounts)  # others still look at all tokens
    alike = groups(changed)
    most = MOST_BATCHES // max(1, len(alike) + passes.chose)
    made = [exchanging(passes, some, False, join, most) for some in alike]
    if made and (passes.chose or any(found.other for found in made)):
        mixing = any(found.watch.known for found in made)  # mixers are reset per stack
        texts = alike if mixing else [changed]
        made += [exchanging(passes, some, True, join, most) for some in texts]
    for found in made:
        for number, gaps in found.gaps.items():
            after = follows(accounts[number], found.watch)
            for gap in gaps:
                if gap is not None and not (after and gap == math.inf):
                    told.add(number)
                    enter(laws, accounts[number].record, {"token order": gap})
        passes.untold += mixed(found.watch) if still else []
        passes.mixers |= found.watch.known
    unheld = any(found.held and found.torn for found in made)
    left = {n for n, a in enumerate(accounts) if (unheld or n not in told) and a.parts}
    moved = reordered(passes, changed) if left else set()
    passes.untold += [
        f"{name(accounts[number].record)}: before it tokens are sorted, chosen or moved "
        "by their own numbers (sort, top-k, gather); that row 3 is word 3 is not proved"
        for number in sorted(left)
        if moved & set(accounts[number].parts)
    ]


def follows(account: Account, watch: RowWatch) -> bool:
    """Return True if an attention ran after the first changed row, outside of its block.

    Then its scores carry no information on its own token order.
    """
    if watch.first is None or watch.late is None or min(account.parts, default=-1) < watch.late:
        return False
    block, first = account.record.path, watch.first.rpartition(".")[0]
    return not (f"{watch.first}.".startswith(f"{block}.") or f"{block}.".startswith(f"{first}."))


def exchanging(
    passes: Any, changed: Sequence[Changed], held: bool, join: Join | None, most: int
) -> Exchanging:
    """Run these texts in batches, or one at a time if a batch shows an error."""
    found = Exchanging(passes, changed, held)
    if join is None or not found.in_batches(join, batches(passes, len(changed), max(1, most))):
        found = Exchanging(passes, changed, held)
        found.in_turn()
    return found


def takes_batch(passes: Any, laws: Laws) -> bool:
    """Return True if each text of a batch is known to give its single results."""
    gaps = [laws.get(name(account.record), {}).get("batch") for account in passes.accounts]
    return passes.separate and all(gap is not None and gap <= passes.tolerance for gap in gaps)


def batches(passes: Any, count: int, most: int) -> int:
    """Return the number of batches; each holds about as many numbers as the maps."""
    cells = [math.prod(account.shape) for account in passes.accounts]
    outputs = [tuple(x.shape) for x in passes.plain]
    inner = [math.prod(shape) for shape in passes.shapes.values() if shape not in outputs]
    one = COPIES * (max(cells) + max(inner, default=0))
    one += sum(map(math.prod, outputs)) if passes.head is None else 0
    return min(most, count, -(-count * one // max(sum(cells), LEAST)))


def crosses(accounts: Sequence[Account], stack: str | None) -> bool:
    """Return True if a stack's input reaches the output only by cross-attention."""
    return stack is not None and any(
        a.record.kind == "cross" and a.record.stack != stack for a in accounts
    )


def reordered(passes: Any, changed: Sequence[Changed]) -> set[int]:
    """Return the numbers of kernels that read tokens reordered by the input's values."""
    found: set[int] = passes.moved
    for one in {other.stack: other for other in reversed(changed)}.values():
        mode = ReorderMode(passes.module, passes.steps)
        passes.under(mode, one.call)
        found = found | mode.reordered
    return found
