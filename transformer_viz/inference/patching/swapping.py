"""Activation patching: measure which parts of a run carry the difference of two sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from ...capture import CaptureRequest, probe
from ...capture.donations import Donation
from ...checkpoints.common.model import Model
from ...core.guesses import with_mark
from ...core.interventions import Swap as SwapEdit
from ...core.interventions import SwapHead, SwapPattern, SwapStream
from ...core.renamed import accept_old_keywords
from ...core.sites import MAPS
from ...core.trace_parts import Tokens, read_only
from ..ablation.passes import CELLS, MOST_COPIES
from ..donors import Lent
from ..model_inputs import model_of
from .notes import card, lead, lone_words, notes
from .question import Question, Words, ask

KINDS = ("heads", "patterns", "stream")
CLEAN = 2  # passes for the two clean runs
LEAST = 1e-3  # smallest difference of both runs, in nats, that can be divided into parts

#: Called with the number of cells measured, the number in all, and the grids (NaN: not yet).
Tell = Callable[[int, int, dict[str, np.ndarray]], None]


@dataclass(frozen=True)
class Cell:
    """Single patch of a grid: its map or stack, its position there, and the edit."""

    part: str
    row: int
    column: int
    edit: SwapEdit


@dataclass(frozen=True, eq=False)
class Swap:
    """Effect of each single patch: how far it moves one run towards another.

    Attributes:
        what: Kind of patch.
        words: The compared pair, or the one output that is measured alone.
        parts: Float64 grids by map (``encoder``, ``decoder``, ``cross``) ``[layer, head]``, or for
            the residual stream by stack ``[layer, token]``. 0 is the source run, 1 the donor run;
            values below 0 and above 1 are possible; NaN where nothing can be patched.
        cells: All patches.
        clean: Difference of the words' log-probabilities in nats, first minus second, in the source
            run. For a single output its score in ``unit``.
        other: The same in the donor run.
        source: Tokens of the source.
        variant: Tokens of the donor sentence.
        target: Target tokens of both runs.
        notes: Notes needed to read the numbers.
        card: Details of the measurement.
        bench: Bench that measured the patches.
    """

    what: str
    words: tuple[str, ...]
    parts: dict[str, np.ndarray]
    cells: tuple[Cell, ...]
    clean: float
    other: float
    source: Tokens
    variant: Tokens
    target: Tokens | None
    notes: tuple[str, ...]
    card: dict[str, Any]
    bench: Bench

    def __repr__(self) -> str:
        """Return a one-line summary; the numbers are in ``table`` and ``grid``."""
        said = f"{len(self.cells)} swaps of {self.what}, {' against '.join(map(repr, self.words))}"
        if self.ranked:
            most = self.ranked[0]
            place = "token" if self.what == "stream" else "head"
            said += (
                f", most {self._value(most):+.3f} at {most.part} L{most.row} {place} {most.column}"
            )
        return with_mark(f"<Swap: {said}", self.card) + ">"

    @cached_property
    def grid(self) -> np.ndarray:
        """All parts, concatenated in their order: ``[layer, head]`` or ``[layer, token]``.

        Shorter rows end in NaN; `rows` names the rows.
        """
        width = max(part.shape[1] for part in self.parts.values())
        padded = [
            np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=np.nan)
            for part in self.parts.values()
        ]
        return read_only(np.concatenate(padded))

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Row names of `grid`, such as ``cross L1``."""
        return tuple(
            f"{name} L{layer}" for name, part in self.parts.items() for layer in range(len(part))
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table with a row per patch: part, stack, block, layer, head or token (with its word).

        ``moved`` is the effect (0 source run, 1 donor run), ``unit`` that of the compared score.
        """
        rows = []
        for cell in self.cells:
            row: dict[str, Any] = {"part": cell.part, "stack": cell.edit.stack}
            if self.what == "stream":
                word = self.labels(cell.part)[cell.column]
                row |= {"layer": cell.row, "token": cell.column, "word": word}
            else:
                row |= {"block": cell.edit.block, "layer": cell.row, "head": cell.column}
            rows.append(row | {"moved": float(self.parts[cell.part][cell.row, cell.column])})
        return pd.DataFrame(rows).assign(unit=self.unit)

    @property
    def unit(self) -> str:
        """Unit of ``clean`` and ``other``: ``nats``, or ``logit`` for a regression."""
        return self.bench.model.unit

    def labels(self, part: str) -> tuple[str, ...]:
        """Return the token labels of a stack's rows."""
        source = part == "encoder" or self.target is None
        return self.source.labels if source or self.target is None else self.target.labels

    def best(self, count: int = 1) -> tuple[SwapEdit, ...]:
        """Return the patches with the largest effect, as edits."""
        return tuple(cell.edit for cell in self.ranked[:count])

    @cached_property
    def ranked(self) -> tuple[Cell, ...]:
        """Cells with a value, the largest first."""
        found = [cell for cell in self.cells if np.isfinite(self._value(cell))]
        return tuple(sorted(found, key=lambda cell: -self._value(cell)))

    def together(self, edits: Iterable[SwapEdit]) -> float:
        """Return the joint effect of several patches: 0 source run, 1 donor run."""
        return float(self.bench.together(tuple(edits)))

    def _value(self, cell: Cell) -> float:
        return float(self.parts[cell.part][cell.row, cell.column])


class Bench:
    """Bench that runs patches on one question, on many copies of the sentence in a pass.

    The model is not changed.
    """

    def __init__(self, question: Question, what: str):
        """Run both sentences without edits.

        Raises:
            ValueError: Both runs give the same score.
        """
        self.question, self.model = question, question.model
        with torch.no_grad():
            self.lent: Lent = question.lent(patterns=what == "patterns")
            clean = question.difference(question.through())
            other = question.difference(self.lent.output, other=True)
        self.clean, self.other = float(clean[0]), float(other[0])
        if not abs(self.other - self.clean) > LEAST:
            raise ValueError(
                f"In both runs {lead(question, self.clean, '.2f')}, so there is no difference "
                f"whose carrier could be looked for; name another pair of words, or give another "
                "sentence."
            )

    @property
    def most(self) -> int:
        """Number of copies that fit into memory."""
        rows = self.question.source if self.question.target is None else self.question.target
        config = self.model.config
        longest = max(rows.shape[1], self.question.source.shape[1])
        wide = config.get("target_vocab") or config.get("vocab_size") or 1000
        cells = longest * max(int(wide), self.model.size("heads") * longest)
        return max(1, min(MOST_COPIES, CELLS // cells))

    def donations(self, edits: Sequence[SwapEdit], copy: int) -> list[Donation] | None:
        """Return the patches of a copy; None if one is not available."""
        found: list[Donation] = []
        for edit in edits:
            made = self.question.lender.taken(edit, self.lent)
            if not made:
                return None
            found += [replace(one, copies=(copy,), edit=None) for one in made]
        return found

    def moved(self, sets: Sequence[Sequence[SwapEdit]]) -> list[float]:
        """Return the effect of each set of patches, all measured in one pass with the clean run."""
        given = [self.donations(edits, copy) for copy, edits in enumerate(sets, 1)]
        flat = tuple(one for part in given for one in part or ())
        lone = "decoder" if self.model.kind == "decoder-only" else "encoder"
        nothing = CaptureRequest(
            weights=lambda _: False, statistics=False, norms=False, residuals=False, stack=lone
        )
        with torch.no_grad(), probe(self.model.module, None, nothing, flat):
            output = self.question.through(len(sets) + 1)
        found = self.question.difference(output)
        whole = self.other - self.clean
        parts = ((found[1:] - found[0]) / whole).tolist()
        return [
            float("nan") if taken is None else part
            for taken, part in zip(given, parts, strict=True)
        ]

    def together(self, edits: tuple[SwapEdit, ...]) -> float:
        return self.moved([edits])[0]


@accept_old_keywords(tell="on_grids")
def swap(
    model: Model | nn.Module,
    source: Any,
    other: Any,
    words: Words | None = None,
    what: str = "heads",
    *,
    target: Any = None,
    masked: Sequence[int] = (),
    output: str | None = None,
    token: int | None = None,
    only: Sequence[str] | None = None,
    on_grids: Tell | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Swap:
    """Measure which parts of a donor run, patched into a run, change its output.

    Each single part of the run of ``source`` is replaced by that of a clean run of ``other``
    (activation patching; Vig et al. 2020, Meng et al. 2022, section 2). The effect is ``(d -
    d_source) / (d_other - d_source)``, where d is the difference of the two words' logits, which
    equals that of their log-probabilities. For a regression d is one output, and for several labels
    ``ln p`` of one, with p its sigmoid. Both runs have the same output tokens before the compared
    position. The model is not changed.

    Args:
        model: Result of `load`, or a module that generates, fills in or judges.
        source: Text, pair of texts, or ids as the model reads them.
        other: Text, pair or ids of the donor run.
        words: Pair of words, of the source's output and of the donor's. The default is the pair
            where the two outputs diverge. For a masked model or classifier it is each run's top
            choice; for several labels or a regression the one output that differs most. For a
            tagger, a pair of classes of one ``token``. For a model that marks an answer, a pair of
            tokens of ``source``, by number or label, as its ``output``.
        what: ``heads``: head outputs before the output projection, at all matched tokens.
            ``patterns``: attention weights; needs sentences with equally many tokens. ``stream``:
            the residual stream after a layer, at one token.
        target: Output tokens before the compared position; by default found from the outputs.
        masked: Positions to mask in a masked model, if the text has no mask.
        output: For a model that marks an answer: ``start`` (the default) or ``end``.
        token: For a tagger, the token of ``source``; by default the first whose class differs
            between the runs (for a regression, the one whose output differs most).
        only: Restrict to some of the parts ``encoder``, ``decoder`` and ``cross``.
        on_grids: Called after each pass with the number of patches measured, the number in all, and
            the grids so far. Its exceptions propagate.
        on_progress: Called with the number of passes done and in all: first for both outputs, if
            they are decoded, then for the patches. Its exceptions propagate.

    Raises:
        ValueError: Unknown ``what``, sentences or words without a difference, or a model without
            such outputs.
    """
    if what not in KINDS:
        raise ValueError(f"There is no {what!r} to swap; choose one of {', '.join(KINDS)}.")
    ready = model_of(model)
    asked: dict[str, Any] = {"output": output, "token": token, "on_progress": on_progress}
    question = ask(ready, source, other, words, target, masked, **asked)
    return measured(question, what, only, on_grids, on_progress)


def measured(
    question: Question,
    what: str,
    only: Sequence[str] | None = None,
    on_grids: Tell | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Swap:
    """Measure all patches of a kind on one question; see `swap`."""
    bench = Bench(question, what)
    own, foreign = question.lone
    if what == "patterns" and (own or foreign):
        raise ValueError(
            "Patterns are swapped between sentences whose tokens are matched one by one, and "
            f"{lone_words(question)} has no counterpart; give sentences with as many tokens, or "
            "swap what the heads give (heads)."
        )
    cells = cells_of(bench, what, only)
    if not cells:
        there = ", ".join(dict.fromkeys(cell.part for cell in cells_of(bench, what, None)))
        raise ValueError(f"This model has the parts {there or 'none'}; got only={only!r}.")
    parts, done = empty(cells), CLEAN
    passes = CLEAN + -(-len(cells) // bench.most)
    step = on_progress or (lambda done, of: None)
    step(done, passes)
    for start in range(0, len(cells), bench.most):
        some = cells[start : start + bench.most]
        for cell, value in zip(some, bench.moved([(cell.edit,) for cell in some]), strict=True):
            parts[cell.part][cell.row, cell.column] = value
        step(done := done + 1, passes)
        if on_grids is not None:
            on_grids(
                start + len(some), len(cells), {name: part.copy() for name, part in parts.items()}
            )
    return Swap(
        what,
        question.words,
        {name: read_only(part) for name, part in parts.items()},
        tuple(cells),
        bench.clean,
        bench.other,
        question.own_tokens,
        question.other_tokens,
        question.target_tokens,
        notes(question, bench.clean, bench.other, what),
        card(question, what, len(cells)),
        bench,
    )


def cells_of(bench: Bench, what: str, only: Sequence[str] | None) -> list[Cell]:
    """Return every single patch of a kind, by map, in execution order."""
    found: list[Cell] = []
    if what == "stream":
        for stack in ("encoder", "decoder"):
            found += _stream_cells(bench, stack)
    else:
        kind = SwapHead if what == "heads" else SwapPattern
        source = bench.question.named
        for name, (stack, block) in MAPS.items():
            for record in bench.lent.capture.attentions:
                if (record.stack, record.kind) == (stack, block):
                    for head in range(record.heads):
                        edit = kind(
                            source=source, stack=stack, block=block, layer=record.layer, head=head
                        )
                        found.append(Cell(name, record.layer, head, edit))
    return [cell for cell in found if only is None or cell.part in only]


def _stream_cells(bench: Bench, stack: str) -> list[Cell]:
    question = bench.question
    beside = question.model.kind == "encoder-decoder" and stack == "decoder"
    tokens = question.target if beside else question.source
    layers = sorted({s.layer for s in bench.lent.capture.offered.sums if s.stack == stack})
    count = 0 if tokens is None else tokens.shape[1]
    return [
        Cell(
            stack,
            layer,
            token,
            SwapStream(source=bench.question.named, stack=stack, layer=layer, token=token),
        )
        for layer in layers
        for token in range(count)
    ]


def empty(cells: Sequence[Cell]) -> dict[str, np.ndarray]:
    """Return grids of NaN with these cells."""
    sizes: dict[str, tuple[int, int]] = {}
    for cell in cells:
        rows, columns = sizes.get(cell.part, (0, 0))
        sizes[cell.part] = (max(rows, cell.row + 1), max(columns, cell.column + 1))
    return {name: np.full(size, np.nan) for name, size in sizes.items()}
