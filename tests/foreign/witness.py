"""An oracle below the probe: it sees every softmax and fused attention that really ran.

It knows the axes of raw scores only from what the catalogue says of a style (:class:`Attention`),
and applies the laws of three edits itself, where the kernels run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

#: One softmax of one tensor; all take the scores and the axis first.
SOFTMAX = (aten._softmax.default, aten._safe_softmax.default, aten._log_softmax.default)
#: Kernels that take q, k and v; the names of the arguments are read from their schemas.
FUSED = (
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
    aten._scaled_dot_product_fused_attention_overrideable.default,
)
#: What others are made of, and what inference mode hands down as it is.
WHOLE = (
    aten.softmax.int,
    aten.log_softmax.int,
    aten.scaled_dot_product_attention.default,
)
#: Which of batch, head, query and key a letter of ``axes`` belongs to.
PLACES = {"b": 0, "w": 0, "h": 1, "g": 1, "r": 1, "q": 2, "k": 3}


@dataclass(frozen=True)
class Other:
    """A softmax that is no attention over tokens, or not of the probed module."""

    name: str


@dataclass(frozen=True)
class Attention:
    """What one attention of a style is in truth.

    ``axes`` names the axes of its raw scores, merged ones in brackets: ``bhqk``, ``(hb)qk``,
    ``bwhqk`` (w: windows, counted with the batch), ``bgrqk`` (g and r: groups and heads in them).
    ``parts`` softmaxes make it up, joined along ``join`` (``h`` or ``q``). The last ``sinks``
    columns are no keys. ``batch`` is needed only where batch, heads and queries are merged.
    ``site`` False leaves kind and layer open, a ``layer`` of None only the layer. ``optional`` ones
    may be shown or not: they are computed again, or a part of a difference. ``first`` is the
    number of the first row, ``number`` the model's own one of the layer where it is another.
    """

    axes: str = "bhqk"
    kind: str = "self"
    layer: int | None = 0
    heads: int = 4
    batch: int = 2
    parts: int = 1
    join: str = "h"
    sinks: int = 0
    site: bool = True
    optional: bool = False
    first: int = 0
    number: int | None = None


@dataclass(frozen=True)
class Law:
    """An edit as the witness applies it.

    ``temperature`` divides scores by ``value``; ``hidden_key`` hides the key ``index``;
    ``cut_link`` hides it from the query ``row`` alone; ``weights_off`` silences the head ``index``.
    """

    kind: str
    value: float = 2.0
    index: int = 1
    row: int = 2


@dataclass
class Event:
    """One softmax that ran: its raw weights, float64, after any law; ``axes`` as they lie.

    ``multiplied`` are the weights that met the values, where a style changes them after the
    softmax.
    """

    op: str
    weights: Tensor
    multiplied: Tensor | None = None
    fused: bool = False


class Witness(TorchDispatchMode):
    """Counts softmaxes in call order; ``roles`` say what each is, and wrap around.

    With ``taps``, only what a style hands to :meth:`tap` counts: its softmax is none of aten's.
    """

    def __init__(
        self, roles: Sequence[Attention | Other] = (), law: Law | None = None, taps: bool = False
    ) -> None:
        super().__init__()
        self.roles, self.law, self.taps = tuple(roles), law, taps
        self.events: list[Event] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.taps:
            return func(*args, **kwargs)
        if func in SOFTMAX:
            return self._softmax(func, args, kwargs)
        if func in FUSED:
            return self._fused(func, args, kwargs)
        if func is aten.softmax.int_out:
            made = self._softmax(aten._softmax.default, (args[0], args[1], False), {})
            return kwargs["out"].copy_(made)
        if func is aten._softmax_backward_data.default:
            return self._backward(func(*args, **kwargs))
        if func in WHOLE:  # only in inference mode do these arrive here undivided
            with self:
                return func.decompose(*args, **kwargs)
        return func(*args, **kwargs)

    @property
    def role(self) -> Attention | Other:
        """What the next softmax is."""
        return self.roles[len(self.events) % len(self.roles)] if self.roles else Attention()

    def tap(self, what: str, x: Tensor) -> Tensor:
        """Take ``scores``, ``weights`` or ``multiplied`` weights from a style, edited or not."""
        if what == "scores":
            return changed_scores(x, self.role, self.law)
        if what == "weights":
            x = changed_weights(x, self.role, self.law)
            self.events.append(Event("tap", x.detach().double().clone()))
        elif self.events:
            self.events[-1].multiplied = x.detach().double().clone()
        return x

    def _softmax(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> Tensor:
        scores = changed_scores(args[0], self.role, self.law)
        out = func(scores, *args[1:], **kwargs)
        log = func is aten._log_softmax.default
        if not log:
            out = changed_weights(out, self.role, self.law)
        weights = out.detach().double()
        self.events.append(Event(func.name(), weights.exp() if log else weights.clone()))
        return out

    def _fused(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        weights = fused_weights(given, self.role, self.law)
        self.events.append(Event(func.name(), weights, fused=True))
        out = func(*args, **kwargs)
        if self.law is None or isinstance(self.role_of_last, Other):
            return out
        v = given["value"].double()
        attended = weights @ repeated(v, weights.shape[1])
        return (torch.empty_like(out[0]).copy_(attended), *out[1:])

    @property
    def role_of_last(self) -> Attention | Other:
        return self.roles[(len(self.events) - 1) % len(self.roles)] if self.roles else Attention()

    def _backward(self, gradient: Tensor) -> Tensor:
        """Scores that were divided pass on a gradient that is divided too."""
        if self.law is None or self.law.kind != "temperature":
            return gradient
        return gradient / self.law.value


def fused_weights(given: dict[str, Any], role: Attention | Other, law: Law | None) -> Tensor:
    """The weights of a fused kernel, float64 ``[batch, head, query, key]``, by its formula."""
    q, k = given["query"].double(), given["key"].double()
    k = repeated(k, q.shape[1])
    scale = given.get("scale") or q.shape[-1] ** -0.5
    scores = q @ k.transpose(-1, -2) * scale
    for word in ("attn_mask", "attn_bias"):
        if given.get(word) is not None:
            scores = scores + given[word].double()
    if given.get("is_causal"):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    scores = changed_scores(scores, role, law)
    return changed_weights(scores.softmax(-1), role, law)


def repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values ``[batch, head, token, width]`` shared by groups of heads, for each head."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def changed_scores(scores: Tensor, role: Attention | Other, law: Law | None) -> Tensor:
    """Scores in their own layout after a law that acts before the softmax."""
    if law is None or isinstance(role, Other):
        return scores
    if law.kind == "temperature":
        return scores / law.value
    if law.kind not in ("hidden_key", "cut_link"):
        return scores
    hidden = numbered(scores, "k", role) == law.index
    if law.kind == "cut_link":
        hidden = hidden & (numbered(scores, "q", role) + role.first == law.row)
    return scores.masked_fill(hidden, -torch.inf)


def numbered(scores: Tensor, letter: str, role: Attention) -> Tensor:
    """The number of each cell's query (q) or key (k), in a shape that broadcasts to scores."""
    axis = groups(role.axes).index(letter)
    shape = [1] * scores.dim()
    shape[axis] = scores.shape[axis]
    return torch.arange(scores.shape[axis], device=scores.device).view(shape)


