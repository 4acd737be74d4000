"""Word alignment of a corpus from cross-attention, and evaluation of each head against gold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ...core.guesses import library_note
from ...core.trace import Trace
from ...metrics.alignment.aligning import Alignment, align
from ...metrics.alignment.error_rate import Gold, LinkCounts, pharaoh
from ...metrics.alignment.judging import Place, judged, places
from ...metrics.alignment.linking import Links
from ...metrics.alignment.walking import WALKS, cross_rows, walk_tallies
from ...metrics.statistics import bootstrap
from ..model_inputs import model_of
from ..run_card import model_card
from ..tracing import trace

#: Called with the number of sentences done and in all; its exceptions propagate.
Tell = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class CorpusAlignment:
    """Links of all sentences, with measures and errors.

    Attributes:
        links: Links of each sentence.
        walks: Rows for monotonicity, diagonality and coverage: value, low, high (95 % bootstrap
            over sentences), chance, rows.
        errors: Error rates, or None without gold. Rows are the heads, the mean of each layer's
            heads and the mean of all heads (layer and head missing), each for both shifts. Columns
            are ``error_rate`` (M16) with low and high, and the link counts right_sure,
            right_possible, found, sure.
        card: Details of the measurement.
        notes: Notes needed to read the numbers.
    """

    links: tuple[Links, ...]
    walks: pd.DataFrame
    errors: pd.DataFrame | None
    card: dict[str, object]
    notes: tuple[str, ...]

    def pharaoh(self) -> str:
        """Return a Pharaoh file, one line per sentence: ``0-0 1-2``, source and target from 0."""
        return "".join(f"{pharaoh(one)}\n" for one in self.links)

    def best(self, shift: str | None = None) -> pd.Series:
        """Return the head with the lowest error rate, for one shift or both.

        Raises:
            LookupError: No gold was given.
        """
        if self.errors is None:
            raise LookupError("Heads are judged by gold, and none was given.")
        heads = self.errors[self.errors["head"].notna()]
        if shift is not None:
            heads = heads[heads["shift"] == shift]
        return heads.loc[heads["error_rate"].idxmin()]


def align_corpus(
    thing: Any,
    pairs: Sequence[Any],
    shift: str = "out",
    *,
    layer: int | None = None,
    head: int | None = None,
    symmetric: str | None = None,
    gold: Sequence[Gold] | None = None,
    on_progress: Tell | None = None,
    seed: int = 0,
) -> CorpusAlignment:
    """Align every sentence pair with a model's cross-attention, as `tv.align` does for one.

    ``shift``, ``layer``, ``head`` and ``symmetric`` are those of `tv.align`.

    Args:
        thing: Result of `load`, or a module.
        pairs: (source, target) pairs, texts or ids; a source alone is translated greedily.
        gold: Human links, one item per pair; with it every head is scored for both shifts.
        on_progress: Called with the number of sentences done and in all; its exceptions propagate.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: No sentences, another number of gold lines, or gold that links missing words.
        LookupError: The model has no cross-attention.
    """
    if not len(pairs) or isinstance(pairs, str):
        raise ValueError("An alignment takes a list of (source, target) pairs; give some.")
    if gold is not None and len(gold) != len(pairs):
        raise ValueError(
            f"The gold has {len(gold)} lines and there are {len(pairs)} sentences; give a line for "
            "each, an empty one where nothing is linked."
        )
    model = model_of(thing)
    seen = _Seen(Place(layer, head), shift, symmetric)
    for number, pair in enumerate(pairs):
        source, target = pair if isinstance(pair, tuple) else (pair, None)
        run = trace(model, source, target, check=False)
        try:
            seen.add(run, (source, target), None if gold is None else gold[number])
        except ValueError as error:
            raise ValueError(f"Sentence {number + 1}: {error}") from error
        if on_progress is not None:
            on_progress(number + 1, len(pairs))
    return seen.finished(seed, model_card(model))


@dataclass(eq=False)
class _Seen:
    """Results of the sentences so far; runs are not kept."""

    place: Place
    shift: str
    symmetric: str | None
    links: list[Links] = field(default_factory=list)
    tallies: list[list[list[tuple[float, float]]]] = field(default_factory=list)
    counts: list[list[LinkCounts]] = field(default_factory=list)
    judged: list[tuple[Place, str]] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    card: dict[str, object] = field(default_factory=dict)
    words: int = 0
    unread: int = 0
    odd: int = 0

    def add(self, run: Trace, texts: tuple[Any, Any], gold: Gold | None) -> None:
        """Add one sentence.

        Raises:
            ValueError: The gold links words that the run does not have.
        """
        layer, head = self.place
        one = align(run, self.shift, layer=layer, head=head, symmetric=self.symmetric)
        strange = _strange(one, texts)
        if gold is not None:
            self._judge(run, one, gold, strange)
        self.links.append(one.pairs)
        self.words, self.unread = self.words + len(one.source), self.unread + len(one.unread)
        self.odd += bool(strange)
        self.card = self.card or one.card
        self.hashes.append(str(one.card["sentences_hash"]))
        rows = cross_rows(run, self.shift, layer, head)
        self.tallies.append(
            [[(t.total[0], t.rows[0]) for t in pair] for pair in walk_tallies(rows)]
        )

    def _judge(self, run: Trace, one: Alignment, gold: Gold, strange: str) -> None:
        if strange:
            raise ValueError(
                f"{strange}, so gold that counts words between blanks does not fit; part the text "
                "into words that the tokenizer keeps whole."
            )
        one.counts(gold)  # raises if a word is missing
        self.judged = self.judged or places(run)
        self.counts.append(judged(run, gold))

    def finished(self, seed: int, model: dict[str, Any]) -> CorpusAlignment:
        """Return the results of all sentences; ``model`` is the model's part of the card."""
        card = (
            self.card
            | model
            | {
                "sentences": len(self.links),
                "sentences_hash": hashlib.sha256(" ".join(self.hashes).encode()).hexdigest(),
                "rows": int(sum(map(len, self.links))),
                "rows_are": "links",
                "seed": seed,
            }
        )
        notes = [f"{self.unread} of {self.words} source words were read by nobody ({self.shift})."]
        if self.odd:
            notes.append(
                f"In {self.odd} of {len(self.links)} sentences the words of the tokenizer are not "
                "those between blanks; links count the tokenizer's."
            )
        errors = _errors(np.array(self.counts), self.judged, seed) if self.counts else None
        walks = _walks(np.array(self.tallies), seed)
        notes += library_note(card)
        return CorpusAlignment(tuple(self.links), walks, errors, card, tuple(notes))


