"""Proof of a capture: accounts for all kernels, and measures axes and edits on the same input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...capture import Capture, CaptureRequest, probe
from ...capture.torch_function_mode import InterceptCalls
from ...core.interventions import Intervention
from ...core.trace_parts import KernelRun
from .accounts import NEAR, Account, accounts, apart, name, near, selectors
from .brief import prove_laws
from .exchanging import Join, order_of_tokens
from .further import further, numbers_of
from .kernels import Kernel, KernelMode, flat
from .laws import LAWS, SEEN, Law, LawAtKernels, Laws, apart_at, enter, nearer
from .mixing import MIXED as MIXED
from .mixing import Changed as Changed
from .mixing import shapes_of
from .reordered import ReorderMode
from .rows import first_row_gap, numbers_gap, rows_gap

Call = Callable[[], Any]
MOST_SITES = 64  # sites tested separately if a law fails for all together
NOTHING = CaptureRequest(weights=lambda site: False, statistics=False, norms=False, residuals=False)
EVERYTHING = CaptureRequest(scores=lambda site: True, qkv=lambda site: True)


@dataclass
class Proof:
    """Proof result on one input.

    Attributes:
        difference: Difference of captured and plain output.
        kernels: Kernels that ran, with their role.
        laws: Error of each law, by site: at most ``tolerance`` if it holds, None if unknown.
        untold: Reasons for unknown results.
        tolerance: Allowed error.
    """

    difference: float
    kernels: tuple[KernelRun, ...] = ()
    laws: Laws = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    tolerance: float = NEAR

    @property
    def holds(self) -> bool:
        """True if everything was proved."""
        errors = [error for found in self.laws.values() for error in found.values()]
        told = bool(errors) and not self.untold
        told = told and all(e is not None and e <= self.tolerance for e in errors)
        told = told and self.difference <= self.tolerance
        return told and all(kernel.fate != MISSED for kernel in self.kernels)


MISSED = KernelRun.MISSED


@dataclass(frozen=True)
class Seen:
    """Captured and plain pass of the call that were made before.

    Attributes:
        capture: Capture with weights, scores, queries, keys and values of all sites.
        difference: Difference (`apart`) of the captured and the plain output.
        keep: Parts of the capture needed later; other scores and values are released.
    """

    capture: Capture
    difference: float
    keep: tuple[str, ...] = ()


def prove(
    module: nn.Module, call: Call, *, stack: str = "encoder", alone: Call | None = None,
    together: Call | None = None, changed: Sequence[Changed] = (), join: Join | None = None,
    seen: Seen | None = None, brief: bool = False, asked: Intervention | None = None,
) -> Proof:  # fmt: skip
    """Prove the capture of one call of a module, and the effect of edits there.

    ``call`` runs the module and returns its output; ``stack`` names a lone self-attention (as in
    `CaptureRequest`). ``together`` runs a batch with the input of ``alone`` (default ``call``) as
    first item; with ``brief``, a batch of three with the input in the middle. Without it the batch
    axis is not tested. ``changed`` are calls with some tokens exchanged. They test that row 3 is
    token 3 and that nothing else mixes tokens. ``join`` runs several of them in a batch, with the
    input first and last. This takes about twenty passes; the module is not changed.
    """
    prover = Prover(module, call, stack, seen)
    if brief:
        return prover.prove_briefly(together, changed, join, asked or Intervention())
    return prover.prove(alone, together, changed)


class Prover:
    """Passes of one proof: a captured one, one over the kernels, and two for each law."""

    def __init__(self, module: nn.Module, call: Call, stack: str, seen: Seen | None = None):
        self.module, self.call = module, call
        self.nothing = replace(NOTHING, stack=stack)
        self.matrices = replace(self.nothing, weights=lambda site: True)
        self.untold: list[str] = []
        self.mixers: dict[str, str] = {}
        self.place = 0  # position of the input in the batch
        self.separate = True  # True if the batch does not change its results
        if seen is None:
            capture, out = self.watched(request=replace(EVERYTHING, stack=stack))
            with torch.no_grad():
                seen = Seen(capture, apart(out, flat(call())))
            del out
        self.capture, self.difference, self.keep = seen.capture, seen.difference, seen.keep
        self.numbers_seen = numbers_of(self.capture)
        mode = ReorderMode(module, shown=[record.weights for record in self.capture.attentions])
        with mode:  # the numbers mode passes calls on to it
            found = shapes_of(module, partial(self.under, self.numbers_seen), mode.program.calls)
        self.plain, self.shapes, self.head, self.mixing = found
        self.kernels, self.moved, self.steps = mode.kernels, mode.reordered, mode.steps
        self.choices, self.chose, self.reads = mode.choices, mode.chose, mode.reads
        self.accounts = accounts(self.capture.attentions, self.kernels)
        self.program = mode.program
        self.program.close([n for a in self.accounts for n in a.record.shape])
        matched = {number for account in self.accounts for number in account.parts}
        self.tolerance = tolerance(
            [x.dtype for x in self.plain] + [self.kernels[number].dtype for number in matched]
        )

    def prove(
        self, alone: Call | None, together: Call | None, changed: Sequence[Changed] = ()
    ) -> Proof:
        """Prove all laws, each at all sites together, or one by one where that fails."""
        laws = self.of_input()
        order_of_tokens(self, changed, None, laws)
        self.try_each(laws, together, alone)
        for record, errors in further(self):
            enter(laws, record, errors)
        return self.made(laws)

    def prove_briefly(
        self,
        together: Call | None,
        changed: Sequence[Changed],
        join: Join | None,
        asked: Intervention,
    ) -> Proof:
        """Prove what depends on the text, and the laws of the module unless they are known."""
        laws, self.place = self.of_input(), 1
        prove_laws(self, laws, partial(order_of_tokens, self, changed, join), together, asked)
        return self.made(laws)

    def of_input(self) -> Laws:
        """Return the laws that the first passes show: numbers, rows, and growth of the keys."""
        laws: Laws = {}
        begun = [a.record for a in self.accounts if not a.record.offset and not a.again]
        runs = Counter(map(name, begun))  # later rows: see growth of the keys
        self.untold += [
            f"{where}: {count} attentions ran there, and an edit of it acts on all of them; "
            "whether they are heads or parts of one attention is not told"
            for where, count in runs.items()
            if count > 1
        ]
        for account in self.accounts:
            read = self.reads.untold(sorted(account.parts))
            self.untold += [f"{name(account.record)}: {read}"] if read else []
            told = {"kernel": numbers_gap(self, account), "rows": rows_gap(self, account)}
            enter(laws, account.record, told | first_row_gap(self, account))
        return laws

    def try_each(self, laws: Laws, together: Call | None = None, alone: Call | None = None) -> None:
        """Test the batch and each law separately."""
        for site, errors in self.batch(alone, together).items():
            laws.setdefault(site, {}).update(errors)
        for law in self.tried():
            for site, error in self.law(law).items():
                laws.setdefault(site, {})[law.name] = error
            if law.name == "heads" and not self.holds(laws, law):  # an einsum may transpose
                for site, error in self.law(replace(law, interleaved=True)).items():
                    laws[site][law.name] = nearer(error, laws[site][law.name])

    def made(self, laws: Laws) -> Proof:
        """Return the proof with these laws."""
        fates = tuple(self.fate(number, kernel) for number, kernel in enumerate(self.kernels))
        fates += tuple(KernelRun(kind, path, 0, 0, kind) for path, kind in self.mixers.items())
        pairs = dict.fromkeys(kernel.path for kernel in self.kernels if kernel.summed == "sub")
        apart = KernelRun.DIFFERENCE
        fates += tuple(KernelRun(apart, path, 0, 0, apart) for path in pairs)
        untold = tuple(dict.fromkeys(self.untold))
        return Proof(self.difference, fates, laws, untold, self.tolerance)

    def let_go(self) -> None:
        """Release scores and values that no later law compares, unless requested."""
        for account in self.accounts[1:]:  # hard attention needs the first scores
            if "scores" not in self.keep:
                account.record.scores = None
        for account in self.accounts:
            if "qkv" not in self.keep:
                account.record.v = None

    def holds(self, laws: Laws, law: Law) -> bool:
        """Return True if a law holds at all sites."""
        errors = [found[law.name] for found in laws.values()]
        return all(error is not None and error <= self.tolerance for error in errors)

    def watched(
        self,
        edits: Intervention | None = None,
        call: Call | None = None,
        request: CaptureRequest | None = None,
    ) -> tuple[Capture, list[Tensor]]:
        """Capture a pass; return the capture and the output tensors."""
        with torch.no_grad(), probe(self.module, edits, request or self.nothing) as capture:
            out = (call or self.call)()
        return capture, flat(out)

    def under(self, mode: Any, call: Call | None = None) -> list[Tensor]:
        """Return the output tensors of a pass under a dispatch mode.

        `InterceptCalls` keeps PyTorch's modules from running whole layers as one kernel.
        """
        with torch.no_grad(), InterceptCalls(), mode:
            return flat((call or self.call)())

    def batch(
        self, alone: Call | None, together: Call | None
    ) -> dict[str, dict[str, float | None]]:
        """Test for each attention that an item of the batch gives its single results."""
        if together is None:
            return {}
        try:
            one = self.capture
            if alone is not None:
                one, _ = self.watched(call=alone, request=self.matrices)
            both, out = self.watched(call=together, request=self.matrices)
        except Exception as error:
            self.untold.append(
                f"The batch could not be told: the model does not take one ({error})"
            )
            return {name(account.record): {"batch": None} for account in self.accounts}
        rows = [
            x[self.place * len(y) :][: len(y)] if x.dim() and y.dim() else x
            for x, y in zip(out, self.plain, strict=False)
        ]
        self.separate = apart(rows, self.plain) <= self.tolerance
        pairs = list(zip(one.attentions, both.attentions, strict=False))
        same = len(one.attentions) == len(both.attentions) == len(self.accounts)
        found: Laws = {}
        for account, (single, double) in zip(self.accounts, pairs, strict=False):
            alike = apart_at(single, double, self.place) if same else None
            if alike is None:
                self.untold.append(
                    f"{name(account.record)}: its first axis does not grow with the batch of the "
                    "input, so that it cannot be told for the batch"
                )
            enter(found, account.record, {"batch": alike})
        return found

    def tried(self) -> list[Law]:
        """Return the laws that this input can show: a hidden key must leave a key for every row."""
        records = [account.record for account in self.accounts]
        if not records:
            return []
        heads = min(record.heads for record in records)
        key = self.key()
        laws = [Law(law, key or 0, heads - 1) for law in LAWS]
        return [law for law in laws if law.name != "hidden key" or key is not None]

    def key(self) -> int | None:
        """Return a key of every attention that is no row's only key; None without one."""
        fits: set[int] | None = None
        for record in (account.record for account in self.accounts):
            if record.weights is None:
                continue
            rows = record.weights[..., : record.shape[1]].amax((0, 1, 2))
            good = {int(k) + record.first_key for k in (rows < 1 - SEEN).nonzero()}
            fits = good if fits is None else fits & good
        return min(fits or (), key=lambda k: (k == 0, k), default=None)

    def law(self, law: Law) -> dict[str, float | None]:
        """Return the error of a law at each site: all together, or one by one if that fails."""
        told = [account for account in self.accounts if account.parts]
        sites = [name(account.record) for account in self.accounts]
        found: dict[str, float | None] = dict.fromkeys(sites)
        if not told:
            return found
        together = None
        if len(told) == len(self.accounts):
            together = self.measured(law, law.intervention, told)
        if together is not None and together <= self.tolerance:
            return dict.fromkeys(sites, together)
        for account in told[:MOST_SITES]:
            edit = replace(law.edit, **selectors(account.record))
            where = name(account.record)
            same = [a for a in told if name(a.record) == where]
            found[where] = self.measured(law, Intervention((edit,)), same)
        return found

    def measured(self, law: Law, edits: Intervention, told: Sequence[Account]) -> float | None:
        """Return the difference of a probe's edit and the law at the kernels; None if refused."""
        mode = KernelMode(self.module, self.law_at_kernels(law, told), keep=False)
        return self.edited(edits, self.under(mode))

    def law_at_kernels(self, law: Law, told: Sequence[Account] | None = None) -> LawAtKernels:
        """Return a law at the kernels, for all attentions or the given ones."""
        known = enumerate(self.kernels)
        bare = {n for n, kernel in known if kernel.projected is None or kernel.summed}
        for account in self.accounts:  # each expert takes some of the heads
            for n, kernel in ((n, self.kernels[n]) for n in account.parts):
                whole = account.record.heads * kernel.width
                if kernel.shared() and kernel.projected and kernel.projected[-1] < whole:
                    bare.add(n)
        widths = {n: kernel.width for n, kernel in enumerate(self.kernels)}
        return LawAtKernels(law, self.accounts if told is None else told, bare, widths)

    def edited(self, edits: Intervention, expected: list[Tensor]) -> float | None:
        """Return the error of a captured edit's output; None if the edit is refused."""
        try:
            _, got = self.watched(edits)
        except ValueError as error:
            self.untold.append(str(error))
            return None
        return apart(got, expected)

    def fate(self, number: int, kernel: Kernel) -> KernelRun:
        """Return the role of a kernel: a shown attention, something else, or missed."""
        rows, keys = kernel.shape
        where = [name(a.record) for a in self.accounts if number in a.parts]
        others = self.capture.others
        if where:
            fate = where[0]
        elif kernel.outside:
            fate = "outside the probed module"
        elif kernel.met == "opaque":
            fate = "one kernel for a whole layer"
        elif kernel.met == "product":
            fate = others.get((kernel.path, keys), MISSED)
        else:
            fate = kernel.met or others.get((kernel.path, keys), "not multiplied")
        return KernelRun(kernel.name, kernel.path, rows, keys, fate)


def tolerance(types: Sequence[torch.dtype]) -> float:
    """Return the rounding tolerance for outputs and softmaxes of these precisions."""
    return max((near(dtype) for dtype in types if dtype.is_floating_point), default=NEAR)


def proof_or_reason(make: Callable[[], Proof]) -> Proof:
    """Return the proof of ``make``, or an empty one with the error that PyTorch raised."""
    try:
        return make()
    except (RuntimeError, TypeError, IndexError) as error:
        reason = f"the passes of the proof ended in an error ({type(error).__name__}: {error}"
        return Proof(float("nan"), untold=(reason.partition("\n")[0] + ")",))
