"""A proof in few passes: laws of a module are tried together, once, and remembered.

What depends on the text (the numbers of each map, of its queries, keys and norms, and the output)
is proved on every text. The laws of axes and edits depend on the module and on what its attentions
are like; they are tried again only where these differ.
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
TEXTS = 3  # of a batch with the input in the middle: neither its first nor its last
HALF = 0.5  # what a head is scaled by: its other edits stay to be seen
STREAM = (ScalePositions, ShufflePositions, ScaleResidual)
Links = tuple[tuple[int, int], ...]


class Prover(Passes, Protocol):
    """What tries a law by itself, and the passes that it can make."""

    nothing: CaptureRequest
    program: Program
    moved: set[int]
    mixers: dict[str, str]
    shapes: dict[Key, tuple[int, ...]]
    head: str | None

    def let_go(self) -> None:
        """Drop what no later law compares."""

    def watched(
        self,
        edits: Intervention | None = None,
        call: Callable[[], Any] | None = None,
        request: CaptureRequest | None = None,
    ) -> tuple[Capture, list[Tensor]]:
        """A watched pass of the call, or of another one."""

    def try_each(self, laws: Laws, together: Callable[[], Any] | None = None) -> None:
        """Try the batch and each law by itself."""

    def law_at_kernels(self, law: Law) -> LawAtKernels:
        """A law as the kernels make it."""


def prove_laws(
    prover: Prover,
    laws: Laws,
    order: Callable[[Laws], None],
    together: Callable[[], Any] | None,
    asked: Intervention,
) -> None:
    """Enter the laws of a module, remembered or tried.

    Args:
        prover: its watched and its kernel pass are made.
        laws: the laws of this text; the others are added.
        order: enters what exchanged tokens tell.
        together: runs a batch of three with the input in the middle.
        asked: the edits of the run; those of positions and of the stream are tried where they
            stand in it.
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
    """Return whether attentions that are shown read tokens which their own numbers moved about."""
    return any(prover.moved & set(account.parts) for account in prover.accounts)


def only(errors: dict[str, float | None], order: bool) -> dict[str, float | None]:
    """Return what was found of the order of tokens, or everything else."""
    return {law: gap for law, gap in errors.items() if (law == ORDER) == order}


def join(laws: Laws, own: Laws) -> None:
    """Add laws by site."""
    for site, errors in own.items():
        laws.setdefault(site, {}).update(errors)


def combined(prover: Prover, laws: Laws, together: Callable[[], Any] | None) -> bool:
    """Try all edits at once: by the probe in a batch, and at the kernels on the input alone.

    Returns:
        Whether all of them hold; then they are entered.
    """
    told, key = prover.accounts, prover.key()
    places = {name(a.record): (a.record, named(a, prover.kernels)) for a in told}
    if not told or len(places) != len(told) or not all(account.parts for account in told):
        return False
    if any(a.record.q is None or a.record.k is None for a in told):
        return False  # such an attention is found at its product, and edits of heads alone there
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
    if together is not None and prover.head is not None:  # only the input's own output is compared
        narrow = middle_of(prover.module, prover.head, prover.shapes[prover.head, HEAD, 0])
    try:
        with narrow:
            capture, got = prover.watched(edits, together, request)
    except Exception:  # an edit that is refused, or a module that takes no batch
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
    """Let a part of a module take the middle one of `TEXTS` texts alone.

    Args:
        module: the module.
        path: the part, which turns each row alone into the output.
        single: the shape of its input for one text.
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
    """Return whether an edit leaves nothing to see of the temperature of a place, or repeats it for
    the first head of each."""
    if isinstance(edit, UniformHead):
        return any(a.record.heads == 1 and a.record.path == edit.path for a in told)
    return isinstance(edit, Temperature) and edit.head == 0 and edit.value >= COLD


def opening(
    record: Any, silent: int, key: int | None, plain: Sequence[Tensor]
) -> tuple[str, int, int, int] | None:
    """Return a hidden link that stays open in the last causal attention: its place, head, row, key.

    Its row of the output, and no other, must then change. None where the output has no rows, or no
    head is free of other edits.
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
    """Return edits with the causal mask off and every link cut that it hid, but for one."""
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
    """Edits of scores and of heads, done at the kernels one after the other."""

    def __init__(self, edits: EditsAtKernels, heads: LawAtKernels):
        self.edits, self.heads = edits, heads

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Change scores by the edits."""
        return self.edits.scores(number, scores)

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Change weights by the edits, and where no projection follows by the scaled head."""
        return self.heads.weights(number, self.edits.weights(number, weights))

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """Take out the scaled head."""
        return self.heads.projected(numbers, x, axis)
