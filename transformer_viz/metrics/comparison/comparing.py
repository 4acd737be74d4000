"""Comparison of two runs, or of one pair of runs per sentence, head by head."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...core.guesses import guess_entry, guesses_in, library_note, with_mark
from ...core.numerics import unit_of
from ...core.sites import MAPS, called
from ...core.trace import Trace
from ...core.trace_parts import read_only
from ...core.version import __version__
from ...i18n import say
from ...preprocessing.tokenizers import numbered
from ..head_measures.rows import VIEWS, Tally, tally
from ..head_measures.tables import blocks_of, interval, measured, table_of
from ..statistics.bootstrap import reweightings
from .common_words import CommonWords, Word
from .output_scores import output_table, said_of_outputs, token_scores, word_score
from .pairing import CLEAR, Costs, paired
from .shared_maps import SharedBlock, SharedMap, shared_maps

Pairs = Sequence[tuple[Trace, Trace]]
Place = tuple[int, int]  # layer, head
ELSEWHERE = "elsewhere"  # the last column of shared maps


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """Head of each side on shared words, ``[row, column]``, and ``b - a``.

    The last column is *elsewhere*: weight on words that the other side lacks. ``guesses`` are
    config keys that no file states, with their values.
    """

    a: np.ndarray
    b: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    guesses: dict[str, Any] = field(default_factory=dict)

    @property
    def difference(self) -> np.ndarray:
        return self.b - self.a

    @property
    def limit(self) -> float:
        """Largest absolute difference: the end of a symmetric scale."""
        return float(np.abs(self.difference).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Difference of two sides, head by head, on shared words.

    Attributes:
        heads: A row per head on both sides: stack, block, layer, head; ``divergence``, the mean
            Jensen-Shannon divergence over rows in bits (0: equal; 1: no shared key), NaN without
            rows; ``rows``. Over several sentences also ``low`` and ``high``, the 95 % bootstrap
            interval.
        matched: Each head with the most similar one of the other side, see `pairing.paired`.
        words: A row per word: sentence, side (source or target), ``a`` and ``b`` (missing if a side
            lacks it), ``tokens_a`` and ``tokens_b`` (counts), ``same``, ``special``. ``score_a``
            and ``score_b`` are log-probabilities of output words (NaN for others), in ``unit``.
        runs: The compared runs; ``shared`` are the maps of the first pair.
    """

    heads: pd.DataFrame
    matched: pd.DataFrame
    words: pd.DataFrame
    card: dict[str, Any]
    notes: tuple[str, ...]
    runs: tuple[tuple[Trace, Trace], ...]
    shared: tuple[SharedMap, ...]

    def __repr__(self) -> str:
        """Return a one-line summary; the numbers are in ``heads`` and ``matched``."""
        inputs = f"{len(self.runs)} input{'s' * (len(self.runs) != 1)}"
        return with_mark(f"<Comparison of {len(self.heads)} heads on {inputs}", self.card) + ">"

    def maps(
        self, block: str, layer: int, head: int, other: tuple[int, int] | None = None
    ) -> HeadMaps:
        """Return a head of the first side with that of the same place or ``other`` (layer, head).

        Raises:
            LookupError: A side lacks the map or head.
        """
        there = {one.name: one for one in self.shared}
        if block not in there:
            raise LookupError(
                f"Both sides have no map {block!r} in common; they share {', '.join(there)}."
            )
        one = there[block]
        a = _head(one.a, block, (layer, head), "first")
        b = _head(one.b, block, (layer, head) if other is None else other, "second")
        names = _names(one.rows.shared), (*_names(one.columns.shared), ELSEWHERE)
        return HeadMaps(read_only(a), read_only(b), *names, guesses_in(self.card))

    def pairs(self, block: str, matched: bool = False) -> dict[Place, Place]:
        """Return pairs (layer, head) of both sides with the same place, or of ``matched`` heads."""
        stack, kind = MAPS[block]
        table = self.matched if matched else self.heads
        table = table[(table["stack"] == stack) & (table["block"] == kind)]
        if matched:
            table = table[table["other_head"].notna()]
            others = zip(table["other_layer"], table["other_head"], strict=True)
        else:
            others = zip(table["layer"], table["head"], strict=True)
        own = zip(table["layer"], table["head"], strict=True)
        return {
            (int(a), int(b)): (int(c), int(d)) for (a, b), (c, d) in zip(own, others, strict=True)
        }

    def divergence(self, block: str, place: Place, matched: bool = False) -> float:
        """Return the divergence of one head, (layer, head), from that of its place or its match."""
        stack, kind = MAPS[block]
        table = self.matched if matched else self.heads
        row = table[
            (table["stack"] == stack)
            & (table["block"] == kind)
            & (table["layer"] == place[0])
            & (table["head"] == place[1])
        ]
        return float(row["divergence"].iloc[0]) if len(row) else float("nan")

    def limit(self, matched: bool = False) -> float:
        """Return the largest absolute difference in any head: one scale for all pictures."""
        return max(
            (
                self.maps(one.name, *own, other).limit
                for one in self.shared
                for own, other in self.pairs(one.name, matched).items()
            ),
            default=0.0,
        )

    @cached_property
    def outputs(self) -> pd.DataFrame:
        """Class scores of each run, or scores of its answer's ends; see `output_table`."""
        return output_table(self.runs)

    @cached_property
    def measures(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Head measures of each side, as in `tv.metrics`, in the comparison's view."""
        view = str(self.card["view"])

        def of(run: Trace) -> list[Any]:
            return [measured(b.site, rows) for b, rows in blocks_of(run, view)]

        return tuple(table_of([of(run[side]) for run in self.runs]) for side in (0, 1))


def compared(
    pairs: Pairs, view: str = "raw", within: int | None = None, seed: int = 0
) -> Comparison:
    """Compare pairs of runs, one pair per sentence.

    Raises:
        ValueError: No pair, unknown view, or two sides with nothing in common.
        LookupError: A trace has no weights.
    """
    if view not in VIEWS:
        raise ValueError(f"There is no view {view!r}; choose of {', '.join(VIEWS)}.")
    if not pairs:
        raise ValueError("There is nothing to compare; give at least one pair of runs.")
    maps = [_in_common(a, b, view) for a, b in pairs]
    heads = _heads(maps, seed)
    matched = pd.concat([paired(costs, within) for costs in _costs(maps)], ignore_index=True)
    words = _words(maps, pairs)
    card = _card(pairs, view, heads)
    more = filter(None, [said_of_outputs(output_table(pairs[:1]))])
    notes = (*_notes(maps[0], heads, matched), *more, *library_note(card))
    return Comparison(heads, matched, words, card, notes, tuple(pairs), maps[0])


def _in_common(a: Trace, b: Trace, view: str) -> tuple[SharedMap, ...]:
    maps = shared_maps(a, b, view)
    if not maps:
        raise ValueError(
            say(
                "The two sides have no attention map in common: one has {ours}, the other "
                "{theirs}. Compare two models of one kind.",
                ours=_listed(a.maps),
                theirs=_listed(b.maps),
            )
        )
    if not any(one.rows.any_same for one in maps):
        raise ValueError(
            say(
                "The two sides read no word in common: {ours} and {theirs}. Give sentences that "
                "share words, or the same sentence to both.",
                ours=_text(a),
                theirs=_text(b),
            )
        )
    return maps


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(called, names)) or say("none")


