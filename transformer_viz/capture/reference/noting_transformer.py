"""The reference Transformer with recording parts, on the same weights, for one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ...core.apply_edits import ATTENTION_EDITS, Plan, matching
from ...core.interventions import Edit, Intervention
from ...core.numerics import MASK_SCORE
from ...core.sites import STACKS, Site
from ...model import Transformer
from ...model.config import ModelConfig
from ...model.positional_encoding import LearnedPositions, SinusoidalPositions
from ...model.transformer import Attention, Embedding, FeedForward, Layer, Score, Stack
from ..donations import Donation
from ..handlers.normalization import statistics_of
from ..handlers.positions import FEW
from ..handlers.residual import length_of
from ..handlers.softmax import weighed
from ..records import AttentionRecord, Capture, CaptureRequest, NormRecord, ResidualRecord
from ..statistics import CELLS, Statistics, at_once

#: Scores that are a product of queries and keys, as the probe recognises them.
SCORES = ("scaled_dot", "dot", "general")
NORMS = (nn.LayerNorm, nn.RMSNorm)
LEAVES = (nn.Linear, nn.Embedding, nn.Dropout)
#: Parts of a reference Transformer of these kinds: for each class, the classes of its parts.
BUILT: dict[type[nn.Module], dict[str, tuple[type[nn.Module], ...]]] = {
    Transformer: {"encoder": (Stack,), "decoder": (Stack,), "output": (nn.Linear,)},
    Stack: {"embedding": (Embedding,), "layers": (nn.ModuleList,), "norm": NORMS},
    Layer: {
        **dict.fromkeys(("self_attention", "cross_attention"), (Attention,)),
        **dict.fromkeys(("self_norm", "cross_norm", "feed_forward_norm"), NORMS),
        "feed_forward": (FeedForward,),
        "dropout": (nn.Dropout,),
    },
    Attention: {
        **dict.fromkeys(("query", "key", "value", "output"), (nn.Linear,)),
        "score": (Score,),
    },
    FeedForward: dict.fromkeys(("inner", "gate", "outer"), (nn.Linear,)),
    Embedding: {
        "tokens": (nn.Embedding,),
        "positions": (SinusoidalPositions, LearnedPositions),
        "norm": NORMS,
        "dropout": (nn.Dropout,),
    },
    LearnedPositions: {"table": (nn.Embedding,)},
    **{kind: {} for kind in (SinusoidalPositions, Score, *LEAVES, *NORMS)},
}
#: Attributes that objects of these classes never have themselves, unless a method was replaced.
METHODS = {kind: frozenset(dir(kind)) for kind in (*BUILT, nn.ModuleList)}
#: Original methods: those that run, and those that the recording parts replace.
WRITTEN = [(kind, "forward", kind.forward) for kind in BUILT] + [
    (Layer, "before", Layer.before),
    (Layer, "after", Layer.after),
    (Attention, "weigh", Attention.weigh),
]
THUMBNAIL = "thumbnail"
Part = TypeVar("Part", bound=nn.Module)


def noting(
    module: nn.Module,
    intervention: Intervention,
    request: CaptureRequest,
    donations: Sequence[Donation] = (),
) -> NotingTransformer | None:
    """Return a Transformer that records like `probe` and replaces ``module`` in a call.

    None if the probe is needed. This is so for another or modified module: rotary, annotated norms,
    additive and location scores, mild masks, hooks, replaced or shared parts, training. It is also
    so for edits other than those of attention, and for requests beyond weights, scores, statistics,
    norms, residual lengths and residual streams.
    """
    if type(module) is not Transformer or donations or not _tells(request):
        return None
    if not all(isinstance(edit, ATTENTION_EDITS) for edit in intervention):
        return None
    if any(map(request.qkv, _sites(module.config))) or not as_built(module):
        return None
    return NotingTransformer.of(module, intervention, request)


def _tells(request: CaptureRequest) -> bool:
    """Return True if the recorded data cover the request, except queries and keys."""
    more = request.check or request.gradients or request.sums or request.lend or request.tiled
    return request.statistics and not more


def _sites(config: ModelConfig) -> list[Site]:
    """Return all attention sites of a Transformer."""
    encoder = [Site("encoder", "self", layer) for layer in range(config.encoder_layers)]
    kinds = ("self", "cross") if encoder else ("self",)
    return encoder + [
        Site("decoder", kind, layer) for layer in range(config.decoder_layers) for kind in kinds
    ]


def as_built(module: nn.Module) -> bool:
    """Return True if a module is an unmodified reference Transformer.

    Each part is used once, at its place, with its class's own code and without hooks, and masks are
    low enough for the probe.
    """
    if type(module) is not Transformer or nn.modules.module._has_any_global_hook():
        return False
    if any(getattr(kind, name) is not method for kind, name, method in WRITTEN):
        return False
    met: set[int] = set()
    left: list[nn.Module] = [module]
    while left:
        part = left.pop()
        own, kind = part.__dict__, type(part)
        if id(part) in met or part.training or not METHODS[kind].isdisjoint(own):
            return False
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]:
            return False
        if isinstance(part, Attention) and part.fill > MASK_SCORE:
            return False
        if isinstance(part, Score) and part.kind not in SCORES:
            return False
        met.add(id(part))
        for name, child in part._modules.items():
            usual = (Layer,) if kind is nn.ModuleList else BUILT[kind].get(name, ())
            if child is not None and type(child) not in usual:
                return False
        left += filter(None, part._modules.values())
    return True


class Together:
    """Tensors of one shape that are processed together, since many small ones cost as much as one.

    Sums of more numbers at once may differ in the last digits (some 1e-6 of the value).

    Args:
        reckon: Maps tensors ``[batch, ...]`` to values ``[batch, ...]`` by name.
    """

    def __init__(self, reckon: Callable[..., dict[str, Tensor]]):
        self.reckon = reckon
        self.waiting: dict[Any, list[tuple[dict[str, Tensor], tuple[Tensor, ...]]]] = {}

    def add(self, *given: Tensor) -> dict[str, Tensor]:
        """Return a dictionary that will hold the values of these, at the latest after `finish`."""
        found: dict[str, Tensor] = {}
        x = given[0]
        key = x.shape, x.dtype, x.device
        waiting = self.waiting.setdefault(key, [])
        waiting.append((found, given))
        if (len(waiting) + 1) * x.numel() > at_once(CELLS, x.device):
            self._reckon(key)
        return found

    def finish(self) -> None:
        """Process all waiting tensors."""
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
    """Return statistics and thumbnail of weights ``[batch, head, query, key]``."""
    statistics = Statistics(weights.shape[2], weights.shape[3], 0)
    statistics.add(weights, 0)
    return {THUMBNAIL: statistics.thumbnail(), **statistics.result()}


class Notes:
    """Records of one run, and the edits that were applied."""

    def __init__(self, intervention: Intervention, request: CaptureRequest):
        self.intervention, self.capture = intervention, Capture(request)
        self.used: set[Edit] = set()
        #: Per stack, so that separate and joint runs give equal results.
        self.maps = {stack: Together(_measured) for stack in STACKS}
        self.norms = Together(statistics_of)
        self.expected = 0  # attentions in the stacks that ran

    def finished(self) -> Capture | None:
        """Return the result of the run; None if the probe is needed after all.

        This is the case if an edit found no site (the probe reports why), or an attention was
        missed.
        """
        lost = any(edit not in self.used for edit in self.intervention)
        if lost or not self.expected or len(self.capture.attentions) != self.expected:
            return None
        for waiting in (*self.maps.values(), self.norms):
            waiting.finish()
        for record in self.capture.attentions:
            record.thumbnail = record.statistics.pop(THUMBNAIL)
        return self.capture

    @property
    def request(self) -> CaptureRequest:
        return self.capture.request

    def norm(self, path: str, stack: str, part: nn.Module) -> Callable[[Tensor], Tensor]:
        """Return a norm that records its statistics."""
        kind = "rms" if isinstance(part, nn.RMSNorm) else "layer"
        held = (getattr(part, name, None) for name in ("weight", "bias"))
        gain, bias = (None if x is None else x.detach() for x in held)

        def normed(x: Tensor) -> Tensor:
            out: Tensor = part(x)
            if self.request.norms:
                found = self.norms.add(x.detach(), out.detach())
                self.capture.norms.append(NormRecord(path, kind, found, gain, bias, stack, 0))
            return out

        return normed

    def length(self, stack: str, block: str, layer: int, x: Tensor) -> None:
        """Record the residual stream after a residual sum, or after the embeddings."""
        if self.request.residuals:
            record = ResidualRecord(Site(stack, block, layer), length_of(x))
            self.capture.residuals.append(record)

    def table(self, stack: str, part: nn.Module) -> Callable[..., Tensor]:
        """Return positions that record their rows."""

        def added(x: Tensor, before: Tensor | None = None) -> Tensor:
            held: Any = part.table
            table = (held.weight if isinstance(held, nn.Embedding) else held).detach()
            rows = table[: x.shape[1]]
            alone = x.shape[:2] == (1, 1) and len(table) > FEW  # different rows cannot be seen
            if self.request.positions and (alone or bool((rows != rows[:1]).any())):
                self.capture.positions[f"table.{stack}"] = rows
            out: Tensor = part(x, before)
            return out

        return added


def _over(kind: type[Part], part: nn.Module, **own: Any) -> Part:
    """Return a part of another class on the weights of one; ``own`` are its attributes."""
    made = kind.__new__(kind)
    made.__dict__.update(part.__dict__, **own)
    return made


class NotingTransformer(Transformer):
    """Transformer of one run; ``finished`` returns its result."""

    notes: Notes

    @classmethod
    def of(
        cls, module: Transformer, intervention: Intervention, request: CaptureRequest
    ) -> NotingTransformer:
        """Return a recording Transformer on the weights of ``module``, which stays unchanged."""
        notes = Notes(intervention, request)
        stacks = {
            name: _stack(notes, name, stack)
            for name in ("encoder", "decoder")
            if (stack := getattr(module, name, None)) is not None
        }
        return _over(cls, module, notes=notes, **stacks)

    def finished(self) -> Capture | None:
        """Return the result of the run; None if the probe is needed after all."""
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
        NotingStack,
        stack,
        notes=notes,
        name=name,
        embedding=_over(Embedding, embedding, **own),
        layers=[_layer(notes, name, number, layer) for number, layer in enumerate(given.layers)],
        norm=last,
    )


def _layer(notes: Notes, stack: str, number: int, layer: Layer) -> NotingLayer:
    blocks = {
        f"{kind}_attention": _over(
            NotingAttention,
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
    return _over(NotingLayer, layer, notes=notes, **own, **blocks)


class NotingStack(Stack):
    """Stack of recording layers that records its output."""

    notes: Notes
    name: str
    layers: Any  # recording layers

    def forward(self, *given: Any, **named: Any) -> Tensor:
        x = super().forward(*given, **named)
        self.notes.expected += sum(layer.attentions for layer in self.layers)
        if self.notes.request.hidden:
            self.notes.capture.streams[self.name] = x
        return x


class NotingLayer(Layer):
    """Layer that records its residual stream and its norms."""

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


class NotingAttention(Attention):
    """Attention that records its weights, and edits them."""

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
        record.statistics = notes.maps[site.stack].add(weights.detach())
        notes.capture.attentions.append(record)
        return weights
