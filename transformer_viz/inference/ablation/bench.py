"""Ablation bench: a model, its examples and one replacement method."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from ...checkpoints.common.model import Model
from ...core.sites import Site
from ...model import Transformer
from ..head_means import HeadMeans
from ..run_card import model_card
from .batches import Batch, batches, gather
from .examples import Examples
from .passes import (
    Copy,
    GeneralPasses,
    OwnPasses,
    Passes,
    ProbedPasses,
    most_copies,
    whole_output,
)
from .places import Attention, attentions_of, own_attentions
from .scores import SUMS, Costs, costs
from .stand_ins import HARDLY, SAID, Constant, Resampled, StandIns, Uniform, means, zeros

#: Heads that are removed together, as indices into `Bench.heads`.
Removal = frozenset[int]


class Bench:
    """Measurement of head removals.

    ``heads`` lists all heads of the model in execution order. The model is not changed: results do
    not depend on earlier removals.
    """

    def __init__(
        self,
        model: Model,
        examples: Examples,
        method: str,
        seed: int,
        pause: Callable[[], None],
        *,
        one_by_one: bool = False,
    ):
        """Find the heads and their replacements.

        Args:
            model: Model to ablate.
            examples: Inputs and reference tokens.
            method: Replacement method, such as "mean" or "zero".
            seed: Seed of the batch order and of resampling.
            pause: Called between preparation steps; an exception that it raises aborts.
            one_by_one: Use one probed run per removal, even where one pass would do.

        Raises:
            ValueError: The method needs head outputs that cannot be reached in this model.
        """
        self.model, self.examples, self.method, self.seed = model, examples, method, seed
        own = isinstance(model.module, Transformer) and model.takes == "text"
        self.attentions = self._attentions(own, pause)
        places = [attention.place for attention in self.attentions]
        self.places = [place for place in places if place is not None]
        self.heads = [
            Site(a.site.stack, a.site.block, a.site.layer, head, path=a.site.path)
            for a in self.attentions
            for head in range(a.heads)
        ]
        self._numbers = [
            (n, head) for n, a in enumerate(self.attentions) for head in range(a.heads)
        ]
        whole = len(self.places) == len(places)
        if not whole and method not in ("zero", "uniform"):
            lost = next(a.site for a in self.attentions if a.place is None)
            raise ValueError(
                f"What the heads of {lost} give is not found before an output projection "
                f"({lost.path or 'this module'} has none that could be told), so nothing can be "
                "put in its place; take method='zero' or method='uniform'."
            )
        self.padded = own and whole
        with torch.no_grad():
            self.batches = list(
                batches(examples.items, self.padded, model.pad_id, model.device, seed)
            )
            self.probed = ProbedPasses(
                model, [a.site for a in self.attentions], method == "uniform"
            )
            self.passes: Passes = self.probed
            self.stand_ins: StandIns | None = None
            if whole and not one_by_one:
                gated = (OwnPasses if own else GeneralPasses)(model, self.places)
                self.passes, self.stand_ins = gated, self._stand_ins(gated, pause)

    @property
    def constant(self) -> tuple[Site, ...]:
        """Heads whose output hardly varies, so that their replacement is nearly the same.

        See `stand_ins.HARDLY`; empty for methods with other replacements.
        """
        spread = getattr(self.stand_ins, "spread", None)
        if spread is None:
            return ()
        flat = [value for one in spread for value in one.tolist()]
        return tuple(site for site, value in zip(self.heads, flat, strict=True) if value < HARDLY)

    @property
    def in_one_pass(self) -> bool:
        """True if many heads share a pass; False if each head needs a probed run."""
        return self.passes is not self.probed

    def _attentions(self, own: bool, pause: Callable[[], None]) -> list[Attention]:
        if own:
            assert isinstance(self.model.module, Transformer)
            return own_attentions(self.model.module)
        longest = max(self.examples.items, key=lambda item: sum(item.shape))
        one = gather([longest], [0], self.model.pad_id, self.model.device)
        return attentions_of(
            self.model,
            lambda twice: whole_output(self.model, _beside_its_reverse(one) if twice else one, 1),
            lambda done, of: pause(),
        )

    def _stand_ins(self, passes: GeneralPasses, pause: Callable[[], None]) -> StandIns:
        if self.method == "mean":
            return means(passes, self.batches, pause)
        if self.method == "resample":
            return Resampled(passes, self.batches, len(self.examples), self.seed, pause)
        return Uniform(passes) if self.method == "uniform" else zeros(self.places)

    def removals(self, sets: Sequence[Removal]) -> Iterator[tuple[Batch, Costs]]:
        """Yield each batch with the costs of all removals, ``[sentence of the batch, removal]``."""
        together = any(len({self._numbers[h][0] for h in one}) > 1 for one in sets)
        # uniform stand-ins come from the clean run, which several heads made uniform together do
        # not see
        probed = self.method == "uniform" and together
        for batch in self.batches:
            with torch.no_grad():
                yield batch, self._batch(batch, sets, self.probed if probed else self.passes)

    def _batch(self, batch: Batch, sets: Sequence[Removal], passes: Passes) -> Costs:
        own = self.stand_ins if passes is self.passes else None
        count = 1 if own is None else own.count
        values: list[Tensor] = [] if own is None else own.of(batch)
        found = Costs.empty(len(batch), len(sets), len(batch.owner))
        for numbers in _shared(sets, self._stage(passes), most_copies(passes, batch) // count):
            copies = [
                Copy(frozenset(self._numbers[head] for head in sets[n]), k)
                for n in numbers
                for k in range(count)
            ]
            one = costs(passes.logits(batch, copies, values), batch, self.model.task)
            for name in (*SUMS, "by_row"):
                part: np.ndarray = getattr(one, name)
                part = part.reshape(len(part), len(numbers), count).mean(axis=2)
                getattr(found, name)[:, numbers] = part
        return found

    def _stage(self, passes: Passes) -> Callable[[Removal], int]:
        def stage(removal: Removal) -> int:
            return min((passes.stage(self._numbers[head][0]) for head in removal), default=0)

        return stage

    def means(self, model_hash: str, sentences_hash: str) -> HeadMeans:
        """Return each head's mean output over the rows of all sentences.

        Raises:
            ValueError: This bench uses another replacement than the mean.
        """
        if not isinstance(self.stand_ins, Constant) or self.method != "mean":
            raise ValueError(
                f"The means of heads are those of method='mean'; this is {self.method!r}."
            )
        values = {}
        for place, value in zip(self.places, self.stand_ins.values, strict=True):
            heads = [value[0, 0, 0][place.columns == head] for head in range(place.heads)]
            named = str(Site(place.site.stack, place.site.block, place.site.layer))
            values[named] = torch.stack(heads).float().cpu().numpy()
        rows = int(self.examples.counts.sum())
        return HeadMeans(values, model_hash, sentences_hash, rows)

    def card(self) -> dict[str, object]:
        """Return the details needed to reproduce and judge the numbers."""
        return {
            **model_card(self.model),
            "sentences": len(self.examples),
            "sentences_hash": _sentences_hash(self.examples),
            "rows": int(self.examples.counts.sum()),
            "references": self.examples.reference,
            "method": self.method,
            "replacement": SAID[self.method],
            "unit": self.model.unit,
            "seed": self.seed,
            "runs": "many heads in one pass" if self.in_one_pass else "one run of the probe a head",
        }


def _shared(
    sets: Sequence[Removal], stage: Callable[[Removal], int], most: int
) -> Iterator[list[int]]:
    """Yield indices of removals that share a pass: equal start stage, at most ``most`` of them."""
    some = [n for n in range(len(sets)) if sets[n]]  # an empty removal costs 0
    order = sorted(some, key=lambda n: (stage(sets[n]), n))
    for _, group in groupby(order, key=lambda n: stage(sets[n])):
        numbers = list(group)
        for start in range(0, len(numbers), max(1, most)):
            yield numbers[start : start + max(1, most)]


def _beside_its_reverse(batch: Batch) -> Batch:
    """Return a batch of two: the sentence and its reverse."""

    def twice(x: Tensor | None) -> Tensor | None:
        return None if x is None else torch.cat((x, x.flip(-1)))

    parts = vars(batch) | {name: twice(getattr(batch, name)) for name in ("source", "target")}
    lengths = {n: getattr(batch, n).repeat(2) for n in ("source_lengths", "target_lengths")}
    if batch.segments is not None:
        lengths["segments"] = batch.segments.repeat(2, 1)
    return Batch(**(parts | lengths | {"numbers": (0, 1)}))


def _sentences_hash(examples: Examples) -> str:
    """Return the SHA-256 of all inputs and questions."""
    made = hashlib.sha256()
    for item in examples.items:
        target = None if item.target is None else item.target.tolist()
        made.update(repr((item.source.tolist(), target, item.rows, item.wanted)).encode())
    return made.hexdigest()
