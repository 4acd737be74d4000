"""Proof in few passes: the laws of a module are tested together, once, and cached.

Numbers of each map, of its queries, keys and norms, and the output depend on the text and are
proved on every text. Laws of axes and edits depend on the module and on the form of its attentions;
they are tested again only if these differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...capture import Capture, CaptureRequest
from ...core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    ScalePositions,
    ScaleResidual,
    ShufflePositions,
    Temperature,
    UniformHead,
    Window,
)
from ...core.numerics import COLD
from .accounts import Account, apart, name
from .further import (
    Passes,
    among_what_ran,
    lifted,
    looks_of,
    named,
    numbers_of_rows,
    reaches,
    single_heads,
    stream_apart,
    unreached,
)
from .kernels import KernelMode
from .laws import RADIUS, VALUE, Law, LawAtKernels, Laws, enter
from .mixing import HEAD, Key
from .numbering import first_of_stairs
from .own_edits import EditsAtKernels, hidden_links, own_edits
from .program import KNOWN, MOST_KNOWN, Program, Remembered, longer, remembered, signature

ORDER = "token order"
TEXTS = 3  # batch size with the input in the middle, neither first nor last
HALF = 0.5  # scale of a head; its other edits stay visible
STREAM = (ScalePositions, ShufflePositions, ScaleResidual)
Links = tuple[tuple[int, int], ...]


class Prover(Passes, Protocol):
    """Interface of a prover that can test laws separately, and of its passes."""

    nothing: CaptureRequest
    program: Program
    moved: set[int]
    mixers: dict[str, str]
    shapes: dict[Key, tuple[int, ...]]
    head: str | None

    def let_go(self) -> None:
        """Release data that no later law compares."""

    def watched(
        self,
        edits: Intervention | None = None,
        call: Callable[[], Any] | None = None,
        request: CaptureRequest | None = None,
    ) -> tuple[Capture, list[Tensor]]:
        """Capture a pass of the call, or of another one."""

    def try_each(self, laws: Laws, together: Callable[[], Any] | None = None) -> None:
        """Test the batch law and each other law separately."""

    def law_at_kernels(self, law: Law) -> LawAtKernels:
        """Return a law as applied at the kernels."""


def prove_laws(
    prover: Prover,
    laws: Laws,
    order: Callable[[Laws], None],
    together: Callable[[], Any] | None,
    asked: Intervention,
) -> None:
    """Add the laws of a module, cached or tested.

    Args:
        prover: Prover whose captured and kernel pass are done.
        laws: Laws of this text; the others are added.
        order: Adds the results of exchanged tokens.
        together: Runs a batch of three with the input in the middle.
        asked: Edits of the run; position and residual stream edits are tested only if among them.
    """
    for record, errors in (*numbers_of_rows(prover), *among_what_ran(prover)):
        enter(laws, record, errors)
    marks, known = signature(prover), KNOWN.setdefault(prover.module, [])
    prover.let_go()
    earlier = remembered(prover, marks, known)
    own: Laws = {}
    told = len(prover.untold)
    if earlier is not None:
        join(own, {site: only(errors, False) for site, errors in earlier.laws.items()})
    elif not combined(prover, own, together):
        prover.try_each(own, together)
        for record, errors in (*single_heads(prover), *lifted(prover)):
            enter(own, record, errors)
        unreached(prover, reaches(prover))
    if earlier is None or not earlier.ordered or longer(prover, earlier) or moves_shown(prover):
        order(own)
    else:
        prover.mixers |= earlier.mixers
        join(own, {site: only(errors, True) for site, errors in earlier.laws.items()})
    join(laws, own)
    gaps = [gap for found in own.values() for gap in found.values()]
    holds = all(gap is not None and gap <= prover.tolerance for gap in gaps)
    if not holds or len(prover.untold) > told:
        return
    if earlier is None or longer(prover, earlier):
        follows = not moves_shown(prover) and not prover.program.opaque
        ordered = follows and all(ORDER in own.get(name(a.record), {}) for a in prover.accounts)
        known.append(Remembered(marks, prover.program, own, dict(prover.mixers), ordered))
        del known[:-MOST_KNOWN]
    if any(isinstance(edit, STREAM) for edit in asked):
        gap = stream_apart(prover, True)
        if prover.accounts and gap is not None and gap > prover.tolerance:
            enter(laws, prover.accounts[0].record, {"positions": gap})


def moves_shown(prover: Prover) -> bool:
    """Return True if shown attentions read tokens that were reordered by their own numbers."""
    return any(prover.moved & set(account.parts) for account in prover.accounts)


def only(errors: dict[str, float | None], order: bool) -> dict[str, float | None]:
    """Return the results on token order, or all others."""
    return {law: gap for law, gap in errors.items() if (law == ORDER) == order}


def join(laws: Laws, own: Laws) -> None:
    """Merge laws by site."""
    for site, errors in own.items():
        laws.setdefault(site, {}).update(errors)


def combined(prover: Prover, laws: Laws, together: Callable[[], Any] | None) -> bool:
    """Test all edits together: by the probe in a batch, and at the kernels on the input alone.

    Returns:
        True if all of them hold; then they are added to ``laws``.
    """
    told, key = prover.accounts, prover.key()
    places = {name(a.record): (a.record, named(a, prover.kernels)) for a in told}
    if not told or len(places) != len(told) or not all(account.parts for account in told):
        return False
    if any(a.record.q is None or a.record.k is None for a in told):
        return False  # only single heads can be edited at its product
    law = Law("heads", head=min(account.record.heads for account in told) - 1, scale=HALF)
    widest = max(max(account.record.shape) for account in told)
    everywhere: list[Edit] = [Temperature(value=VALUE), Window(radius=max(RADIUS, widest // 3))]
    everywhere += [] if key is None else [BlockKeys(keys=(key,))]
    own = [e for e in own_edits(places.values(), key, False).edits if not hides(e, told)]
    plain = Intervention((*everywhere, law.edit, *own))
    looks, links, opened = looks_of(prover), {}, None
    causal = [look for look in looks if first_of_stairs(look[2]) is not None]
    found = hidden_links(looks) if causal else None
    if found is not None:
        links = {name(record): cells for (record, _, _), cells in zip(looks, found, strict=True)}
        opened = opening(causal[-1][0], law.head, key, prover.plain)
        if opened is None:
            return False
    changes = Both(EditsAtKernels(plain, told), prover.law_at_kernels(law))
    expected = prover.under(KernelMode(prover.module, changes, keep=False))
    edits = plain if found is None else lifting(plain, links, places, opened)
    request = replace(prover.nothing, statistics=together is not None)
    narrow: AbstractContextManager[None] = nullcontext()
    if together is not None and prover.head is not None:  # only the input's output is compared
        narrow = middle_of(prover.module, prover.head, prover.shapes[prover.head, HEAD, 0])
    try:
        with narrow:
            capture, got = prover.watched(edits, together, request)
    except Exception:  # the edit is refused, or the module takes no batch
        return False
    if together is not None:
        grown = [
            (a.shape[0], next(iter(r.statistics.values()), torch.empty(0)).shape[:1])
            for a, r in zip(told, capture.attentions, strict=False)
        ]
        if len(capture.attentions) != len(told) or any((TEXTS * n,) != size for n, size in grown):
            return False
        pairs = list(zip(got, expected, strict=False)) if prover.head is None else []
        if any(x.shape != (TEXTS * y.shape[0], *y.shape[1:]) for x, y in pairs):
            return False
        got = [x[y.shape[0] : 2 * y.shape[0]] for x, y in pairs] or got
    gap = apart(got, expected)
    if opened is not None:
        _, _, row, _ = opened
        if apart([got[0][:, row]], [expected[0][:, row]]) == 0:
            return False
        kept = [n for n in range(got[0].shape[1]) if n != row]
        gap = apart([got[0][:, kept]], [expected[0][:, kept]])
    if not gap <= prover.tolerance or apart(expected, prover.plain) == 0:
        return False
    names = ["temperature", "window", "heads", "single heads"]
    names += ["hidden key"] if key is not None else []
    names += ["batch"] if together is not None else []
    lifted_ones = {name(record) for record, _, _ in causal} if found is not None else set()
    for account in told:
        also = ["causal off"] if name(account.record) in lifted_ones else []
        enter(laws, account.record, dict.fromkeys((*names, *also), gap))
    return True


@contextmanager
def middle_of(module: nn.Module, path: str, single: tuple[int, ...]) -> Iterator[None]:
    """Restrict the input of a submodule to the middle one of `TEXTS` texts.

    Args:
        module: The module.
        path: Path of the submodule, which maps each row separately to the output.
        single: Shape of its input for one text.
    """

    def narrow(part: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        if given[0].shape != (TEXTS * single[0], *single[1:]):
            raise ValueError(f"{path} got {tuple(given[0].shape)}, which are no {TEXTS} texts.")
        return (given[0][single[0] : 2 * single[0]],)

    hook = module.get_submodule(path).register_forward_pre_hook(narrow)
    try:
        yield
    finally:
        hook.remove()


def hides(edit: Edit, told: Sequence[Account]) -> bool:
    """Return True if an edit hides another's effect.

    Uniform attention hides a temperature in a site with one head; a head 0 edit repeats it.
    """
    if isinstance(edit, UniformHead):
        return any(a.record.heads == 1 and a.record.path == edit.path for a in told)
    return isinstance(edit, Temperature) and edit.head == 0 and edit.value >= COLD


def opening(
    record: Any, silent: int, key: int | None, plain: Sequence[Tensor]
) -> tuple[str, int, int, int] | None:
    """Return a hidden link of the last causal attention to leave open: site, head, row, key.

    Its output row, and no other, must then change. None if the output has no rows, or no head is
    free of other edits.
    """
    rows = record.shape[0]
    outputs = [x for x in plain if x.is_floating_point()]
    if record.offset or record.first_key or len(outputs) != 1 or len(plain) != 1 or rows < 3:
        return None
    if outputs[0].dim() != 3 or outputs[0].shape[1] != rows:
        return None
    head = next((n for n in range(record.heads) if n + record.first_head != silent), None)
    row = next(row for row in range(rows - 1) if row + 1 != key)
    return None if head is None else (name(record), head, row, row + 1)


def lifting(
    plain: Intervention,
    links: dict[str, Links],
    places: dict[str, tuple[Any, dict[str, Any]]],
    opened: tuple[str, int, int, int] | None,
) -> Intervention:
    """Return edits that turn the causal mask off and cut every link it hid, except one."""
    edits: list[Edit] = [Causal(on=False)]
    cut = {**links}
    for where, cells in cut.items():
        if cells:
            edits.append(BlockEdges(edges=cells, **places[where][1]))
    seen = False
    own = list(plain.edits)
    for n, edit in enumerate(own):
        if not isinstance(edit, BlockEdges):
            continue
        where = next(w for w, (_, words) in places.items() if _is_at(edit, words))
        edges = (*cut.get(where, ()), *edit.edges)
        if opened is not None and (where, edit.head) == opened[:2]:
            edges, seen = tuple(e for e in edges if e != opened[2:]), True
        own[n] = replace(edit, edges=edges)
    if opened is not None and not seen:
        where, head, *_ = opened
        cells = tuple(e for e in cut[where] if e != opened[2:])
        own.append(BlockEdges(edges=cells, **(places[where][1] | {"head": head})))
    return Intervention((*edits, *own))


def _is_at(edit: Edit, words: dict[str, Any]) -> bool:
    return all(getattr(edit, word) == value for word, value in words.items())


class Both:
    """Edits of scores and of heads, applied at the kernels in sequence."""

    def __init__(self, edits: EditsAtKernels, heads: LawAtKernels):
        self.edits, self.heads = edits, heads

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Return scores changed by the edits."""
        return self.edits.scores(number, scores)

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Return weights changed by the edits, and by the head scale if no projection follows."""
        return self.heads.weights(number, self.edits.weights(number, weights))

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """Scale the head in the projection's input."""
        return self.heads.projected(numbers, x, axis)
