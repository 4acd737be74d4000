"""Further tests of a proof: row numbers, statistics, positions, single heads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Protocol

from torch import Tensor, nn

from ...capture import Capture, CaptureRequest
from ...capture.records import AttentionRecord, NormRecord, ResidualRecord
from ...core.interventions import Causal, Intervention, ScalePositions, ScaleResidual
from .accounts import NEAR, Account, apart, name, near, selectors
from .kernels import Kernel, KernelMode
from .laws import nearer
from .numbering import (
    Disturbed,
    Tilted,
    changed,
    first_of_stairs,
    layers_apart,
    looked_at,
    misnumbered,
    numbers_apart,
    sharing,
)
from .own_edits import EditsAtKernels, lifted_and_cut, own_edits
from .vectors import NumbersMode, lines_apart, lines_of, vectors_apart

Errors = dict[str, float | None]  # by law
MOST_PLACES = 8  # places tested separately if single heads fail together
MOST_SHARED = 8  # shared layers that are examined
UNREACHED = (
    "On this input the output does not depend on what is attended to (a gate of 0, say), so that "
    "no edit can be proved by it"
)


class Passes(Protocol):
    """Interface of a prover: its data, and the passes that it can make."""

    module: nn.Module
    capture: Capture
    accounts: list[Account]
    kernels: list[Kernel]
    plain: list[Tensor]
    numbers_seen: NumbersMode
    matrices: CaptureRequest
    tolerance: float
    untold: list[str]

    def watched(
        self, edits: Intervention | None = None, *, request: CaptureRequest | None = None
    ) -> tuple[Capture, list[Tensor]]:
        """Capture a pass."""

    def under(self, mode: Any) -> list[Tensor]:
        """Run a pass under a dispatch mode."""

    def edited(self, edits: Intervention, expected: list[Tensor]) -> float | None:
        """Return the error of a captured edit's output; None if the edit is refused."""

    def key(self) -> int | None:
        """Return a key that can be hidden."""


