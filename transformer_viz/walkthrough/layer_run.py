"""One layer of the reference Transformer as it ran: its sub-layers, and the stream between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..capture import AttentionRecord, Capture, probe
from ..checkpoints.common.model import Model
from ..core.interventions import Intervention
from ..core.sites import Site
from ..inference.donors import lent_to
from ..inference.model_inputs import Read
from ..inference.outputs import logits_of
from ..inference.tracing import capture_request
from ..model import Transformer
from ..model.transformer import Stack
from .module_calls import Calls, calls_of


@dataclass(frozen=True, eq=False)
class Part:
    """A sub-layer: its name (``self``, ``cross``, ``feed_forward``), module and norm."""

    name: str
    module: Any
    norm: nn.Module


@dataclass(frozen=True, eq=False)
class Ran:
    """One layer of a model, and what its modules were given and gave in one run."""

    model: Model
    site: Site
    intervention: Intervention
    read: Read
    capture: Capture
    calls: Calls

    @property
    def transformer(self) -> Transformer:
        assert isinstance(self.model.module, Transformer)
        return self.model.module

    @property
    def stack(self) -> Stack:
        return stack_of(self.transformer, self.site)

    @property
    def layer(self) -> Any:
        return self.stack.layers[self.site.layer]

    @property
    def post(self) -> bool:
        """Whether the norms stand behind the sums."""
        return self.transformer.config.norm == "post"

    @property
    def parts(self) -> tuple[Part, ...]:
        """The sub-layers in the order in which the stream passes them."""
        return tuple(parts_of(self.layer))

    @property
    def record(self) -> AttentionRecord:
        """What the probe saw of the attention at the site: weights and scores."""
        return next(r for r in self.capture.attentions if r.site == Site(*_block(self.site)))

    def entering(self, part: Part) -> Tensor:
        """The stream ``[1, token, d_model]`` that a sub-layer's output is added to."""
        return self.calls.given(part.module if self.post else part.norm)

    def leaving(self, part: Part) -> Tensor:
        """The stream behind a sub-layer, sum and norm done."""
        names = [other.name for other in self.parts]
        following = self.parts[names.index(part.name) + 1 :]
        return self.entering(following[0]) if following else self.calls.gave(self.layer)

    def summed(self, part: Part) -> Tensor:
        """The residual sum of a sub-layer."""
        return self.calls.given(part.norm) if self.post else self.leaving(part)


def _block(site: Site) -> tuple[str, str, int]:
    return site.stack, site.block, site.layer


def stack_of(module: Transformer, site: Site) -> Stack:
    """The stack of a site."""
    stack = getattr(module, site.stack)
    assert isinstance(stack, Stack)
    return stack


def parts_of(layer: Any) -> Iterator[Part]:
    """The sub-layers of a layer."""
    yield Part("self", layer.self_attention, layer.self_norm)
    if hasattr(layer, "cross_attention"):
        yield Part("cross", layer.cross_attention, layer.cross_norm)
    yield Part("feed_forward", layer.feed_forward, layer.feed_forward_norm)


def ran(model: Model, read: Read, site: Site, intervention: Intervention) -> Ran:
    """One run, with the calls of the layer at a site.

    Raises:
        ValueError: an edit that matches no place, or that leaves no numbers.
    """
    assert isinstance(model.module, Transformer)
    stack = stack_of(model.module, site)
    request = capture_request(model, ("scores",), [site], read, False)
    edits, lent = intervention.of_the_pass(), lent_to(model, read, intervention)
    with (
        torch.no_grad(),
        probe(model.module, edits, request, lent) as capture,
        calls_of(_watched(stack, site)) as calls,
    ):
        output = read.through(model)
    logits_of(model, read, output, intervention)  # refuses what is no number any more
    return Ran(model, site, intervention, read, capture, calls)


def _watched(stack: Stack, site: Site) -> Iterator[nn.Module]:
    """The modules whose calls a chain is made from."""
    outside = (stack.embedding.tokens, stack.embedding.norm, stack.norm, stack.rotary)
    yield from (part for part in (stack.embedding, *outside) if part is not None)
    yield from list(stack.layers)[: site.layer]
    yield from stack.layers[site.layer].modules()
