"""Searches that read their source alone and then share decoder passes.

If an edit may act in the encoder, source and first token are read in one probed pass, so an edit
without a matching site raises there. Later passes need only a search's last tokens and its cache,
so rows of several searches can be stacked. Only the app uses these passes; they run in inference
mode and cannot be trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import torch
from torch import nn

from ...capture.torch_function_mode import InterceptCalls
from ...checkpoints.common.model import Model
from ...checkpoints.common.native import NativeReader
from ...core.interventions import Intervention, ScalePositions
from ...model import Transformer
from ...model.transformer import Embedding
from ..decoding.key_value_cache import known_to_read_on, may_keep, reads_on
from ..decoding.read_sources import ReadSources, all_after_encoder, sites_of
from ..donors import lends
from ..generation import LENGTH_PENALTY, Hypothesis, check, length_norm, ranked
from ..search import Batch, Beams, Path, Tell, edited
from ..token_ids import source_ids
from .row_edits import RowEditing, RowEdits, plans_of

#: Score functions that can be edited with the mask alone: computed from q and k.
OF_QUERY_AND_KEY = ("scaled_dot", "dot", "general")


def may_share(model: Model, source: object, intervention: Intervention | None) -> bool:
    """Return True if a search of this source can share passes without changing its numbers.

    ``source`` is a text or its ids. Only the reference Transformer qualifies: other decoders may
    count positions from the first column, where a shorter text is padded.
    """
    if not known_to_read_on(model) or model.takes != "text" or model.eyes is not None:
        return False
    if not _takes_padding(model.module):
        return False
    text = isinstance(source, str)
    if not text and not (isinstance(source, Sequence) and all(isinstance(n, int) for n in source)):
        return False
    score = model.config["score"]
    if lends(intervention) or not may_keep(intervention) or score == "location":
        return False  # location scores count from the first column
    edits = (intervention or Intervention()).of_the_pass()
    moved = any(isinstance(e, ScalePositions) and e.stack != "encoder" for e in edits)
    padded = model.kind == "decoder-only" and edits != (intervention or Intervention())
    return not moved and not padded and (not edits or score in OF_QUERY_AND_KEY)


def _takes_padding(module: nn.Module) -> bool:
    """Return True if a decoder may be batched with others.

    Other modules may count positions or mask by themselves, and ignore padding columns.
    """
    if type(module) is not Transformer or not hasattr(module, "decoder"):
        return False
    return type(module.decoder.embedding) is Embedding


class SharedSearch:
    """Search with its parameters, its progress and, in the end, ``found`` or ``error``.

    With ``best_only`` it ends once no live hypothesis can beat the best finished one; then only
    that one is final. ``known`` caches sources that this model has read before.

    Raises:
        ValueError: See :func:`generation.translate`.
    """

    def __init__(
        self,
        model: Model,
        source: str | Sequence[int],
        beam: int,
        intervention: Intervention | None = None,
        on_progress: Tell | None = None,
        *,
        best_only: bool = False,
        known: ReadSources | None = None,
    ):
        check(model, beam, None, None)
        self.model, self.beam = model, beam
        self.ids = source_ids(model, source)
        self.intervention, self.on_progress = intervention, on_progress
        self.best_only, self.known = best_only, known
        self.found: list[Hypothesis] | None = None
        self.error: BaseException | None = None
        self.beams: Beams | None = None
        self.reader: NativeReader | None = None
        self.memory = 0  # source tokens that the decoder attends to

    @property
    def ended(self) -> bool:
        return self.found is not None or self.error is not None

    @property
    def begun(self) -> bool:
        return self.beams is not None

    def begin(self) -> None:
        """Read the source alone; if edits may act on it, make the first pass too."""
        try:
            self._begin()
        except BaseException as error:  # only this search fails; others go on
            self.error = error

    def _begin(self) -> None:
        model, edits = self.model, self.intervention
        if not reads_on(model, self.ids):
            raise ValueError(f"{model.name} keeps nothing of what it has read.")
        cross = model.kind != "decoder-only"
        sites = sites_of(model.size("decoder_layers"), cross)
        self.plans = plans_of(edits, sites, model.size("heads"))
        late = cross and all_after_encoder(model, edits, sites)
        with torch.inference_mode(), nullcontext() if late else edited(model, self.ids, edits):
            encode = partial(self.known.states, model) if late and self.known else None
            self.batch = Batch(
                model, [self.ids], edits, None, self.on_progress, keep=True, encode=encode
            )
            self.memory = 0 if self.batch.memory is None else self.batch.memory.shape[1]
            beams = self.batch.beams(self.beam, self.batch.limits[0])
            reader = self.batch.reading and self.batch.reading.reader
            assert isinstance(reader, NativeReader)
            if late:
                source, known = self.batch.sources, self.known
                kept = known.of_memory(model, source, reader) if known else reader.of_memory()
                reader.begin(kept)
            else:
                beams.grow(self.batch.following([(0, Path())]))
        self.beams, self.reader = beams, reader
        self._settle()

    @property
    def text(self) -> int:
        """Tokens that each row has read after its next pass."""
        assert self.beams is not None
        return len(self.batch.starts[0]) + len(self.beams.live[0].ids)

    @property
    def row_keys(self) -> int:
        """Keys that each row attends to in its next pass."""
        return self.memory + self.text if self.begun else len(self.ids) + 1

    @property
    def last_cells(self) -> int:
        """Keys of all rows in the last pass, at maximum length."""
        assert self.beams is not None
        return self.beam * (len(self.ids) + self.beams.limit)

    def ask(self) -> None:
        """Report progress; an exception raised there ends the search."""
        assert self.beams is not None
        if self.on_progress is not None:
            try:
                self.on_progress(len(self.beams.live[0].ids), self.beams.limit)
            except BaseException as error:
                self.error = error

    def take(self, logits: torch.Tensor) -> None:
        """Continue with the logits ``[row, 1, vocabulary]`` of the last pass."""
        assert self.beams is not None
        try:
            self.beams.grow(self.batch.scored(logits, self.beams.live))
            self._settle()
        except ValueError as error:
            self.error = error

    def _settle(self) -> None:
        beams = self.beams
        if beams is None:
            return
        if not beams.live or (self.best_only and _is_decided(beams)):
            self.found = ranked(self.model, self.ids, beams.done, LENGTH_PENALTY)


def _is_decided(beams: Beams) -> bool:
    """Return True if no live hypothesis can beat the best finished one.

    A live sum only falls, and no length norm exceeds that of the longest text.
    """
    if not beams.done:
        return False
    ended = max(path.total / length_norm(len(path.ids), LENGTH_PENALTY) for path in beams.done)
    longest = length_norm(beams.limit, LENGTH_PENALTY)
    return ended >= max(path.total / longest for path in beams.live)


class SharedPasses:
    """Shared passes of started, unfinished searches of one model."""

    def __init__(self, searches: Sequence[SharedSearch]):
        readers = [search.reader for search in searches if search.reader is not None]
        model = searches[0].model
        self.device = model.device
        self.sites = sites_of(model.size("decoder_layers"), cross=searches[0].memory > 0)
        with torch.inference_mode():
            self.reader = NativeReader.joined(readers)
        #: Reader rows of each search.
        self.rows: dict[SharedSearch, slice] = {}
        for search, reader in zip(searches, readers, strict=True):
            self._place(search, reader.rows)

    @property
    def searches(self) -> list[SharedSearch]:
        """Searches that have not ended."""
        return [search for search in self.rows if not search.ended]

    def step(self) -> None:
        """Run one pass of all searches; searches that end in it are removed."""
        for search in self.searches:
            search.ask()
        asked = self.searches
        if not asked:
            return
        came, given, places, edits = [], [], self.rows, []
        self.rows = {}
        for search in asked:
            assert search.beams is not None
            start = search.batch.starts[0]
            came += [places[search].start + parent for parent in search.beams.parents]
            given += [(*start, *path.ids)[-1:] for path in search.beams.live]
            rows = self._place(search, len(search.beams.live))
            if search.plans:
                edits.append(RowEdits(rows, search.plans, search.text, search.memory))
        with torch.inference_mode():
            if came != list(range(self.reader.rows)):
                self.reader.select(torch.tensor(came, device=self.device))
            ids = torch.tensor(given, device=self.device)
            if edits:
                with InterceptCalls(RowEditing(self.sites, edits)):
                    logits = self.reader.read(ids)
            else:
                logits = self.reader.read(ids)
            for search in asked:
                search.take(logits[self.rows[search]])

    def part(self) -> None:
        """Give each running search its part of the cache, so that it can join others."""
        with torch.inference_mode():
            for search in self.searches:
                search.reader = self.reader.part(self.rows[search], search.memory)

    def _place(self, search: SharedSearch, count: int) -> slice:
        first = max((rows.stop for rows in self.rows.values()), default=0)
        self.rows[search] = slice(first, first + count)
        return self.rows[search]