def _strange(one: Alignment, texts: tuple[Any, Any]) -> str:
    """Describe how a run's words differ from those between blanks; empty if they agree."""
    for name, text, words in zip(
        ("source", "target"), texts, (one.source, one.target), strict=True
    ):
        if isinstance(text, str) and len(text.split()) != len(words):
            return (
                f"the {name} has {len(text.split())} words between blanks, of which the tokenizer "
                f"makes {len(words)}"
            )
    return ""


def _walks(sums: np.ndarray, seed: int) -> pd.DataFrame:
    """Return the table of walks from ``[sentence, measure, own or chance, sum or rows]``."""
    weights = bootstrap.reweightings(len(sums), seed=seed)
    found = []
    for number, name in enumerate(WALKS):
        own, chance = sums[:, number, 0], sums[:, number, 1]
        low, high = _interval(own[:, 0], own[:, 1], weights)
        value, usual = _rate(*own.sum(0)), _rate(*chance.sum(0))
        found.append((name, value, low, high, usual, int(own[:, 1].sum())))
    return pd.DataFrame(found, columns=["measure", "value", "low", "high", "chance", "rows"])


def _rate(total: float, rows: float) -> float:
    return float(total / rows) if rows else float("nan")


def _interval(total: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of a rate over sentences; NaN with fewer than two usable ones."""
    if (rows > 0).sum() < 2:
        return float("nan"), float("nan")
    all_of, of = weights @ total, weights @ rows
    low, high = bootstrap.percentile_interval((all_of / np.where(of > 0, of, np.nan))[of > 0])
    return float(low), float(high)


def _errors(counts: np.ndarray, places: Sequence[tuple[Place, str]], seed: int) -> pd.DataFrame:
    """Return the table of error rates from ``[sentence, map, count]``."""
    weights, rows = bootstrap.reweightings(len(counts), seed=seed), []
    for number, ((layer, head), shift) in enumerate(places):
        own = counts[:, number]
        right, asked = own[:, 0] + own[:, 1], own[:, 2] + own[:, 3]
        low, high = _interval(asked - right, asked, weights)
        whole = LinkCounts(*map(int, own.sum(0)))
        rows.append((layer, head, shift, whole.error_rate, low, high, *whole))
    names = ["layer", "head", "shift", "error_rate", "low", "high", *LinkCounts._fields]
    table = pd.DataFrame(rows, columns=names)
    return table.astype({"layer": "Int64", "head": "Int64"})
