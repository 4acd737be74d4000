"""A model's cross-attention as the alignment of a corpus; each head against gold."""

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

#: Hears how many sentences are done, of how many; what it raises comes out.
Tell = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class CorpusAlignment:
    """The links of every sentence, and how they were found.

    ``walks`` has a row for each of monotonicity, diagonality, coverage: value, low, high (95 %
    bootstrap over sentences), chance, rows. ``errors``, None without gold, has a row for each head,
    for the mean of each layer's heads and of all (layer and head missing), and for each shift:
    ``error_rate`` (M16) with low and high, and the links right_sure, right_possible, found, sure
    that it is made of. ``card`` says what was measured, ``notes`` what must be known beside it.
    """

    links: tuple[Links, ...]
    walks: pd.DataFrame
    errors: pd.DataFrame | None
    card: dict[str, object]
    notes: tuple[str, ...]

    def pharaoh(self) -> str:
        """A Pharaoh file: a line a sentence, ``0-0 1-2``, source and target words from 0."""
        return "".join(f"{pharaoh(one)}\n" for one in self.links)

    def best(self, shift: str | None = None) -> pd.Series:
        """The head with the least error, of one shift or of both.

        Raises:
            LookupError: there was no gold.
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
    """Align every pair of sentences with a model's cross-attention, as `tv.align` does one.

    Args:
        thing: what `load` gave, or a module.
        pairs: (source, target) pairs, texts or ids; a source alone is translated greedily.
        gold: the links of people, one for each pair; with it every head is judged by both shifts.
        on_progress: hears how many sentences are done, of how many; what it raises comes out.
        seed: of the bootstrap.

    The other words are those of `tv.align`.

    Raises:
        ValueError: no sentences, gold for another number of them, or of words that are not there.
        LookupError: a model without cross-attention.
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
    """What the sentences so far gave; a run itself is not kept."""

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
        """One more sentence.

        Raises:
            ValueError: gold that speaks of other words than the run has.
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
        one.counts(gold)  # refuses words that are not there
        self.judged = self.judged or places(run)
        self.counts.append(judged(run, gold))

    def finished(self, seed: int, model: dict[str, Any]) -> CorpusAlignment:
        """All sentences together; ``model`` is what the card says of it."""
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
    """In what the words of a run are not those between blanks; empty where they are."""
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
    """From ``[sentence, measure, own or chance, sum or rows]`` to the table of walks."""
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
    """The 95 % interval of a rate over sentences; NaN where fewer than two can be asked."""
    if (rows > 0).sum() < 2:
        return float("nan"), float("nan")
    all_of, of = weights @ total, weights @ rows
    low, high = bootstrap.percentile_interval((all_of / np.where(of > 0, of, np.nan))[of > 0])
    return float(low), float(high)


def _errors(counts: np.ndarray, places: Sequence[tuple[Place, str]], seed: int) -> pd.DataFrame:
    """The table of error rates, from ``[sentence, map, count]``."""
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
