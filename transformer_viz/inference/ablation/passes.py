"""Batched ablation: the clean run and several ablated copies share one forward pass.

A gate per copy, place and head selects the replaced heads, so a pass of C copies gives exactly the
results of C separate runs. With the reference Transformer, a pass starts at the first layer that
differs, from the stored states of the clean run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ...capture import probe
from ...checkpoints.common.model import Model
from ...core.interventions import Intervention, ScaleHead, UniformHead
from ...core.sites import Site
from ...model import Transformer
from ...model.transformer import Stack
from .batches import Batch
from .gate import Act, Place, exchanged, gate_projections
from .places import quiet

CELLS = 2**25  # floats of the largest tensor in a pass
MOST_COPIES = 24


@dataclass(frozen=True)
class Copy:
    """Copy of a batch: its removed heads as (place, head), and the index of its stand-in."""

    heads: frozenset[tuple[int, int]]
    stand_in: int = 0


class Passes(Protocol):
    """Interface for running removals on a model."""

    def logits(
        self, batch: Batch, copies: Sequence[Copy], stand_ins: Sequence[Tensor]
    ) -> Iterator[Tensor]:
        """Yield the logits ``[asked, vocabulary]`` of the clean run, then of each copy.

        ``stand_ins`` has one tensor per place, ``[stand-in, sentence, token, feature]``, with size
        1 on axes where it is constant.
        """

    def cells(self, batch: Batch) -> int:
        """Return the number of floats in the largest tensor that one copy of a batch needs."""

    def stage(self, place: int) -> int:
        """Return the stage at which a pass without heads of this place may start."""


def most_copies(passes: Passes, batch: Batch) -> int:
    """Return the number of copies that fit into memory beside the clean run."""
    return max(1, min(MOST_COPIES, CELLS // max(1, passes.cells(batch))))


def gating(
    places: Sequence[Place], copies: Sequence[Copy], stand_ins: Sequence[Tensor], sentences: int
) -> Act:
    """Return the gate function for a pass of the clean run and these copies."""
    index = torch.tensor([0, *(copy.stand_in for copy in copies)], device="cpu")

    def act(number: int, x: Tensor) -> Tensor:
        columns = places[number].columns
        gates = torch.zeros(len(copies) + 1, len(columns), dtype=torch.bool, device=x.device)
        for row, copy in enumerate(copies, 1):
            for place, head in copy.heads:
                if place == number:
                    gates[row] |= columns == head
        if not gates.any():
            return x
        comes = stand_ins[number].to(x)[index.to(x.device)]
        return exchanged(x, gates, comes, sentences)

    return act


def watched(found: list[Tensor | None], held: Sequence[Tensor] | None = None) -> Act:
    """Return a gate that stores its inputs in ``found`` and returns ``held`` instead, if given."""

    def act(number: int, x: Tensor) -> Tensor:
        found[number] = x.clone()
        return x if held is None else held[number]

    return act


def repeated(x: Tensor, copies: int) -> Tensor:
    return x.repeat(copies, *[1] * (x.dim() - 1))


class GeneralPasses:
    """Passes for any model: its forward call on a batch repeated for each copy.

    If encoder and decoder can be called separately, decoder heads share one encoder pass.
    """

    def __init__(self, model: Model, places: Sequence[Place]):
        self.model, self.places = model, places
        weights = {place.weight.data_ptr() for place in places}
        calls = model.calls
        twofold = calls.encode is not None and calls.decode is not None
        self.twofold = twofold and len(weights) == len(places)
        self.memory: tuple[Batch, Tensor] | None = None

    def stage(self, place: int) -> int:
        return int(self.twofold and self.places[place].site.stack == "decoder")

    def cells(self, batch: Batch) -> int:
        rows = batch.source if batch.target is None else batch.target
        size = self.model.config.get("target_vocab") or self.model.config.get("vocab_size") or 1000
        longest = max(batch.source.shape[1], rows.shape[1])
        wide = max(int(size), self.model.size("heads") * longest)
        return len(batch) * longest * wide

    def logits(
        self, batch: Batch, copies: Sequence[Copy], stand_ins: Sequence[Tensor]
    ) -> Iterator[Tensor]:
        count = len(copies) + 1
        late = all(self.stage(place) for copy in copies for place, _ in copy.heads)
        memory = self._memory(batch) if late and self.twofold else None
        act = gating(self.places, copies, stand_ins, len(batch))
        with gate_projections(self.places, count * len(batch), act):
            output = self._output(batch, count, memory)
        yield from asked(output, batch, count)

    def contexts(self, batch: Batch) -> list[Tensor]:
        """Return the clean inputs ``[sentence, token, feature]`` of all projections."""
        found: list[Tensor | None] = [None] * len(self.places)
        with gate_projections(self.places, len(batch), watched(found)):
            self._output(batch, 1, None)
        return [x for x in found if x is not None]

    def uniform(self, batch: Batch) -> list[Tensor]:
        """Return the projections' inputs under uniform attention over all visible keys.

        Each attention is made uniform within the clean run.
        """
        found: list[Tensor | None] = [None] * len(self.places)
        held, even = self.contexts(batch), Intervention((UniformHead(),))
        lone = "decoder" if self.model.kind == "decoder-only" else "encoder"
        with (
            gate_projections(self.places, len(batch), watched(found, held)),
            probe(self.model.module, even, quiet(lone)),
        ):
            whole_output(self.model, batch, 1)
        return [x for x in found if x is not None]

    def _memory(self, batch: Batch) -> Tensor:
        if self.memory is None or self.memory[0] is not batch:
            assert self.model.calls.encode is not None
            self.memory = (batch, self.model.calls.encode(batch.source))
        return self.memory[1]

    def _output(self, batch: Batch, copies: int, memory: Tensor | None) -> Tensor:
        if memory is None:
            return whole_output(self.model, batch, copies)
        assert batch.target is not None and self.model.calls.decode is not None
        pad = self.model.pad_id
        mask = None if pad is None else batch.source != pad
        if mask is not None:
            mask = None if bool(mask.all()) else repeated(mask, copies)
        target = repeated(batch.target, copies)
        return self.model.calls.decode(target, repeated(memory, copies), mask)


class OwnPasses(GeneralPasses):
    """Passes for the reference Transformer, started at the first layer that differs.

    Batches are padded.
    """

    def __init__(self, model: Model, places: Sequence[Place]):
        super().__init__(model, places)
        assert isinstance(model.module, Transformer)
        self.module = model.module
        self.clean: tuple[Batch, dict[str, list[Tensor]]] | None = None
        self.depth = model.module.config.encoder_layers  # layers of the encoder

    def stage(self, place: int) -> int:
        site = self.places[place].site
        return site.layer + self.depth * (site.stack == "decoder")

    def cells(self, batch: Batch) -> int:
        longest = max(x.shape[1] for x in (batch.source, batch.target) if x is not None)
        config = self.module.config
        return len(batch) * longest * max(config.d_ff, config.heads * longest)

    def logits(
        self, batch: Batch, copies: Sequence[Copy], stand_ins: Sequence[Tensor]
    ) -> Iterator[Tensor]:
        count = len(copies) + 1
        stages = [self.stage(place) for copy in copies for place, _ in copy.heads]
        act = gating(self.places, copies, stand_ins, len(batch))
        clean = self._clean(batch)
        with gate_projections(self.places, count * len(batch), act):
            states = self._states(batch, clean, min(stages, default=0), count)
        states = states.reshape(count, len(batch), *states.shape[1:])
        for copy in states[:, batch.owner, batch.row]:
            yield self.module.logits(copy)

    def contexts(self, batch: Batch) -> list[Tensor]:
        found: list[Tensor | None] = [None] * len(self.places)
        with gate_projections(self.places, len(batch), watched(found)):
            self._states(batch, {"encoder": [], "decoder": []}, 0, 1, keep=True)
        return [x for x in found if x is not None]

    def _clean(self, batch: Batch) -> dict[str, list[Tensor]]:
        """Return each layer's input in the clean run, by stack, and last the stack's output."""
        if self.clean is None or self.clean[0] is not batch:
            kept: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}
            self._states(batch, kept, 0, 1, keep=True)
            self.clean = (batch, kept)
        return self.clean[1]

    def _states(
        self,
        batch: Batch,
        clean: dict[str, list[Tensor]],
        first: int,
        copies: int,
        keep: bool = False,
    ) -> Tensor:
        """Return the last states ``[copy * sentence, token, d_model]``, from layer ``first`` on."""
        module, pad = self.module, self.module.config.pad_id
        hidden = batch.visible & (batch.source != pad)
        mask = repeated(hidden[:, None, None, :], copies)
        if self.model.kind == "decoder-only":
            past = repeated(module.causal_mask(batch.source, hidden[:, None, None, :]), copies)
            return self._through("decoder", batch.source, clean, first, copies, keep, past)
        if keep or first < self.depth:
            memory = self._through("encoder", batch.source, clean, first, copies, keep, mask)
        else:
            memory = repeated(clean["encoder"][-1], copies)
        if batch.target is None:
            return memory
        begin = max(0, first - self.depth)
        past = repeated(module.causal_mask(batch.target), copies)
        return self._through(
            "decoder", batch.target, clean, begin, copies, keep, past, memory, mask
        )

    def _through(
        self,
        name: str,
        ids: Tensor,
        clean: dict[str, list[Tensor]],
        first: int,
        copies: int,
        keep: bool,
        *masks: Tensor,
    ) -> Tensor:
        """Run one stack from layer ``first`` on; with ``keep``, run and store all of it."""
        stack: Stack = getattr(self.module, name)
        x = stack.embedding(ids) if keep else repeated(clean[name][first], copies)
        for layer in stack.layers[first:]:
            if keep:
                clean[name].append(x)
            x = layer(x, *masks, rotary=stack.rotary)
        x = x if stack.norm is None else stack.norm(x)
        if keep:
            clean[name].append(x)
        return x


class ProbedPasses:
    """Passes for any model that the probe can edit: one run for each removal.

    Heads are zeroed or made uniform over all visible keys.
    """

    def __init__(self, model: Model, sites: Sequence[Site], uniform: bool):
        self.model, self.sites, self.even = model, sites, uniform

    def stage(self, place: int) -> int:
        return 0

    def cells(self, batch: Batch) -> int:
        return 1

    def logits(
        self, batch: Batch, copies: Sequence[Copy], stand_ins: Sequence[Tensor]
    ) -> Iterator[Tensor]:
        lone = "decoder" if self.model.kind == "decoder-only" else "encoder"
        for copy in (Copy(frozenset()), *copies):
            edits = Intervention(tuple(self._edit(*pair) for pair in sorted(copy.heads)))
            with probe(self.model.module, edits, quiet(lone)):
                output = whole_output(self.model, batch, 1)
            yield from asked(output, batch, 1)

    def _edit(self, place: int, head: int) -> ScaleHead | UniformHead:
        site = self.sites[place]
        where: dict[str, Any] = {"stack": site.stack, "block": site.block, "layer": site.layer}
        return (
            UniformHead(**where, head=head)
            if self.even
            else ScaleHead(**where, head=head, value=0.0)
        )


def whole_output(model: Model, batch: Batch, copies: int) -> Tensor:
    """Return the output of a model for a batch repeated ``copies`` times."""
    named: dict[str, Tensor] = {}
    if batch.segments is not None:
        named["segments"] = repeated(batch.segments, copies)
    target = None if batch.target is None else repeated(batch.target, copies)
    mask = None
    if batch.source.dim() == 2 and not bool(batch.visible.all()):
        mask = batch.visible
        if model.pad_id is not None:
            mask = mask & (batch.source != model.pad_id)
        mask = repeated(mask, copies)
    return model.calls.forward(repeated(batch.source, copies), target, mask, **named)


def asked(output: Tensor, batch: Batch, copies: int) -> Iterator[Tensor]:
    """Yield the output rows that a batch asks about, copy by copy: ``[asked, vocabulary]``."""
    if output.dim() == 2:  # classifier output: one row per sentence
        output = output[:, None]
    rows = output.reshape(copies, len(batch), *output.shape[1:])
    yield from rows[:, batch.owner, batch.row]