def _text(trace: Trace) -> str:
    return repr(" ".join(trace.source.labels[:12]))


def _heads(maps: Sequence[Sequence[SharedMap]], seed: int) -> pd.DataFrame:
    """Return the table of heads with the same place on both sides."""
    names, tallies = _places(maps[0]), [_tallies(one) for one in maps]
    if any(_places(one) != names for one in maps[1:]):
        raise ValueError(
            "The runs of the sentences have not the same heads; compare runs of the same models."
        )
    table = pd.DataFrame(names, columns=["stack", "block", "layer", "head"])
    sums = np.stack([one.total for one in tallies])
    counts = np.stack([one.rows for one in tallies])
    table["divergence"] = _means(sums.sum(0), counts.sum(0))
    table["rows"] = counts.sum(0).astype(np.int64)
    if len(maps) > 1:
        draws = reweightings(len(maps), seed=seed)
        table["low"], table["high"] = interval(sums[..., None], counts[..., None], draws)
    return table


def _means(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0), np.nan)


def _same_places(one: SharedMap) -> list[tuple[SharedBlock, SharedBlock]]:
    there = {block.layer: block for block in one.b}
    return [(block, there[block.layer]) for block in one.a if block.layer in there]


def _places(maps: Sequence[SharedMap]) -> list[tuple[str, str, int, int]]:
    return [
        (*MAPS[one.name], a.layer, head)
        for one in maps
        for a, b in _same_places(one)
        for head in range(min(a.heads, b.heads))
    ]