def changed_weights(weights: Tensor, role: Attention | Other, law: Law | None) -> Tensor:
    """Weights in their own layout after a head went off."""
    if law is None or isinstance(role, Other) or law.kind != "weights_off":
        return weights
    heads = torch.arange(weights.numel(), device=weights.device).view(weights.shape)
    kept = arranged(heads, role)[:, law.index]
    return weights.flatten().index_fill(0, kept.flatten(), 0).view(weights.shape)


def groups(axes: str) -> list[str]:
    """The letters of each axis: ``(bh)qk`` is ``bh``, ``q``, ``k``."""
    found: list[str] = []
    merged = False
    for letter in axes:
        if letter in "()":
            merged = letter == "("
            found += [""] if merged else []
        elif merged:
            found[-1] += letter
        else:
            found.append(letter)
    return found


def arranged(raw: Tensor, role: Attention) -> Tensor:
    """A raw tensor of scores or weights as ``[batch, head, query, key]``, sinks left out."""
    named = groups(role.axes)
    if len(named) != raw.dim():
        raise ValueError(f"axes {role.axes} do not name the axes of {tuple(raw.shape)}")
    sizes: list[int] = []
    for letters, size in zip(named, raw.shape, strict=True):
        sizes += [size] if len(letters) == 1 else split_sizes(letters, size, role)
    flat = "".join(named)
    order = sorted(range(len(flat)), key=lambda i: PLACES[flat[i]])
    shape = [1, 1, 1, 1]
    for letter, size in zip(flat, sizes, strict=True):
        shape[PLACES[letter]] *= size
    out = raw.reshape(sizes).permute(order).reshape(shape)
    return out[..., : shape[3] - role.sinks]


def split_sizes(letters: str, size: int, role: Attention) -> list[int]:
    """The sizes of merged axes: of heads, and of the batch if need be, they are known."""
    known = {"h": role.heads} | ({"b": role.batch} if len(letters) > 2 else {})
    rest = size // math.prod(known[letter] for letter in letters if letter in known)
    return [known.get(letter, rest) for letter in letters]


def joined(events: Sequence[Event], role: Attention, multiplied: bool = False) -> Tensor:
    """One attention ``[batch, head, query, key]`` from the softmaxes that made it up."""
    raw = [e.multiplied if multiplied and e.multiplied is not None else e.weights for e in events]
    parts = [arranged(one, role_of_part(role)) for one in raw]
    longest = max(part.shape[3] for part in parts)
    padded = [torch.nn.functional.pad(p, (0, longest - p.shape[3])) for p in parts]
    return torch.cat(padded, 1 if role.join == "h" else 2) if len(padded) > 1 else padded[0]


def role_of_part(role: Attention) -> Attention:
    """The same attention as one of its softmaxes shows it."""
    if role.parts == 1 or role.join != "h":
        return role
    return Attention(role.axes, heads=role.heads // role.parts, sinks=role.sinks)
