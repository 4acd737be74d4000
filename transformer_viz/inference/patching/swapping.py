"""Activation patching: which part of a run carries the difference between two sentences."""

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
CLEAN = 2  # passes, of both sentences as they are
LEAST = 1e-3  # nats by which both runs must differ, so that a part of that means something

#: Hears how many cells are measured, of how many, and the grids so far (NaN: not yet).
Tell = Callable[[int, int, dict[str, np.ndarray]], None]


@dataclass(frozen=True)
class Cell:
    """One swap of a grid: its map or stack, where it stands there, and as an edit."""

    part: str
    row: int
    column: int
    edit: SwapEdit


@dataclass(frozen=True, eq=False)
class Swap:
    """How far each single swap moves a run of one sentence towards that of another.

    ``parts`` are grids float64 by map (``encoder``, ``decoder``, ``cross``) ``[layer, head]``, or
    for the stream by stack ``[layer, token]``: 0 as in the source, 1 as in the other sentence,
    below 0 away from it, above 1 beyond it; NaN where nothing can be swapped. ``words`` are the
    pair, and ``clean`` by how many nats the first is more probable than the second in the source's
    run, ``other`` in the other's; of several labels, or a regression, ``words`` may be the one
    output that is measured, and these are its scores in ``unit``. ``source`` and ``variant`` are
    the tokens of both sentences, ``target`` those that both hold. ``card`` says what was measured.
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
        """What it is in one line; the numbers are in ``table`` and ``grid``."""
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
        """All parts one below the other, in their order: ``[layer, head]`` or ``[layer, token]``.

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
        """The rows of `grid`: ``cross L1``."""
        return tuple(
            f"{name} L{layer}" for name, part in self.parts.items() for layer in range(len(part))
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row a swap: part, stack, block, layer, head or token (with its word), ``moved`` (0 to 1
        on the way between the runs), and the ``unit`` of what differs between them."""
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
        """The unit of ``clean`` and ``other``: ``nats``, or ``logit`` for a regression."""
        return self.bench.model.unit

    def labels(self, part: str) -> tuple[str, ...]:
        """The words at which a stack's rows stand."""
        source = part == "encoder" or self.target is None
        return self.source.labels if source or self.target is None else self.target.labels

    def best(self, count: int = 1) -> tuple[SwapEdit, ...]:
        """The swaps that move the run farthest towards the other sentence, as edits."""
        return tuple(cell.edit for cell in self.ranked[:count])

    @cached_property
    def ranked(self) -> tuple[Cell, ...]:
        """All cells that have a value, the largest first."""
        found = [cell for cell in self.cells if np.isfinite(self._value(cell))]
        return tuple(sorted(found, key=lambda cell: -self._value(cell)))

    def together(self, edits: Iterable[SwapEdit]) -> float:
        """How far several swaps move the run together: 0 as in the source, 1 as in the other."""
        return float(self.bench.together(tuple(edits)))

    def _value(self, cell: Cell) -> float:
        return float(self.parts[cell.part][cell.row, cell.column])


class Bench:
    """Runs swaps on one question, many copies of the sentence in a pass.

    Nothing of the model is changed.
    """

    def __init__(self, question: Question, what: str):
        """Run both sentences clean.

        Raises:
            ValueError: both runs hold the pair of words equally probable.
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
        """How many copies the memory holds."""
        rows = self.question.source if self.question.target is None else self.question.target
        config = self.model.config
        longest = max(rows.shape[1], self.question.source.shape[1])
        wide = config.get("target_vocab") or config.get("vocab_size") or 1000
        cells = longest * max(int(wide), self.model.size("heads") * longest)
        return max(1, min(MOST_COPIES, CELLS // cells))

    def donations(self, edits: Sequence[SwapEdit], copy: int) -> list[Donation] | None:
        """What a copy takes from the other run; None where something cannot be taken."""
        found: list[Donation] = []
        for edit in edits:
            made = self.question.lender.taken(edit, self.lent)
            if not made:
                return None
            found += [replace(one, copies=(copy,), edit=None) for one in made]
        return found

    def moved(self, sets: Sequence[Sequence[SwapEdit]]) -> list[float]:
        """How far each set of swaps moves the run, all in one pass beside the clean one."""
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
    """What of a run must be taken from a run of another sentence to make the output the other's?

    Each single part of the run of ``source`` is put in from a clean run of ``other``, and how far
    the pair of words moves is measured (activation patching; Vig et al. 2020, Meng et al. 2022,
    section 2): ``(d - d_source) / (d_other - d_source)``, d the difference of the two words'
    logits, which is also that of their log-probabilities. Of a regression d is one output, and of
    several labels ``ln p`` of one, p its sigmoid. Both runs hold the same output words before the
    place that is asked. The model itself is not touched.

    Args:
        model: what `load` gave, or a module; one that writes words, guesses them, or judges.
        source: a text, a pair of texts, or ids as the model reads them.
        other: the text, pair or ids whose parts are put in.
        words: the pair, of the source's output and of the other's; left out, those at which the
            two outputs part (of a masked model and a classifier: the first choice of each run; of
            several labels, or a regression, the one output that differs most). A tagger is asked
            about a pair of classes of one ``token``; a model that marks an answer about a pair of
            tokens of ``source``, by number or label, as its ``output``.
        what: ``heads`` (what a head gives before the output projection, at all matched tokens),
            ``patterns`` (where it looks; needs sentences of the same number of tokens), ``stream``
            (the residual stream behind a layer, at one token).
        target: the output words before the place that is asked; left out, found from the outputs.
        masked: the tokens that a masked model is to guess, if the text holds no mask.
        output: whether a model that marks an answer is asked where that has its ``start`` (the
            default) or its ``end``.
        token: the token of ``source`` that a tagger is asked about; left out, the first whose class
            differs between the runs (of a regression, the one whose output differs most).
        only: of the parts ``encoder``, ``decoder`` and ``cross`` these alone.
        on_grids: called after each pass with the swaps measured, the swaps in all, and the grids so
            far. What it raises comes out here.
        on_progress: called with the passes done and the passes in all: of both outputs, where they
            are written first, and then of the swaps. What it raises comes out here.

    Raises:
        ValueError: another word for ``what``, sentences or words that tell nothing apart, or a
            model that says nothing; says what is needed.
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
    """Measure all swaps of a kind on one question; see `swap`."""
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
    """Every single swap of a kind, map by map, in the order in which they run."""
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
    """Grids of NaN that hold these cells."""
    sizes: dict[str, tuple[int, int]] = {}
    for cell in cells:
        rows, columns = sizes.get(cell.part, (0, 0))
        sizes[cell.part] = (max(rows, cell.row + 1), max(columns, cell.column + 1))
    return {name: np.full(size, np.nan) for name, size in sizes.items()}
