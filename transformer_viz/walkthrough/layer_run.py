"""Sub-layers and residual stream of one reference Transformer layer in a run."""

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
    """A layer of a model, with the inputs and outputs of its modules in one run."""

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
        """True if the norms follow the residual sums."""
        return self.transformer.config.norm == "post"

    @property
    def parts(self) -> tuple[Part, ...]:
        """Sub-layers in the order of the residual stream."""
        return tuple(parts_of(self.layer))

    @property
    def record(self) -> AttentionRecord:
        """Record of the attention at the site: weights and scores."""
        return next(r for r in self.capture.attentions if r.site == Site(*_block(self.site)))

    def entering(self, part: Part) -> Tensor:
        """Return the residual stream before a sub-layer's sum, ``[1, token, d_model]``."""
        return self.calls.given(part.module if self.post else part.norm)

    def leaving(self, part: Part) -> Tensor:
        """Return the residual stream after a sub-layer, its sum and its norm."""
        names = [other.name for other in self.parts]
        following = self.parts[names.index(part.name) + 1 :]
        return self.entering(following[0]) if following else self.calls.gave(self.layer)

    def summed(self, part: Part) -> Tensor:
        """Return the residual sum of a sub-layer."""
        return self.calls.given(part.norm) if self.post else self.leaving(part)


def _block(site: Site) -> tuple[str, str, int]:
    return site.stack, site.block, site.layer


def stack_of(module: Transformer, site: Site) -> Stack:
    """Return the stack of a site."""
    stack = getattr(module, site.stack)
    assert isinstance(stack, Stack)
    return stack


def parts_of(layer: Any) -> Iterator[Part]:
    """Yield the sub-layers of a layer."""
    yield Part("self", layer.self_attention, layer.self_norm)
    if hasattr(layer, "cross_attention"):
        yield Part("cross", layer.cross_attention, layer.cross_norm)
    yield Part("feed_forward", layer.feed_forward, layer.feed_forward_norm)


def ran(model: Model, read: Read, site: Site, intervention: Intervention) -> Ran:
    """Return one run with the recorded calls of the layer at a site.

    Raises:
        ValueError: An edit matches no site, or the result is not finite.
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
    logits_of(model, read, output, intervention)  # raises if the result is not finite
    return Ran(model, site, intervention, read, capture, calls)


def _watched(stack: Stack, site: Site) -> Iterator[nn.Module]:
    """Yield the modules whose calls are recorded."""
    outside = (stack.embedding.tokens, stack.embedding.norm, stack.norm, stack.rotary)
    yield from (part for part in (stack.embedding, *outside) if part is not None)
    yield from list(stack.layers)[: site.layer]
    yield from stack.layers[site.layer].modules()