def _tallies(maps: Sequence[SharedMap]) -> Tally:
    parts = [tally(*one.of_same_place(a, b)) for one in maps for a, b in _same_places(one)]
    return Tally(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _costs(maps: Sequence[Sequence[SharedMap]]) -> list[Costs]:
    """Return the divergence of all pairs of heads, by map, over all sentences."""
    found = []
    for number, first in enumerate(maps[0]):
        sums, counts = (
            np.sum([part[which] for part in (_all_pairs(one[number]) for one in maps)], axis=0)
            for which in (0, 1)
        )
        places, others = (
            tuple((block.layer, head) for block in side for head in range(block.heads))
            for side in (first.a, first.b)
        )
        found.append(Costs(first.name, places, others, _means(sums, counts)))
    return found


def _all_pairs(one: SharedMap) -> tuple[np.ndarray, np.ndarray]:
    table = [[one.of_all_pairs(a, b) for b in one.b] for a in one.a]
    sums, counts = (np.block([[pair[which] for pair in row] for row in table]) for which in (0, 1))
    return sums, counts


def _head(side: Sequence[SharedBlock], name: str, place: tuple[int, int], which: str) -> np.ndarray:
    found = {block.layer: block for block in side}
    layer, head = place
    if layer not in found or not 0 <= head < found[layer].heads:
        last = side[-1]
        raise LookupError(
            f"The {which} side has no {name} L{layer} H{head}; it has {name} "
            f"L{side[0].layer} H0 to L{last.layer} H{last.heads - 1}."
        )
    return found[layer].weights[head]


def _words(maps: Sequence[Sequence[SharedMap]], pairs: Pairs) -> pd.DataFrame:
    """Return the source and target words of every sentence."""
    rows = []
    for number, some in enumerate(maps):
        sides: dict[str, CommonWords] = {}
        for one in some:
            sides |= {one.query: one.rows, one.key: one.columns}
        for side, common in sorted(sides.items()):
            own, other = (token_scores(run, side) for run in pairs[number])
            unit = unit_of(pairs[number][0].task)
            rows += [
                (number, side, *_said_word(w), word_score(own, w.a), word_score(other, w.b), unit)
                for w in common.words
            ]
    names = ["sentence", "side", "a", "b", "tokens_a", "tokens_b", "same", "special"]
    return pd.DataFrame(rows, columns=[*names, "score_a", "score_b", "unit"])


def _said_word(word: Word) -> tuple[str | None, str | None, int, int, bool, bool]:
    sizes = (len(word.a), len(word.b))
    return word.label_a or None, word.label_b or None, *sizes, word.same, word.special


def _names(words: Sequence[Word]) -> tuple[str, ...]:
    """Return the axis labels of shared words; different ones get both labels."""
    names = (w.label_a if w.same else f"{w.label_a} / {w.label_b}" for w in words)
    return numbered(names)


def _card(pairs: Pairs, view: str, heads: pd.DataFrame) -> dict[str, Any]:
    """Return the details needed to reproduce and judge the numbers."""
    made = hashlib.sha256()
    for pair in pairs:
        for run in pair:
            target = None if run.target is None else run.target.ids
            made.update(repr((run.source.ids or run.source.pieces, target)).encode())
    return {
        "a": _side(pairs[0][0]),
        "b": _side(pairs[0][1]),
        "metric": "Jensen-Shannon divergence of attention rows, bits",
        "view": view,
        "sentences": len(pairs),
        "sentences_hash": made.hexdigest(),
        "rows": int(heads["rows"].max()) if len(heads) else 0,
        "version": __version__,
    }


def _side(run: Trace) -> dict[str, Any]:
    manifest = run.manifest
    return {
        "model": manifest.get("model"),
        "model_hash": manifest.get("hash"),
        "report": run.report.status,
        "dtype": manifest.get("dtype"),
        "device": manifest.get("device"),
        "seed": manifest.get("seed"),
        "intervention": run.intervention.to_json(),
        **guess_entry(run.guesses),
    }


def _notes(
    maps: Sequence[SharedMap], heads: pd.DataFrame, matched: pd.DataFrame
) -> tuple[str, ...]:
    """Return notes needed to read the numbers, as sentences."""
    said = [_said_of_words(maps)]
    left_out = [one.name for one in maps if _shape(one.a) != _shape(one.b)]
    if left_out:
        said.append(
            f"The two sides have not the same layers and heads ({', '.join(left_out)}): a place "
            "that both have means the same number and no more; read the matched heads."
        )
    unasked = int((heads["rows"] == 0).sum())
    if unasked:
        said.append(f"{unasked} of {len(heads)} heads could be asked in no row: no value.")
    known = matched[matched["other_head"].notna()]
    if len(known):
        said.append(
            f"Matched: {int(known['same'].sum())} of {len(known)} heads go with the head of their "
            f"own place; {int(known['ambiguous'].sum())} are ambiguous, the next best being less "
            f"than {CLEAR} bits farther."
        )
    return (*said, "Two heads that look alike need not do the same: values may differ.")


def _shape(side: Sequence[SharedBlock]) -> list[tuple[int, int]]:
    return [(block.layer, block.heads) for block in side]


def _said_of_words(maps: Sequence[SharedMap]) -> str:
    """Return a sentence on the matching of words, for all sentences of a run."""
    common = [side for one in maps for side in (one.rows, one.columns)]
    how = {side.how for side in common}
    if how == {"tokens"}:
        return "Both sides read the same tokens."
    if "words" not in how:
        return (
            "Both sides read the same text in other pieces; it is cut where both cut it, and the "
            "pieces between two cuts are one word: columns added, rows averaged."
        )
    count = sum(not word.special for word in maps[0].columns.shared)
    lone = sum(not word.special for word in maps[0].columns.lone)
    return (
        f"Two texts: {count} words of one have a counterpart in the other, {lone} have none; what "
        "goes to those stands in the column elsewhere, and their rows are not asked."
    )
