"""Ranking of all heads of a model by the cost of their removal, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from ...checkpoints.common.model import Model
from ...core.guesses import with_mark
from ...core.interventions import Edit, MeanHead, ScaleHead, UniformHead
from ...core.renamed import accept_old_keywords
from ...core.sites import Site
from ...core.trace_parts import read_only
from ...metrics.statistics import bootstrap
from ..head_means import HeadMeans, remember
from ..head_metrics.telling import Tell
from ..model_inputs import model_of
from ..outputs import JUDGED
from .bench import Bench, Removal
from .effect_tables import class_table, head_table
from .examples import read_examples
from .ranking_notes import notes_of
from .scores import MEASURES, SUMS, Costs
from .stand_ins import METHODS

PAIRED = 12  # heads whose pairs are removed
ORDERS = 20  # random orders of removal
POINTS = 11  # points per curve

#: A head: ``(stack, block, layer, head)``, or the `Site` of one.
Head = Site | tuple[str, str, int, int]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Cost of removing each head on these sentences.

    Attributes:
        table: A row per head, the costliest first: stack, block, layer and head. ``effect`` is in
            ``unit``, with 95 % interval ``low`` to ``high``. A negative effect means that the
            references became more probable, or the score higher. ``rank`` counts from 1;
            ``rank_low`` to ``rank_high`` hold 95 % of the draws. ``kl`` is the divergence from the
            clean run in nats per token; ``changed`` the share of tokens with a new most probable
            token. ``significant`` is True if the effect differs from 0 after Holm's correction over
            all heads, and exceeds rounding. ``unit`` is ``nats`` (per target token, class or label)
            or, for a regression, ``logit``. For a regression, the effect is the mean loss of score,
            ``moved`` the mean absolute change; ``kl`` and ``changed`` are NaN.
        card: Details of the measurement.
        heads: All heads, in the order of ``effects``.
        effects: Effect sums per sentence, ``[sentence, head]``.
        counts: Tokens per sentence.
        bench: Bench that measured the costs.
        by_row: Effects of each scored row, ``[asked, head]``; only for classifiers.
    """

    table: pd.DataFrame
    card: dict[str, object]
    heads: tuple[Site, ...]
    effects: np.ndarray
    counts: np.ndarray
    bench: Bench
    by_row: np.ndarray | None = None

    def __repr__(self) -> str:
        """Return a one-line summary; the numbers are in ``table``."""
        told = int(self.table["significant"].sum())
        sentences = f"{len(self.counts)} sentence{'s' * (len(self.counts) != 1)}"
        said = (
            f"<Ranking of {len(self.heads)} heads on {sentences}, by removal to "
            f"{self.card['method']}: {told} told from no effect"
        )
        return with_mark(said, self.card) + ">"

    @cached_property
    def split_half(self) -> float:
        """Spearman's correlation between the head rankings of two halves of the sentences."""
        return bootstrap.split_half(self.effects, self.counts, seed=self.bench.seed)

    @property
    def unit(self) -> str:
        """Unit of all effects: ``nats``, or ``logit`` for a regression."""
        return self.bench.model.unit

    @cached_property
    def by_class(self) -> pd.DataFrame:
        """Effect of each removal on the inputs of each class, the costliest first.

        Each row is a class and a head. Columns are ``class`` (its number), ``label``, stack, block,
        layer, head, ``effect`` with ``low`` and ``high``, ``rank`` within the class, ``rows`` (the
        number scored) and ``unit``. The classes were given with the inputs, or are the model's own.
        For a regression they are its outputs, for an answer its start and end.

        Raises:
            ValueError: The model generates text.
        """
        if self.by_row is None:
            raise ValueError(
                f"The model {self.bench.model.name!r} gives {self.bench.model.gives}; only a "
                "ranking of a classifier is told apart by class."
            )
        return class_table(self.bench, self.by_row)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Interaction of two heads, for all pairs of the twelve strongest heads.

        ``interaction`` (in ``unit``, with ``low`` and ``high``) is ``together - effect_a -
        effect_b``. Above 0 the heads are redundant: neither is missed alone (``covered``: the whole
        interval is above 0). Below 0 both were links of one chain.
        """
        first = [self._number(row) for row in self.table.itertuples()][:PAIRED]
        pairs = list(combinations(first, 2))
        costs = self._costs([frozenset(pair) for pair in pairs])
        a, b = (self.effects[:, [pair[side] for pair in pairs]] for side in (0, 1))
        found = self._with_interval(costs.effect - a - b)
        table = pd.DataFrame(
            {
                "a": [str(self.heads[pair[0]]) for pair in pairs],
                "b": [str(self.heads[pair[1]]) for pair in pairs],
                "effect_a": bootstrap.pooled_means(a, self.counts),
                "effect_b": bootstrap.pooled_means(b, self.counts),
                "together": bootstrap.pooled_means(costs.effect, self.counts),
                "interaction": found["effect"],
                "low": found["low"],
                "high": found["high"],
            }
        )
        return table.assign(covered=table["low"] > 0, unit=self.unit)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Effect of removing all heads of a layer's block, of a layer, or of a block type.

        ``sum`` adds the effects of the single heads; a group that costs much more has redundant
        heads. A missing block or layer means all of them.
        """
        keys: list[tuple[str, str | None, int | None]] = []
        for site in self.heads:
            keys += [(site.stack, site.block, None), (site.stack, None, site.layer)]
            keys.append((site.stack, site.block, site.layer))
        keys = list(dict.fromkeys(keys))
        members = [
            frozenset(
                n
                for n, site in enumerate(self.heads)
                if site.stack == stack
                and block in (None, site.block)
                and layer in (None, site.layer)
            )
            for stack, block, layer in keys
        ]
        # a stack with one block type gives the same group twice
        kept = [n for n, one in enumerate(members) if one not in members[:n]]
        told = self._groups([members[n] for n in kept])
        named = pd.DataFrame([keys[n] for n in kept], columns=["stack", "block", "layer"])
        return pd.concat([named.astype({"layer": "Int64"}), told], axis=1).assign(unit=self.unit)

    def group(self, heads: Iterable[Head]) -> pd.Series:
        """Remove these heads together and return effect, low, high, kl, changed, heads and sum.

        ``sum`` adds the effects of the single heads.

        Raises:
            ValueError: The list is empty, or the model does not have one of the heads.
        """
        chosen = frozenset(map(self._number, heads))
        if not chosen:
            raise ValueError("A group needs at least one head; give some of the table.")
        return self._groups([chosen]).iloc[0]

    def curve(
        self,
        order: str | Sequence[Head] = "most",
        points: int = POINTS,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> pd.DataFrame:
        """Remove more and more heads; return columns removed, effect, low, high, kl and changed.

        Args:
            order: ``"most"`` (the costliest first), ``"least"`` (the cheapest first), ``"random"``,
                or a list of heads. A random curve is the mean of twenty orders; its low and high
                hold 95 % of them. Otherwise they are the interval over sentences.
            points: Number of points on the curve, including the clean run and the last.
            on_progress: Called with the number of sentences done and in all.

        Raises:
            ValueError: Unknown order, or a head that the model does not have.
        """
        ranked = [self._number(row) for row in self.table.itertuples()]
        if isinstance(order, str):
            if order not in ("most", "least", "random"):
                raise ValueError(
                    f"A curve goes in the order most, least or random, or in that of a list of "
                    f"heads; got {order!r}."
                )
            orders = [ranked[::-1] if order == "least" else ranked]
        else:
            orders = [list(dict.fromkeys(map(self._number, order)))]
        if order == "random":
            generator = np.random.default_rng(self.bench.seed)
            orders = [generator.permutation(len(ranked)).tolist() for _ in range(ORDERS)]
        steps = np.unique(np.linspace(0, len(orders[0]), max(2, points)).round().astype(int))
        sets = [frozenset(one[:count]) for one in orders for count in steps]
        costs = self._costs(sets, on_progress)
        if len(orders) == 1:
            told = pd.concat([pd.Series(steps, name="removed"), self._told(costs)], axis=1)
            return told.assign(unit=self.unit)
        shape = (len(orders), len(steps))
        means = {
            name: bootstrap.pooled_means(getattr(costs, name), self.counts).reshape(shape)
            for name in MEASURES
        }
        low, high = bootstrap.percentile_interval(means["effect"])
        return pd.DataFrame(
            {"removed": steps, "effect": means["effect"].mean(0), "low": low, "high": high}
            | {name: means[name].mean(0) for name in ("kl", "changed")}
            | {"unit": self.unit}
        )

    @cached_property
    def means(self) -> HeadMeans:
        """Mean output of each head over these sentences; edits may refer to it from now on.

        Raises:
            ValueError: This ranking used another replacement.
        """
        found = self.bench.means(str(self.card["model_hash"]), str(self.card["sentences_hash"]))
        remember(found)
        return found

    def edits(self, heads: Iterable[Head]) -> tuple[Edit, ...]:
        """Return edits that remove these heads as this ranking did.

        Raises:
            ValueError: The model does not have a head, or heads were resampled from other
                sentences, which no edit can express.
        """
        sites = [self.heads[self._number(head)] for head in heads]
        places = [
            {"stack": s.stack, "block": s.block, "layer": s.layer, "head": s.head} for s in sites
        ]
        kinds: dict[str, Callable[..., Edit]] = {
            "mean": lambda **at: MeanHead(mean=self.means.hash, **at),
            "zero": lambda **at: ScaleHead(value=0, **at),
            "uniform": UniformHead,
        }
        if self.bench.method not in kinds:
            raise ValueError(
                f"No edit says {self.bench.method!r}: it takes what a head gave in several other "
                "sentences. Rank with mean, zero or uniform."
            )
        return tuple(kinds[self.bench.method](**place) for place in places)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes needed to read the numbers, as sentences."""
        return notes_of(self.bench, self.table, self.card)

    def _number(self, head: Any) -> int:
        """Return the index of a head in ``heads``, from a site, a row of the table or a tuple."""
        if hasattr(head, "stack"):
            wanted = Site(head.stack, head.block, head.layer, head.head)
        else:
            wanted = Site(*head)
        if wanted not in self.heads:
            raise ValueError(
                f"There is no head {wanted}; this model has {len(self.heads)} of them, from "
                f"{self.heads[0]} to {self.heads[-1]}. Name one as (stack, block, layer, head)."
            )
        return self.heads.index(wanted)

    def _costs(
        self, sets: Sequence[Removal], on_progress: Callable[[int, int], None] | None = None
    ) -> Costs:
        found, done = Costs.empty(len(self.counts), len(sets)), 0
        for batch, part in self.bench.removals(sets):
            for name in SUMS:
                getattr(found, name)[list(batch.numbers)] = getattr(part, name)
            done += len(batch)
            if on_progress is not None:
                on_progress(done, len(self.counts))
        return found

    def _groups(self, sets: Sequence[Removal]) -> pd.DataFrame:
        alone = bootstrap.pooled_means(self.effects, self.counts)
        told = self._told(self._costs(sets))
        told.insert(0, "heads", [len(one) for one in sets])
        return told.assign(sum=[float(alone[list(one)].sum()) for one in sets])

    def _told(self, costs: Costs) -> pd.DataFrame:
        found = self._with_interval(costs.effect)
        for name in ("kl", "changed"):
            found[name] = bootstrap.pooled_means(getattr(costs, name), self.counts)
        return pd.DataFrame(found)

    def _with_interval(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        weights = bootstrap.reweightings(len(self.counts), seed=self.bench.seed)
        draws = bootstrap.pooled_means(sums, self.counts, weights)
        low, high = bootstrap.percentile_interval(draws)
        return {"effect": bootstrap.pooled_means(sums, self.counts), "low": low, "high": high}


@accept_old_keywords(tell="on_progress")
def rank(
    model: Model | nn.Module,
    pairs: Sequence[Any],
    method: str = "mean",
    *,
    on_progress: Tell | None = None,
    seed: int = 0,
) -> Ranking:
    """Rank all heads of a model by the loss that their removal causes.

    A head is removed before the output projection mixes it with others. Tokens before each row stay
    those of the reference. The model is not changed.

    Args:
        model: Result of `load`, or a module. A module that takes ids alone must predict the next
            one.
        pairs: (source, target) pairs, texts or ids. From sources alone, a translation model decodes
            the references greedily. A GPT-like model takes sentences, or (beginning, continuation)
            pairs; then only the continuation is scored. A masked model takes sentences, some tokens
            of which it must predict. A classifier takes inputs or (input, class) pairs; several
            labels are a list of those that apply. A regression takes the outputs to measure instead
            of a class, and no reference score. A model that marks an answer takes inputs or (input,
            (first token, last token)) pairs.
        method: Replacement of a removed head. ``mean``: its mean over all rows of these sentences.
            ``zero``: 0. ``resample``: its output in another sentence of similar length, four seeded
            permutations. ``uniform``: uniform attention over all visible keys.
        on_progress: Called after every few sentences with the number done, the number in all, and
            their table (None while references and replacements are prepared). Its exceptions
            propagate.
        seed: Seed of permutations, masks and reweightings.

    Raises:
        ValueError: Unknown method, nothing to measure on, or a model without a loss.
    """
    if method not in METHODS:
        raise ValueError(f"There is no method {method!r}; choose one of {', '.join(METHODS)}.")
    ready = model_of(model)

    def pause() -> None:
        if on_progress is not None:
            on_progress(0, len(pairs), None)

    examples = read_examples(ready, pairs, seed, pause)
    bench = Bench(ready, examples, method, seed, pause)
    return measured(bench, on_progress)


def measured(bench: Bench, on_progress: Tell | None = None) -> Ranking:
    """Return the ranking of all heads of a bench."""
    counts, task = bench.examples.counts, bench.model.task
    found, done = Costs.empty(len(counts), len(bench.heads)), np.zeros(len(counts), bool)
    starts = np.cumsum([0, *counts])
    by_row = None
    if bench.model.gives in JUDGED:
        by_row = np.zeros((int(starts[-1]), len(bench.heads)))
    alone = [frozenset((number,)) for number in range(len(bench.heads))]
    for batch, part in bench.removals(alone):
        numbers = list(batch.numbers)
        for name in SUMS:
            getattr(found, name)[numbers] = getattr(part, name)
        if by_row is not None:  # rows of a batch follow its sentences
            by_row[np.concatenate([np.arange(starts[n], starts[n + 1]) for n in numbers])] = (
                part.by_row
            )
        done[numbers] = True
        if on_progress is not None:
            on_progress(
                int(done.sum()),
                len(counts),
                head_table(bench.heads, found, counts, done, bench.seed, task),
            )
    table = head_table(bench.heads, found, counts, done, bench.seed, task)
    card = bench.card() | {"draws": bootstrap.DRAWS, "level": bootstrap.LEVEL}
    effects = read_only(found.effect)
    each = None if by_row is None else read_only(by_row)
    return Ranking(table, card, tuple(bench.heads), effects, read_only(counts), bench, each)
