"""What a proof tries beyond one law at a time: numbers beside the maps, places, single heads."""

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
MOST_PLACES = 8  # are tried one by one where single heads fail together
MOST_SHARED = 8  # layers that several modules share are looked at
UNREACHED = (
    "On this input the output does not depend on what is attended to (a gate of 0, say), so that "
    "no edit can be proved by it"
)


class Passes(Protocol):
    """What a prover knows, and the passes that it can make."""

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
        """A watched pass."""

    def under(self, mode: Any) -> list[Tensor]:
        """A pass under a dispatch mode."""

    def edited(self, edits: Intervention, expected: list[Tensor]) -> float | None:
        """How far a watched edit's output is from what is expected; None if it is refused."""

    def key(self) -> int | None:
        """A key that can be hidden."""


def further(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """For each attention what else was found of it; numbers of rows and layers only if wrong."""
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
    """Note that no edit can be proved where the output depends on no weights."""
    if not reached:
        passes.untold.append(UNREACHED)


def numbers_of_rows(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """Numbers of rows and layers where they are wrong, and the statistics beside each map."""
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
    """Whether the output depends on any weights that are shown: else all edits do nothing there."""
    numbers = [number for account in passes.accounts for number in account.parts]
    if not numbers:
        return True
    return (
        apart(passes.under(KernelMode(passes.module, Tilted(numbers), keep=False)), passes.plain)
        > 0
    )


def stream_apart(passes: Passes, reached: bool) -> float | None:
    """How far edits of positions and of the stream are from their words where these can tell: times
    1 nothing changes; times 2 what is shown of positions is twice as much, and the output changes
    if what is attended to ``reached`` it.
    """
    gaps = []
    for edit in (ScaleResidual(value=1.0), ScalePositions(value=1.0), ScalePositions(value=2.0)):
        request = replace(passes.matrices, weights=lambda site: False, positions=True)
        try:
            run, out = passes.watched(Intervention((edit,)), request=request)
        except ValueError:  # there is nothing of the kind
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
    """Whether queries, keys, norms and lengths of the stream, as shown, are numbers that ran."""
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
    """Return the mode that keeps what tells the numbers that a capture shows."""
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
    """By number the accounts whose weights follow from those of one that shares its layer."""
    found: dict[int, list[int]] = {}
    for number in sharing(passes.accounts)[:MOST_SHARED]:
        mode = KernelMode(passes.module, Disturbed(list(passes.accounts[number].parts)))
        passes.under(mode)
        others = changed(passes.kernels, mode.kernels, near(passes.plain[0].dtype))
        found[number] = [n for n, a in enumerate(passes.accounts) if others & set(a.parts)]
    return found


def single_heads(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """Edits of each head of each place, all at once; place by place where that fails."""
    told = [account for account in passes.accounts if account.parts]
    if not told:
        return
    together = of_heads(passes, told, hard(passes))
    if hard(passes) and (together is None or together > passes.tolerance):
        together = nearer(together, of_heads(passes, told, False))  # rounding may have chosen
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
    """Return whether numbers are fine enough to try hard attention at every place."""
    return passes.tolerance <= NEAR


def of_heads(passes: Passes, told: Sequence[Account], hard: bool) -> float | None:
    """How far the probe's edits of single heads are from the same at the kernels."""
    places = {name(a.record): (a.record, named(a, passes.kernels)) for a in told}
    edits = own_edits(places.values(), passes.key(), hard)
    mode = KernelMode(passes.module, EditsAtKernels(edits, told), keep=False)
    return passes.edited(edits, passes.under(mode))


def named(account: Account, kernels: Sequence[Kernel]) -> dict[str, Any]:
    """What names one attention in an edit; of heads in a list the module around them."""
    paths = {kernels[number].path for number in account.parts}
    if len(paths) < 2:
        return selectors(account.record)
    steps = zip(*(path.split(".") for path in paths), strict=False)
    around = [step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps)]
    return selectors(account.record) | {"path": ".".join(around) or None}


def lifted(passes: Passes) -> Iterator[tuple[AttentionRecord, Errors]]:
    """The causal mask switched off: every key is looked at, and with all later links cut again the
    model says what it said. Nothing where no mask is causal, or where the probe refuses."""
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
    """The self-attentions, what names each in an edit, and which keys its rows look at."""
    return [
        (account.record, named(account, passes.kernels), looked_at(account, passes.kernels))
        for account in passes.accounts
        if account.record.kind == "self" and account.parts
    ]


def still_hidden(free: Capture, record: AttentionRecord, seen: Tensor) -> bool:
    """Whether the first attention looks at no later key though its causal mask is off."""
    found = next((other for other in free.attentions if name(other) == name(record)), None)
    if found is None or found.weights is None:
        return True
    words = seen.any(2, keepdim=True)
    later = found.weights.cpu()[..., : seen.shape[-1]][~seen & words]
    return bool(later.numel()) and not bool((later > 0).any())
