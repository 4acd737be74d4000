"""A model's cross-attention as the alignment of a corpus; each head against gold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...core.trace import Trace
from ...metrics.alignment.aligning import Alignment, align
from ...metrics.alignment.error_rate import Gold, LinkCounts, counted, pharaoh
from ...metrics.alignment.linking import SHIFTS, Links, by_words, links_of
from ...metrics.alignment.walking import WALKS, cross_rows, mean_map
from ...metrics.statistics import bootstrap
from ..model_inputs import model_of
from ..tracing import trace

#: Which map of a run is read: layer and head; None stands for the mean over all of them.
Place = tuple[int | None, int | None]
Tell = Callable[[int, int], None]
WORDS = ("source words", "source words that nobody read")


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
    tell: Tell | None = None,
    seed: int = 0,
) -> CorpusAlignment:
    """Align every pair of sentences with a model's cross-attention, as `tv.align` does one.

    Args:
        thing: what `load` gave, or a module.
        pairs: (source, target) pairs, texts or ids; a source alone is translated greedily.
        gold: the links of people, one for each pair; with it every head is judged by both shifts.
        tell: hears how many sentences are done, of how many; what it raises comes out.
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
    places: list[tuple[Place, str]] = []
    links, tallies, counts, odd, words = [], [], [], 0, np.zeros(2, np.int64)
    read = hashlib.sha256()
    card: dict[str, object] = {}
    for number, pair in enumerate(pairs):
        source, target = pair if isinstance(pair, tuple) else (pair, None)
        run = trace(model, source, target, check=False)
        one = align(run, shift, layer=layer, head=head, symmetric=symmetric)
        links.append(one.pairs)
        words += len(one.source), len(one.unread)
        strange = _strange(one, source, target)
        odd += bool(strange)
        read.update(str(one.card["sentences_hash"]).encode())
        card = card or one.card
        rows = cross_rows(run, shift, layer, head)
        tallies.append([[of(rows), of(rows.even())] for of in WALKS.values()])
        if gold is not None:
            places = places or _places(run)
            counts.append(_judged(run, one, gold[number], places, number, strange))
        if tell is not None:
            tell(number + 1, len(pairs))
    card |= {"sentences": len(pairs), "sentences_hash": read.hexdigest(), "seed": seed}
    walks = _walks(np.array([[[(t.total[0], t.rows[0]) for t in w] for w in s] for s in tallies]))
    card["rows"] = int(sum(map(len, links)))
    card["rows_are"] = "links"
    notes = [f"{words[1]} of {words[0]} source words were read by nobody ({shift})."]
    if odd:
        notes.append(
            f"In {odd} of {len(pairs)} sentences the words of the tokenizer are not those between "
            "blanks; links count the tokenizer's."
        )
    errors = _errors(np.array(counts), places, seed) if counts else None
    return CorpusAlignment(tuple(links), walks, errors, card, tuple(notes))


def _strange(one: Alignment, source: Any, target: Any) -> str:
    """In what the words of a run are not those between blanks; empty where they are."""
    for name, text, words in (("source", source, one.source), ("target", target, one.target)):
        if isinstance(text, str) and len(text.split()) != len(words):
            return f"the {name} has {len(text.split())} words between blanks, and the tokenizer "
            f"makes {len(words)} of them"
    return ""


def _places(run: Trace) -> list[tuple[Place, str]]:
    """Every map that is judged, by both shifts: each head, the mean of each layer, of all."""
    maps: list[Place] = [
        (block.site.layer, head)
        for block in run.blocks("cross")
        for head in (*range(len(block.weights)), None)
    ]
    return [(place, shift) for place in [*maps, (None, None)] for shift in SHIFTS]


def _judged(
    run: Trace,
    one: Alignment,
    gold: Gold,
    places: Sequence[tuple[Place, str]],
    number: int,
    strange: str,
) -> list[LinkCounts]:
    if strange:
        raise ValueError(
            f"Sentence {number + 1}: {strange}, so gold that counts words between blanks does not "
            "fit; part the text into words that the tokenizer keeps whole."
        )
    try:
        one.counts(gold)  # refuses words that are not there
    except ValueError as error:
        raise ValueError(f"Sentence {number + 1}: {error}") from error
    target = run.tokens("target")
    return [
        counted(links_of(by_words(mean_map(run, *place), run.source, target, shift)), gold)
        for place, shift in places
    ]


def _walks(sums: np.ndarray) -> pd.DataFrame:
    """From ``[sentence, measure, own or chance, sum or rows]`` to the table of walks."""
    weights = bootstrap.reweightings(len(sums))
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
