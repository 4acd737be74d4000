"""All heads of a model ranked by what their removal costs, with intervals."""

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
POINTS = 11  # of a curve

#: A head: ``(stack, block, layer, head)``, or the `Site` of one.
Head = Site | tuple[str, str, int, int]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Every head, and what its removal costs on these sentences.

    ``table`` has a row a head, the costliest first: stack, block, layer, head; ``effect`` in
    ``unit`` with its 95 % interval ``low`` to ``high`` (below 0: without the head the references
    became more probable, or the score higher); ``rank`` from 1, and between which ranks it stands
    in 95 % of the draws, ``rank_low`` to ``rank_high``; ``kl``, the divergence from the clean run
    in nats a token; ``changed``, the share of tokens whose most probable word became another;
    ``significant``, whether the effect can be told from none after Holm's correction for all heads
    (and is more than rounding). ``unit`` is ``nats`` (per target token, class or label) or, of a
    regression, ``logit``: the effect is then the score that is lost on average, ``moved`` the mean
    of its absolute change, and ``kl`` and ``changed`` are NaN. ``effects`` are the sums of each
    sentence, ``[sentence, head]`` in the order of ``heads``, and ``counts`` the tokens of each;
    ``by_row`` the effects of each asked row ``[asked, head]``, of classifiers. ``card`` says what
    was measured.
    """

    table: pd.DataFrame
    card: dict[str, object]
    heads: tuple[Site, ...]
    effects: np.ndarray
    counts: np.ndarray
    bench: Bench
    by_row: np.ndarray | None = None

    def __repr__(self) -> str:
        """What it is in one line; the numbers are in ``table``."""
        told = int(self.table["significant"].sum())
        sentences = f"{len(self.counts)} sentence{'s' * (len(self.counts) != 1)}"
        said = (
            f"<Ranking of {len(self.heads)} heads on {sentences}, by removal to "
            f"{self.card['method']}: {told} told from no effect"
        )
        return with_mark(said, self.card) + ">"

    @cached_property
    def split_half(self) -> float:
        """How alike two halves of the sentences rank the heads: Spearman's correlation."""
        return bootstrap.split_half(self.effects, self.counts, seed=self.bench.seed)

    @property
    def unit(self) -> str:
        """The unit of all effects: ``nats``, or ``logit`` for a regression."""
        return self.bench.model.unit

    @cached_property
    def by_class(self) -> pd.DataFrame:
        """The effect of each removal on the inputs of one class alone, the costliest first.

        A row for each class and head: ``class`` (its number), ``label``, stack, block, layer, head,
        ``effect`` with ``low`` and ``high``, ``rank`` within the class, ``rows`` (how many were
        asked) and ``unit``. The classes are those that were asked about: given with the inputs, or
        the model's own; of a regression its outputs, of an answer its start and end.

        Raises:
            ValueError: a model that writes words.
        """
        if self.by_row is None:
            raise ValueError(
                f"The model {self.bench.model.name!r} gives {self.bench.model.gives}; only a "
                "ranking of a classifier is told apart by class."
            )
        return class_table(self.bench, self.by_row)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """What two heads cost together, beyond the sum of each alone, for the twelve strongest.

        ``interaction`` (in ``unit``, with ``low`` and ``high``) is ``together - effect_a -
        effect_b``. Above 0 one head does what the other did, so that neither is missed alone
        (``covered``: the whole interval lies above 0); below 0 both were links of one chain.
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
        """All heads of a block of a layer removed at once, of a layer, of a kind of block.

        ``sum`` is that of the heads alone; a group that costs much more holds heads that cover for
        each other. A missing block or layer means all of them.
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
        # a stack with one kind of block says the same twice
        kept = [n for n, one in enumerate(members) if one not in members[:n]]
        told = self._groups([members[n] for n in kept])
        named = pd.DataFrame([keys[n] for n in kept], columns=["stack", "block", "layer"])
        return pd.concat([named.astype({"layer": "Int64"}), told], axis=1).assign(unit=self.unit)

    def group(self, heads: Iterable[Head]) -> pd.Series:
        """These heads removed at once: effect, low, high, kl, changed, heads, and the sum of each
        alone.

        Raises:
            ValueError: no heads, or one that the model does not have.
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
        """More and more heads removed: ``removed`` (how many), effect, low, high, kl, changed.

        ``order`` is ``"most"`` (the costliest first), ``"least"`` (the cheapest first),
        ``"random"``, or a list of heads. A random curve is the mean of twenty orders, its low and
        high the band that holds 95 % of them; else they are the interval over sentences.
        ``points`` are how many places of the curve are measured, the clean run and the last
        included. ``on_progress`` hears how many sentences are done, of how many.

        Raises:
            ValueError: another word, or a head that the model does not have.
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
        """What each head gives in the mean over these sentences; edits may name it from now on.

        Raises:
            ValueError: this ranking replaced heads by something else.
        """
        found = self.bench.means(str(self.card["model_hash"]), str(self.card["sentences_hash"]))
        remember(found)
        return found

    def edits(self, heads: Iterable[Head]) -> tuple[Edit, ...]:
        """Edits that remove these heads as this ranking did.

        Raises:
            ValueError: a head that the model does not have, or heads replaced by what they gave in
                other sentences, which no edit can say.
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
        """What must be known beside the numbers, in sentences."""
        return notes_of(self.bench, self.table, self.card)

    def _number(self, head: Any) -> int:
        """The number of a head in ``heads``, from a site, a row of the table or a tuple."""
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
    """All heads of a model, ranked by what is lost without each of them.

    A head is removed before the output projection mixes it with others, and the words before each
    row stay those of the reference. The model itself is not touched.

    Args:
        model: what `load` gave, or a module; one that takes ids alone must predict the next one.
        pairs: (source, target) pairs, texts or ids; or sources alone, for which a model that
            translates writes the references itself, greedily. A GPT-like model takes sentences, or
            (beginning, continuation) pairs of which the second is asked; a masked model sentences,
            some of whose tokens it is to guess; a classifier inputs, or (input, class) pairs (of
            several labels a list of those that apply, of a regression the outputs whose change is
            measured; it takes no reference score); a model that marks an answer inputs, or (input,
            (first token, last token)) pairs.
        method: what a removed head gives. ``mean``: its mean over all rows of these sentences;
            ``zero``: nothing; ``resample``: what it gave in another sentence of like length, four
            seeded permutations; ``uniform``: as if it looked at all visible keys alike.
        on_progress: called after each few sentences with the number done, the number in all, and
            the table of these (None while references and replacements are prepared). What it
            raises comes out here.
        seed: of permutations, masks and reweightings.

    Raises:
        ValueError: another method, nothing to measure on, or a model that has nothing to lose;
            says what is needed.
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
    """The ranking of all heads of a bench."""
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
        if by_row is not None:  # rows of a batch are in the order of its sentences
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