def further(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """Yield further results for each attention; row and layer numbers only if wrong."""
    yield from numbers_of_rows(passes)
    yield from single_heads(passes)
    yield from lifted(passes)
    yield from among_what_ran(passes)
    reached = not passes.accounts or reaches(passes)
    unreached(passes, reached)
    gap = stream_apart(passes, reached)
    if passes.accounts and gap is not None and gap > passes.tolerance:
        yield passes.accounts[0].record, {"positions": gap}


def unreached(passes: Passes, reached: bool) -> None:
    """Note that no edit can be proved if the output depends on no weights."""
    if not reached:
        passes.untold.append(UNREACHED)


def numbers_of_rows(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """Yield wrong row and layer numbers, and the errors of each map's statistics."""
    seen: dict[str, AttentionRecord] = {}
    for account in passes.accounts:
        record = account.record
        stairs = first_of_stairs(looked_at(account, passes.kernels))
        if account.parts and misnumbered(record, stairs, seen.get(name(record))):
            yield record, {"first row": math.inf}
        gap = numbers_apart(record)
        if gap is not None:
            yield record, {"statistics": gap}
        seen[name(record)] = record
    for record in layers_apart(passes.accounts, followers(passes)):
        yield record, {"layer": math.inf}


def reaches(passes: Passes) -> bool:
    """Return True if the output depends on any shown weights; else edits have no effect."""
    numbers = [number for account in passes.accounts for number in account.parts]
    if not numbers:
        return True
    return (
        apart(passes.under(KernelMode(passes.module, Tilted(numbers), keep=False)), passes.plain)
        > 0
    )


def stream_apart(passes: Passes, reached: bool) -> float | None:
    """Return the error of position and residual stream edits, where it can be measured.

    Scaling by 1 must change nothing. Scaling by 2 must double the captured positions, and change
    the output if attention ``reached`` it.
    """
    gaps = []
    for edit in (ScaleResidual(value=1.0), ScalePositions(value=1.0), ScalePositions(value=2.0)):
        request = replace(passes.matrices, weights=lambda site: False, positions=True)
        try:
            run, out = passes.watched(Intervention((edit,)), request=request)
        except ValueError:  # the model has nothing of the kind
            continue
        if edit.value == 1:
            tables = run.positions
            gaps.append(apart(out, passes.plain))
            continue
        gaps += [apart([run.positions[word]], [2 * x]) for word, x in tables.items()]
        shown = any(bool(x.any()) for x in tables.values())
        if shown and reached and apart(out, passes.plain) == 0:
            gaps.append(math.inf)
    return max(gaps, default=None)


def among_what_ran(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """Yield the errors of captured queries, keys, norms and residual lengths against the run."""
    records = [account.record for account in passes.accounts]
    if not records:
        return
    lines: list[NormRecord | ResidualRecord] = [*passes.capture.norms, *passes.capture.residuals]
    seen = passes.numbers_seen
    close = passes.tolerance
    for account in passes.accounts:
        gap = vectors_apart(account, seen, close)
        if gap is not None:
            yield account.record, {"queries and keys": gap}
    worst = max((lines_apart(line, seen, close) for line in lines), default=0.0)
    if worst > close:
        yield records[0], {"norms": worst}


def numbers_of(capture: Capture) -> NumbersMode:
    """Return a mode that records the numbers needed to check a capture."""
    lines: list[NormRecord | ResidualRecord] = [*capture.norms, *capture.residuals]
    records = capture.attentions
    batches = [0 if r.weights is None else len(r.weights) for r in records]
    sizes = {
        batch * record.heads * math.prod(record.shape)
        for batch, record in zip(batches, records, strict=True)
    }
    sizes |= {record.scores.numel() for record in records if record.scores is not None}
    return NumbersMode(sizes, {length.numel() for x in lines for _, length in lines_of(x)})


def followers(passes: Passes) -> dict[int, list[int]]:
    """Return, by number, the accounts whose weights depend on one that shares their layer."""
    found: dict[int, list[int]] = {}
    for number in sharing(passes.accounts)[:MOST_SHARED]:
        mode = KernelMode(passes.module, Disturbed(list(passes.accounts[number].parts)))
        passes.under(mode)
        others = changed(passes.kernels, mode.kernels, near(passes.plain[0].dtype))
        found[number] = [n for n, a in enumerate(passes.accounts) if others & set(a.parts)]
    return found


def single_heads(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """Yield the errors of edits of single heads: all together, or per place if that fails."""
    told = [account for account in passes.accounts if account.parts]
    if not told:
        return
    together = of_heads(passes, told, hard(passes))
    if hard(passes) and (together is None or together > passes.tolerance):
        together = nearer(together, of_heads(passes, told, False))  # rounding may have decided
    if together is not None and together <= passes.tolerance:
        for account in told:
            yield account.record, {"single heads": together}
        return
    for account in told[:MOST_PLACES]:
        same = [other for other in told if name(other.record) == name(account.record)]
        yield account.record, {"single heads": of_heads(passes, same, False)}
    for account in told[MOST_PLACES:]:
        yield account.record, {"single heads": together}


def hard(passes: Passes) -> bool:
    """Return True if the precision allows hard attention at every place."""
    return passes.tolerance <= NEAR


def of_heads(passes: Passes, told: Sequence[Account], hard: bool) -> float | None:
    """Return the error of the probe's edits of single heads against those at the kernels."""
    places = {name(a.record): (a.record, named(a, passes.kernels)) for a in told}
    edits = own_edits(places.values(), passes.key(), hard)
    mode = KernelMode(passes.module, EditsAtKernels(edits, told), keep=False)
    return passes.edited(edits, passes.under(mode))


def named(account: Account, kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Return the fields that select one attention in an edit.

    For heads in a list, the path is that of the module around them.
    """
    paths = {kernels[number].path for number in account.parts}
    if len(paths) < 2:
        return selectors(account.record)
    steps = zip(*(path.split(".") for path in paths), strict=False)
    around = [step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps)]
    return selectors(account.record) | {"path": ".".join(around) or None}


def lifted(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """Yield the error of switching the causal mask off.

    All keys must be visible, and with all later links cut again, the output must be unchanged.
    Yields nothing if no mask is causal, or the probe refuses.
    """
    looks = looks_of(passes)
    causal = [look for look in looks if first_of_stairs(look[2]) is not None]
    once = len({name(record) for record, _, _ in looks}) == len(looks)
    edits = lifted_and_cut(looks) if causal and once else None
    if edits is None:
        return
    try:
        free, _ = passes.watched(Intervention((Causal(on=False),)), request=passes.matrices)
    except ValueError:
        return
    gap = passes.edited(edits, passes.plain)
    first, _, seen = causal[0]
    if still_hidden(free, first, seen):
        gap = math.inf
    for record, _, _ in causal:
        yield record, {"causal off": gap}


def looks_of(passes: Passes) -> list[tuple[AttentionRecord, dict[str, Any], Tensor]]:
    """Return the self-attentions, their selectors, and the keys that their rows look at."""
    return [
        (account.record, named(account, passes.kernels), looked_at(account, passes.kernels))
        for account in passes.accounts
        if account.record.kind == "self" and account.parts
    ]


def still_hidden(free: Capture, record: AttentionRecord, seen: Tensor) -> bool:
    """Return True if the first attention has no weight on later keys without a causal mask."""
    found = next((other for other in free.attentions if name(other) == name(record)), None)
    if found is None or found.weights is None:
        return True
    words = seen.any(2, keepdim=True)
    later = found.weights.cpu()[..., : seen.shape[-1]][~seen & words]
    return bool(later.numel()) and not bool((later > 0).any())
