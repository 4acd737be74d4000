"""Recorder of a search: an observer of `translate` that stores each step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..capture import Capture
from ..capture.merge_heads import merge_heads
from ..checkpoints.common.model import Model
from ..core.interventions import Intervention
from ..core.search_tree import CUT, ENDED, KEPT, LEFT_OUT, START, Search
from ..core.sites import Site
from ..core.trace_parts import read_only
from .decoding.key_value_cache import CLOSE
from .generation import LENGTH_PENALTY, length_norm, translate
from .search import Path, Tell, drawing

TOP = 10  # top tokens recorded per step


def record(
    model: Model,
    source: Any,
    beam: int = 1,
    sample: float | None = None,
    intervention: Intervention | None = None,
    *,
    max_tokens: int | None = None,
    length_penalty: float = LENGTH_PENALTY,
    seed: int = 0,
    on_progress: Tell | None = None,
) -> Search:
    """Record the search of :func:`decode.translate`: its candidates and their attention.

    The arguments are those of `translate`, which runs the search. Each attention row belongs to the
    pass that produced the token, under the same intervention.

    Raises:
        ValueError: See :func:`decode.translate`; or layers whose attention is not visible at every
            step.
    """
    block = "decoder" if model.kind == "decoder-only" else "cross"
    # a pass over one token looks like an encoder's if its path is named so, as in BERT
    maps = (block, "encoder") if block == "decoder" and model.eyes is None else (block,)
    witness = Recorder(block, model.end_ids, sample or None, maps)
    found = translate(
        model,
        source,
        beam,
        sample,
        intervention,
        max_tokens=max_tokens,
        length_penalty=length_penalty,
        seed=seed,
        on_progress=on_progress,
        observer=witness,
    )
    best = tuple(witness.numbers[hypothesis.ids] for hypothesis in found)
    return witness.search(beam, length_penalty, best, tuple(one.text for one in found))


class Recorder:
    """Recorder of a search, by passes and choices.

    ``maps`` are possible names of the rows' block; by default ``block``.
    """

    def __init__(
        self,
        block: str,
        end_ids: Collection[int],
        temperature: float | None,
        maps: tuple[str, ...] = (),
    ):
        self.block, self.end_ids, self.temperature = block, end_ids, temperature
        self.maps = maps or (block,)
        self.begin()

    def begin(self) -> None:
        """Discard all records."""
        self.capture: Capture | None = None
        self.numbers: dict[tuple[int, ...], int] = {(): START}
        self.candidates: list[tuple[int, int, int, float, float, int, float, int]] = []
        self.owners: list[int] = []
        self.tops: list[tuple[np.ndarray, ...]] = []
        self.rows: list[list[np.ndarray]] = []
        self.following: dict[tuple[int, ...], Tensor] = {}
        self.unseen = False

    def watched(self, site: Site) -> bool:
        """Return True for the sites whose rows are shown."""
        return site.map in self.maps

    def watch(self, capture: Capture | None) -> None:
        """Store the capture of the passes."""
        self.capture = capture

    def passed(self, paths: Sequence[Path], scores: Tensor) -> None:
        """Record the top next tokens of each text, and the attention of its last token."""
        values = scores.double().cpu()
        chances = None if self.temperature is None else drawing(values, self.temperature)
        layers, self.unseen = self._looked(), self.capture is None
        self.following = {}
        for place, path in enumerate(paths):
            self.owners.append(self.numbers[path.ids])
            self.following[path.ids] = values[place]
            logs, tokens = values[place].topk(min(TOP, values.shape[1]))
            drawn = torch.full_like(logs, torch.nan) if chances is None else chances[place][tokens]
            self.tops.append((tokens.numpy(), logs.numpy(), drawn.numpy()))
            self.rows.append([rows[place] for rows in layers])

    def _looked(self) -> list[np.ndarray]:
        """Return the last row of each layer ``[text, head, key]`` in the latest pass."""
        return [weights[:, :, -1].float().cpu().numpy().copy() for weights in self._maps()]

    def _maps(self) -> list[Tensor]:
        """Return the weights of each layer ``[text, head, row, key]`` in the latest pass.

        Keys dropped from a cache are 0. The capture's list is emptied, so that a long search does
        not keep all of its maps.
        """
        if self.capture is None:
            return []
        merge_heads(self.capture)
        seen = [one for one in self.capture.attentions if one.site.map in self.maps]
        self.capture.attentions.clear()
        seen.sort(key=lambda one: one.layer)
        known = ((one.weights, one.first_key) for one in seen)
        return [pad(weights, (gone, 0)) for weights, gone in known if weights is not None]

    def reviewed(self, path: Path) -> bool:
        """Compare the recorded rows of a text with the latest pass over all of it.

        If no step was captured, the rows are taken from that pass; then it is the only text.

        Returns:
            True if they are equal, and no row looks at a later token.
        """
        layers, steps = self._maps(), len(path.ids)
        whole: list[list[np.ndarray]] = [[] for _ in range(steps)]
        for weights in layers:
            rows = weights[0, :, -steps:].float().cpu().numpy()
            queries, keys = rows.shape[1:]
            seen = [keys] * steps
            if self.block == "decoder":  # each row adds a token
                seen = list(range(keys - steps + 1, keys + 1))
            if queries < steps or seen[0] < 1 or np.triu(rows[:, :, seen[0] :]).any():
                return False
            for step, taken in enumerate(whole):
                taken.append(rows[:, step, : seen[step]].copy())
        if self.unseen:
            self.rows = whole
            return True
        passes = [self.owners.index(self.numbers[path.ids[:step]]) for step in range(steps)]
        return all(map(_alike, (self.rows[place] for place in passes), whole))

    def judged(self, weighed: Sequence[Path], ended: Sequence[bool]) -> None:
        """Record the ranked texts, and the result for each."""
        for place, path in enumerate(weighed):
            fate = self._fate(path, ended[place]) if place < len(ended) else LEFT_OUT
            token, step = path.ids[-1], path.steps[-1]
            values = self.following[path.ids[:-1]]
            rank = 1 + int((values > values[token]).sum())
            parent = self.numbers[path.ids[:-1]]
            self.numbers[path.ids] = len(self.candidates)
            self.candidates.append(
                (len(path.ids) - 1, parent, token, step, path.total, rank, self._chance(path), fate)
            )

    def _fate(self, path: Path, ended: bool) -> int:
        if not ended:
            return KEPT
        return ENDED if path.ids[-1] in self.end_ids else CUT

    def _chance(self, path: Path) -> float:
        """Return the sampling probability of the last token."""
        if self.temperature is None:
            return float("nan")
        return float(drawing(self.following[path.ids[:-1]], self.temperature)[path.ids[-1]])

    def search(
        self, beam: int, penalty: float, best: tuple[int, ...], texts: tuple[str, ...]
    ) -> Search:
        """Return all records.

        Raises:
            ValueError: The attention of a layer is visible in some passes only.
        """
        if len({len(layers) for layers in self.rows}) > 1:
            raise ValueError(
                "Some layers of this model tell what they look at in some steps only, as linear "
                "attention does within a block of tokens, so its steps cannot be shown beside each "
                "other; its words are those of translate."
            )
        steps, parents, tokens, logs, totals, ranks, chances, fates = (
            np.array(column) for column in zip(*self.candidates, strict=True)
        )
        norms = np.array([length_norm(int(step) + 1, penalty) for step in steps])
        keys = [max((rows.shape[-1] for rows in layers), default=0) for layers in self.rows]
        ids, values, drawn = (np.stack(part) for part in zip(*self.tops, strict=True))
        return Search(
            block=self.block,
            steps=_array(steps, np.int32),
            parents=_array(parents, np.int32),
            tokens=_array(tokens, np.int32),
            logs=_array(logs, np.float64),
            totals=_array(totals, np.float64),
            scores=_array(totals / norms, np.float64),
            ranks=_array(ranks, np.int32),
            chances=_array(chances, np.float64),
            fates=_array(fates, np.uint8),
            best=best,
            texts=texts,
            owners=_array(np.array(self.owners), np.int32),
            top_tokens=_array(ids, np.int32),
            top_logs=_array(values, np.float64),
            top_chances=_array(drawn, np.float64),
            rows=tuple(_rectangle(layer) for layer in zip(*self.rows, strict=True)),
            keys=_array(np.array(keys), np.int32),
            beam=beam,
            drawing=self.temperature,
            penalty=penalty,
        )


def _alike(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    """Return True if the rows ``[head, key]`` of all layers are equal up to rounding."""
    if [row.shape for row in one] != [row.shape for row in other]:
        return False
    return all(np.abs(a - b).max() <= CLOSE for a, b in zip(one, other, strict=True))


def _array(values: np.ndarray, kind: type) -> np.ndarray:
    return read_only(values.astype(kind))


def _rectangle(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows ``[head, key]`` of growing length as one array, padded with 0."""
    most = max(row.shape[-1] for row in rows)
    return read_only(np.stack([np.pad(row, ((0, 0), (0, most - row.shape[-1]))) for row in rows]))
