"""The reference Transformer with parts that take notes, on the same weights, for one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ...core.interventions import Edit, Intervention
from ...core.numerics import MASK_SCORE
from ...core.sites import Site
from ...model import Transformer
from ...model.config import ModelConfig
from ...model.positional_encoding import LearnedPositions, SinusoidalPositions
from ...model.transformer import Attention, Embedding, FeedForward, Layer, Score, Stack
from ..donations import Donation
from ..edit_plan import ATTENTION_EDITS, Plan, matching
from ..handlers.normalization import statistics_of
from ..handlers.residual import length_of
from ..handlers.softmax import weighed
from ..records import AttentionRecord, Capture, CaptureRequest, NormRecord, ResidualRecord
from ..statistics import CELLS, Statistics, at_once

#: Scores that are a product of queries and keys, as the probe knows them.
SCORES = ("scaled_dot", "dot", "general")
#: All that a reference Transformer of these kinds is built of.
PARTS = frozenset(
    (
        *(Transformer, Stack, Embedding, Layer, Attention, Score, FeedForward),
        *(SinusoidalPositions, LearnedPositions),
        *(nn.ModuleList, nn.Linear, nn.Embedding, nn.Dropout, nn.LayerNorm, nn.RMSNorm),
    )
)
THUMBNAIL = "thumbnail"
#: What a part has from its class, and nothing of it for itself: its methods among them.
CLASS = {kind: frozenset(dir(kind)) for kind in PARTS}
Part = TypeVar("Part", bound=nn.Module)


def watched(
    module: nn.Module,
    intervention: Intervention,
    request: CaptureRequest,
    donations: Sequence[Donation] = (),
) -> WatchedTransformer | None:
    """A Transformer to be called in the place of ``module``, which notes what `probe` would.

    None where the probe is to be asked: another module, one with hooks or exchanged parts, one that
    learns just now, other edits than those of attention, and requests of more than weights, scores,
    statistics, norms, residual lengths and the stream.
    """
    if type(module) is not Transformer or donations or not _tells(request):
        return None
    if not all(isinstance(edit, ATTENTION_EDITS) for edit in intervention):
        return None
    if not _usual(module.config) or any(map(request.qkv, _sites(module.config))):
        return None
    if not _as_built(module):
        return None
    return WatchedTransformer.of(module, intervention, request)


def _tells(request: CaptureRequest) -> bool:
    more = request.check or request.gradients or request.sums or request.lend or request.tiled
    return not more and request.statistics


def _sites(config: ModelConfig) -> list[Site]:
    """All attentions of a Transformer."""
    encoder = [Site("encoder", "self", layer) for layer in range(config.encoder_layers)]
    kinds = ("self", "cross") if encoder else ("self",)
    return encoder + [
        Site("decoder", kind, layer) for layer in range(config.decoder_layers) for kind in kinds
    ]


def _usual(config: ModelConfig) -> bool:
    tables = config.positions in ("sinusoidal", "sinusoidal_halves", "learned", "none")
    masks = config.mask_fill <= MASK_SCORE
    return tables and masks and config.score in SCORES and config.norm_kind in ("layer", "rms")


def _as_built(module: nn.Module) -> bool:
    """Whether all parts run as their classes say: nothing stands before, behind or in them."""
    if nn.modules.module._has_any_global_hook():
        return False
    parts: list[nn.Module | None] = [module]
    while parts:
        part = parts.pop()
        if part is None:
            continue
        own = part.__dict__
        if type(part) not in PARTS or part.training or not CLASS[type(part)].isdisjoint(own):
            return False
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]:
            return False
        parts += part._modules.values()
    return True


class Together:
    """Tensors of one shape that are reckoned with at once: many small ones cost as much as one.

    Args:
        reckon: takes tensors ``[batch, ...]``, gives values ``[batch, ...]`` by name.
    """

    def __init__(self, reckon: Callable[..., dict[str, Tensor]]):
        self.reckon = reckon
        self.waiting: dict[Any, list[tuple[dict[str, Tensor], tuple[Tensor, ...]]]] = {}

    def add(self, *given: Tensor) -> dict[str, Tensor]:
        """What will hold the values of these, at the latest after `finish`."""
        found: dict[str, Tensor] = {}
        x = given[0]
        key = x.shape, x.dtype, x.device
        waiting = self.waiting.setdefault(key, [])
        waiting.append((found, given))
        if (len(waiting) + 1) * x.numel() > at_once(CELLS, x.device):
            self._reckon(key)
        return found

    def finish(self) -> None:
        """Reckon with all that wait."""
        for key in tuple(self.waiting):
            self._reckon(key)

    def _reckon(self, key: Any) -> None:
        waiting = self.waiting.pop(key)
        sides = zip(*(given for _, given in waiting), strict=True)
        values = self.reckon(*(side[0] if len(side) == 1 else torch.cat(side) for side in sides))
        rows = key[0][0]
        for number, (found, _) in enumerate(waiting):
            here = slice(number * rows, (number + 1) * rows)
            found.update({name: value[here] for name, value in values.items()})


def _measured(weights: Tensor) -> dict[str, Tensor]:
    """Statistics and thumbnail of weights ``[batch, head, query, key]``."""
    statistics = Statistics(weights.shape[2], weights.shape[3], 0)
    statistics.add(weights, 0)
    return {THUMBNAIL: statistics.thumbnail(), **statistics.result()}


class Notes:
    """What one run has shown so far, and the edits that found their place."""

    def __init__(self, intervention: Intervention, request: CaptureRequest):
        self.intervention, self.capture = intervention, Capture(request)
        self.used: set[Edit] = set()
        self.maps, self.norms = Together(_measured), Together(statistics_of)
        self.expected = 0  # attentions in the stacks that ran

    def finished(self) -> Capture | None:
        """What the run showed; None where the probe is to be asked after all: an edit found no
        place, which it can tell why, or an attention went by unseen."""
        lost = any(edit not in self.used for edit in self.intervention)
        if lost or len(self.capture.attentions) != self.expected:
            return None
        self.maps.finish()
        self.norms.finish()
        for record in self.capture.attentions:
            record.thumbnail = record.statistics.pop(THUMBNAIL)
        return self.capture

    @property
    def request(self) -> CaptureRequest:
        return self.capture.request

    def norm(self, path: str, stack: str, part: nn.Module) -> Callable[[Tensor], Tensor]:
        """A norm that notes what it does."""
        kind = "rms" if isinstance(part, nn.RMSNorm) else "layer"
        own: dict[str, Tensor | None] = {**part._parameters}
        gain, bias = (None if x is None else x.detach() for x in map(own.get, ("weight", "bias")))

        def normed(x: Tensor) -> Tensor:
            out: Tensor = part(x)
            if self.request.norms:
                found = self.norms.add(x.detach(), out.detach())
                self.capture.norms.append(NormRecord(path, kind, found, gain, bias, stack, 0))
            return out

        return normed

    def length(self, stack: str, block: str, layer: int, x: Tensor) -> None:
        """The stream after a residual sum, or after the embeddings."""
        if self.request.residuals:
            record = ResidualRecord(Site(stack, block, layer), length_of(x))
            self.capture.residuals.append(record)

    def table(self, stack: str, part: nn.Module) -> Callable[..., Tensor]:
        """Positions that note their rows."""

        def added(x: Tensor, before: Tensor | None = None) -> Tensor:
            held: Any = part.table
            rows = (held.weight if isinstance(held, nn.Embedding) else held)[: x.shape[1]].detach()
            alone = x.shape[:2] == (1, 1)  # of one token nobody sees that rows differ
            if self.request.positions and (alone or bool((rows != rows[:1]).any())):
                self.capture.positions[f"table.{stack}"] = rows
            out: Tensor = part(x, before)
            return out

        return added


def _over(kind: type[Part], part: nn.Module, **own: Any) -> Part:
    """A part of another class on the weights of one; ``own`` is what it has for itself."""
    made = kind.__new__(kind)
    made.__dict__.update(part.__dict__, **own)
    return made


class WatchedTransformer(Transformer):
    """A Transformer of one run; ``finished`` is what it showed."""

    notes: Notes

    @classmethod
    def of(
        cls, module: Transformer, intervention: Intervention, request: CaptureRequest
    ) -> WatchedTransformer:
        """One on the weights of ``module``, which stays as it is."""
        notes = Notes(intervention, request)
        stacks = {
            name: _stack(notes, name, stack)
            for name in ("encoder", "decoder")
            if (stack := getattr(module, name, None)) is not None
        }
        return _over(cls, module, notes=notes, **stacks)

    def finished(self) -> Capture | None:
        """What the run showed; None where the probe is to be asked after all."""
        return self.notes.finished()


def _stack(notes: Notes, name: str, stack: Stack) -> Stack:
    given: Any = stack
    embedding = given.embedding
    own: dict[str, Any] = {}
    if embedding.positions is not None:
        own["positions"] = notes.table(name, embedding.positions)
    if embedding.norm is not None:
        own["norm"] = notes.norm(f"{name}.embedding.norm", name, embedding.norm)
    last = None if given.norm is None else notes.norm(f"{name}.norm", name, given.norm)
    return _over(
        WatchedStack,
        stack,
        notes=notes,
        name=name,
        embedding=_over(Embedding, embedding, **own),
        layers=[_layer(notes, name, number, layer) for number, layer in enumerate(given.layers)],
        norm=last,
    )


def _layer(notes: Notes, stack: str, number: int, layer: Layer) -> WatchedLayer:
    blocks = {
        f"{kind}_attention": _over(
            WatchedAttention,
            getattr(layer, f"{kind}_attention"),
            notes=notes,
            site=Site(stack, kind, number, path=f"{stack}.layers.{number}.{kind}_attention"),
        )
        for kind in ("self", "cross")
        if hasattr(layer, f"{kind}_attention")
    }
    norms = {
        id(getattr(layer, f"{block}_norm")): block
        for block in ("self", "cross", "feed_forward")
        if hasattr(layer, f"{block}_norm")
    }
    own = {"stack": stack, "number": number, "blocks": norms, "attentions": len(blocks)}
    return _over(WatchedLayer, layer, notes=notes, **own, **blocks)


class WatchedStack(Stack):
    """Layers that take notes; it notes what leaves them."""

    notes: Notes
    name: str
    layers: Any  # that take notes

    def forward(self, *given: Any, **named: Any) -> Tensor:
        x = super().forward(*given, **named)
        self.notes.expected += sum(layer.attentions for layer in self.layers)
        if self.notes.request.hidden:
            self.notes.capture.streams[self.name] = x
        return x


class WatchedLayer(Layer):
    """A layer that notes its stream and its norms."""

    notes: Notes
    stack: str
    number: int
    blocks: dict[int, str]  # by the identity of their norm
    attentions: int

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        if self.blocks[id(norm)] == "self":
            if not self.number:
                self.notes.length(self.stack, "embedding", 0, x)
            self.self_attention.stream = x
        return x if self.norm == "post" else self._noted(norm)(x)

    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        self.notes.length(self.stack, self.blocks[id(norm)], self.number, x)
        return self._noted(norm)(x) if self.norm == "post" else x

    def _noted(self, norm: nn.Module) -> Callable[[Tensor], Tensor]:
        path = f"{self.stack}.layers.{self.number}.{self.blocks[id(norm)]}_norm"
        return self.notes.norm(path, self.stack, norm)


class WatchedAttention(Attention):
    """An attention whose weights are noted, and edited."""

    notes: Notes
    site: Site
    stream: Tensor | None = None

    def weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        notes, site = self.notes, self.site
        heads, queries, keys = scores.shape[1:]
        plan = Plan.at(notes.intervention, site, heads)
        if notes.intervention:
            notes.used.update(matching(notes.intervention, site, heads, 0))
        record = AttentionRecord(site.path, site.block, site.stack, site.layer, heads=heads)
        record.shape = queries, keys
        wanted = notes.request.scores(site)
        if plan is not None and plan.shapes_scores:
            given = scores.masked_fill(~mask, self.fill)
            told = ~mask.expand(scores.shape)
            edited, weights = weighed(plan, scores, given, told, record)
            weights = weights.to(scores.dtype)
            record.scores = edited.detach() if wanted else None
        else:
            weights = super().weigh(scores, mask)
            record.scores = scores.masked_fill(~mask, self.fill).detach() if wanted else None
        if plan is not None:
            weights = plan.scaled(weights)
        if notes.request.hidden and site.block == "self":
            record.stream = self.stream
        if notes.request.weights(site):
            record.weights = weights.detach()
        record.statistics = notes.maps.add(weights.detach())
        notes.capture.attentions.append(record)
        return weights
