"""Trial runs of a module with a plan: find masks, causal attention, and mixing of tokens.

A token is exchanged for another one. The rows of the output that change attend to it. If the output
has no rows, the attention maps are used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from ....capture import CaptureRequest, probe
from ....core.interventions import Intervention
from .outputs import arrange, arrangement_of
from .plan import MASK, SOURCE, TARGET, Plan

BATCH, LENGTH, SHORT = 3, 5, 4  # texts, source tokens, target tokens
PLACES = (1, 3)  # tokens that are hidden, by turns
POOLED = ("classes", "one", "last")


@dataclass(frozen=True)
class Sample:
    """Made-up texts: ids from ``first`` on, or vectors of a width.

    Ids from 4 on are rarely special ones, which modules hide by themselves.
    """

    first: int = 4
    count: int = 4
    width: int = 0
    batch: int = BATCH
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    mixed: bool = False  # the source is vectors, the target ids

    def text(self, length: int, target: bool = False) -> Tensor:
        """Return texts ``[batch, token]``, or vectors ``[batch, token, width]``."""
        if self.width and not (target and self.mixed):
            random = torch.Generator().manual_seed(0)
            made = torch.randn(self.batch, length, self.width, generator=random)
            return made.to(self.device, self.dtype)
        steps = torch.arange(self.batch)[:, None] + 3 * torch.arange(length)
        return (self.first + steps % self.count).to(self.device)

    def changed(self, text: Tensor, places: Tensor) -> Tensor:
        """Return the texts with another token at the given place of each text."""
        made, batch = text.clone(), torch.arange(len(text))
        old = made[batch, places]
        other = (
            old.flip(-1) + 1
            if old.is_floating_point()
            else self.first + (old - self.first + 1) % self.count
        )
        made[batch, places] = other
        return made


def samples(module: nn.Module, device: str) -> Iterator[Sample]:
    """Yield possible inputs of a module: small ids, or vectors of the width of its first matrix."""
    matrices = [p for p in module.parameters() if p.dim() > 1 and p.is_floating_point()]
    dtype = matrices[0].dtype if matrices else torch.float32
    for batch in (BATCH, 1):
        for first, count in ((4, 4), (1, 3), (0, 2)):
            yield Sample(first, count, 0, batch, device, dtype)
        if matrices:
            width = matrices[0].shape[-1]
            for mixed in (False, True):
                yield Sample(1, 3, width, batch, device, dtype, mixed)


@dataclass
class Trials:
    """Runs of one plan on one sample; ``error`` is the message of the last failed run."""

    module: nn.Module
    plan: Plan
    sample: Sample
    error: str = ""
    runs: int = 0

    @cached_property
    def source(self) -> Tensor:
        """Source of ``LENGTH`` tokens."""
        return self.sample.text(LENGTH)

    @cached_property
    def target(self) -> Tensor | None:
        """Target of ``SHORT`` tokens, if there is one."""
        return self.sample.text(SHORT, True) if self.plan.twofold else None

    @cached_property
    def plain(self) -> Tensor | None:
        """Output for the unchanged texts."""
        return self.run(self.source, self.target)

    @property
    def rows(self) -> int:
        """Expected number of output rows."""
        return SHORT if self.plan.twofold else LENGTH

    def run(
        self,
        source: Tensor,
        target: Tensor | None = None,
        visible: Tensor | None = None,
        seen: Tensor | None = None,
    ) -> Tensor | None:
        """Return the arranged output; None if the run fails or the output is not finite."""
        self.runs += 1
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                output = self.plan.raw(self.module, source, target, visible, seen)
                output = arrange(output, self.plan.arrangement, len(source))
        except Exception as error:  # a foreign forward pass may raise anything
            self.error = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            return None
        if not output.dtype.is_floating_point:
            return output.double()
        return output if bool(output.isfinite().all()) else None

    def arranged(self) -> Trials | None:
        """Return the trials with the arrangement of the output; None if they do not run."""
        if self.plain is None:
            return None
        shape = tuple(self.plain.shape)
        found = arrangement_of(shape, len(self.source), self.rows)
        if found in (
            "classes",
            "classes second",
            "numbers",
            "flat",
        ):  # the sizes may agree by chance
            longer = self._longer()
            again = (
                ""
                if longer is None
                else arrangement_of(tuple(longer.shape), len(self.source), self.rows + 1)
            )
            if found == "numbers" and again == "classes":
                found = again
            elif longer is not None and again != found:
                found = ""
        made = replace(self, plan=replace(self.plan, arrangement=found))
        made.__dict__["plain"] = arrange(self.plain, found, len(self.source))
        return made

    def _longer(self) -> Tensor | None:
        more = self.sample.text(LENGTH + 1)
        if self.plan.twofold:
            return self.run(self.source, self.sample.text(SHORT + 1, True))
        return self.run(more)

    @property
    def by_token(self) -> bool:
        """True if the output has a row for each token."""
        return self.plan.arrangement in ("rows", "tokens first", "classes second", "flat")

    def changes(
        self,
        places: Tensor,
        side: str = SOURCE,
        hidden: Tensor | None = None,
    ) -> Tensor | None:
        """Return the rows ``[batch, row]`` that change if these tokens of a text are exchanged.

        ``hidden`` are the places of tokens hidden in both runs. None if a run fails.
        """
        visible = None if hidden is None else self._without(hidden, side)
        shown = (None, visible) if side == TARGET else (visible, None)
        before = self.plain if hidden is None else self.run(self.source, self.target, *shown)
        source, target = self.source, self.target
        if side == TARGET:
            assert target is not None
            target = self.sample.changed(target, places)
        else:
            source = self.sample.changed(source, places)
        after = self.run(source, target, *shown)
        if before is None or after is None or before.shape != after.shape:
            return None
        if len(before) != self.sample.batch:
            return None  # its arrangement is not known
        return self._differ(before, after)

    def _differ(self, one: Tensor, other: Tensor) -> Tensor:
        scale = max(float(one.abs().max()), float(other.abs().max()), 1e-30)
        exact = torch.finfo(one.dtype if one.is_floating_point() else torch.float32).eps
        apart = (one - other).abs() > 16 * exact * scale
        return apart.flatten(2).any(-1) if apart.dim() > 2 else apart.flatten(1).any(-1)[:, None]

    def _without(self, places: Tensor, side: str) -> Tensor:
        length = SHORT if side == TARGET else LENGTH
        keep = torch.ones(self.sample.batch, length, dtype=torch.bool, device=self.source.device)
        keep[torch.arange(self.sample.batch), places] = False
        return keep

    def places(self, *numbers: int) -> Tensor:
        """Return these places by turns, one for each text."""
        return torch.tensor([numbers[n % len(numbers)] for n in range(self.sample.batch)])

    def leaks(self) -> bool:
        """Return True if texts of a batch change each other's output: their axes are exchanged."""
        if self.sample.batch == 1 or self.plain is None:
            return False
        other = self.source.clone()
        other[:1] = self.sample.changed(self.source, self.places(1))[:1]
        other[:1] = self.sample.changed(other, self.places(0))[:1]
        after = self.run(other, self.target)
        if after is None or after.shape != self.plain.shape:
            return False
        axis = 0 if self.plain.shape[0] == self.sample.batch else -1
        return bool(axis == 0 and self._differ(self.plain, after)[1:].any())

    def looks_ahead(self, side: str = SOURCE) -> bool | None:
        """Return True if rows change with later tokens of their text; None if undecidable."""
        length = SHORT if side == TARGET else LENGTH
        if not self.by_token:
            return self._maps_look_ahead(side)
        first = self.changes(self.places(0), side)
        last, middle = (self.changes(self.places(n), side) for n in (length - 1, 2))
        if first is None or last is None or middle is None:
            return None
        if bool(last[:, :-1].any() or middle[:, :2].any()):
            return True
        return False if bool(first[:, 1:].any()) else None

    def _maps_look_ahead(self, side: str) -> bool | None:
        maps = self._maps(side, None, None)
        if not maps:
            return None
        return any(bool(weights.triu(1).any()) for weights in maps)

    def hides(self, side: str = SOURCE) -> bool | None:
        """Return True if the masks of a text hide exactly the right tokens.

        None if undecidable, because a token has no influence on other rows either way.
        """
        mine = [m for m in (*self.plan.inputs, *self.plan.hiding) if m.role == MASK]
        each = any(m.keys == side and m.form and m.form.axes != "query, key" for m in mine)
        places = self.places(*PLACES) if each else self.places(PLACES[0])
        if side == TARGET:
            places = self.places(1)
        others = self._others(places, side)
        before = self.changes(places, side)
        self.error = ""
        hidden = self.changes(places, side, places)
        left = self.changes(self.places(0), side, places)
        if hidden is None or left is None:
            return None if self.error else False  # it refuses to hide a token
        if before is None or not bool((before & others).any()):
            return self._hides_in_maps(places, side)
        still = bool((left & self._others(self.places(0), side)).any(1).all())
        if still and not bool((hidden & others).any()):
            return True
        return self._hides_in_maps(places, side)

    def _others(self, places: Tensor, side: str) -> Tensor:
        """Return the mask of rows ``[batch, row]`` other than that of the token at a place."""
        if not self.by_token:
            return torch.ones(self.sample.batch, 1, dtype=torch.bool)
        keep = torch.ones(self.sample.batch, self.rows, dtype=torch.bool)
        if not self.plan.twofold or side == TARGET:
            keep[torch.arange(self.sample.batch), places] = False
        return keep.to(self.source.device)

    def _hides_in_maps(self, places: Tensor, side: str) -> bool | None:
        visible = self._without(places, side)
        maps = self._maps(side, *((None, visible) if side == TARGET else (visible, None)))
        if not maps:
            return None
        gone = all(not bool(w[~visible[:, None, None].expand_as(w)].any()) for w in maps)
        shown = all(bool((w[..., 0] > 0).any(-1).all()) for w in maps)
        return gone and shown

    def _maps(self, side: str, visible: Tensor | None, seen: Tensor | None) -> list[Tensor]:
        """Return the self-attention maps of a text ``[batch, head, query, key]``."""
        length = SHORT if side == TARGET else LENGTH
        want = CaptureRequest(norms=False, residuals=False)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with probe(self.module, Intervention(), want) as capture:
                    self.plan.raw(self.module, self.source, self.target, visible, seen)
        except Exception:  # a foreign forward pass may raise anything
            return []
        maps = [record.weights for record in capture.attentions if record.kind == "self"]
        return [w for w in maps if w is not None and self._is_of(w, length)]

    def _is_of(self, weights: Tensor, length: int) -> bool:
        return (weights.shape[0], *weights.shape[2:]) == (self.sample.batch, length, length)
