"""Recorder below the probe: every softmax and fused attention that runs.

It works below torch's functions, on kernels only, and follows tensors by identity. It shares no
code with the capture except the names of modules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ...capture.module_names import Names
from .kernel_rows import (
    FusedRows,
    Rows,
    allow_mask_objects,
    formula,
    lead_of,
    rowed,
    shared,
    softmax_in_place,
    unrowed,
)

aten = torch.ops.aten

SOFTMAX = frozenset((aten._softmax.default, aten._safe_softmax.default, aten._log_softmax.default))
FUSED = frozenset(
    (
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_cudnn_attention.default,
        aten._scaled_dot_product_fused_attention_overrideable.default,
    )
)
#: Composite calls; a module in inference mode dispatches them undivided.
WHOLE = frozenset(
    (
        aten.softmax.int,
        aten.log_softmax.int,
        aten.scaled_dot_product_attention.default,
        aten.einsum.default,
    )
)
#: Whole layers in one kernel; their inside is not visible.
OPAQUE = frozenset(
    (aten._native_multi_head_attention.default, aten._transformer_encoder_layer_fwd.default)
)
#: Products, and the index of their first factor.
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "matmul": 0, "linear": 0, "convolution": 0} | {
    "addmm": 1,
    "baddbmm": 1,
    "addbmm": 1,
    "addmv": 1,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), 0),
}
#: Feature axis of a convolution's input. Inference mode dispatches those with a number, whose input
#: may have no batch.
CHANNELS = {"convolution": 1, "conv1d": -2, "conv2d": -3, "conv3d": -4}
#: Other uses of weights, and their names.
USES = {"topk": "routing", "sort": "routing", "argmax": "choice", "max": "choice"} | {
    "multinomial": "choice",
    "gather": "choice",
    "index": "choice",
    "nll_loss_forward": "loss",
}
#: Calls that return a part of a tensor.
PARTS = frozenset(
    ("slice", "select", "split", "split_with_sizes", "unbind", "view", "_unsafe_view", "alias")
)
ADDED = frozenset(("add", "add_", "sub", "sub_"))
BY_HAND = "exp"
WRITTEN = frozenset(("exp", "exp_", "sum", "div", "div_"))  # parts of an explicit softmax
SUMS_TO_ONE = 1e-3


@dataclass(eq=False)
class Kernel:
    """Softmax or fused attention that ran, in module ``path`` with precision ``dtype``.

    ``made`` returns the weights ``[row, key]`` of this ``shape``, in memory order (empty for an
    opaque kernel). ``met`` is the use of the weights: ``product`` (multiplied with values),
    ``routing``, ``choice``, ``loss``, ``opaque``, or empty. ``outside`` is True if no module of the
    model ran it. ``projected`` is the shape of its product at the next product, the output
    projection, features last; None without one. ``weighed`` is the size of its product with the
    values; ``projections`` are the shapes at all products that took parts of it. ``lead`` is the
    shape of the weights without the key axis. ``summed`` is ``add`` or ``sub`` if parts of its
    product were added or subtracted.
    """

    name: str
    path: str
    made: Callable[[], Tensor] = field(default=partial(torch.empty, 0, 0, device="cpu"))
    shape: tuple[int, int] = (0, 0)
    dtype: torch.dtype = torch.float32
    met: str = ""
    outside: bool = False
    projected: tuple[int, ...] | None = None
    weighed: int = 0
    projections: list[tuple[int, ...]] = field(default_factory=list)
    lead: tuple[int, ...] = ()
    summed: str = ""

    @property
    def rows(self) -> Tensor:
        """Weights ``[row, key]`` float32."""
        return self.made()

    @property
    def width(self) -> int:
        """Numbers per row of its product."""
        return self.weighed // max(1, self.shape[0])

    def shared(self) -> bool:
        """Return True if several projections take parts of its product, as experts do."""
        parts = [size for size in self.projections if math.prod(size) < self.weighed]
        return len(parts) > 1

    def in_parts(self) -> bool:
        """Return True if several projections share its rows, in unequal parts (unlike heads)."""
        rows = [math.prod(size[:-1]) for size in self.projections]
        whole = sum(map(math.prod, self.projections)) == self.weighed
        return whole and len(rows) > 1 and len(set(rows)) == len(rows)


class Changes(Protocol):
    """Interface of edits at the kernels; each method gets the number of the kernel."""

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Return changed scores ``[row, key]`` before the softmax."""

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Return changed weights ``[row, key]`` after the softmax."""

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """Return the changed input of the output projection; its features are on ``axis``."""


@dataclass
class Followed:
    """Tensor derived from a kernel, by weak reference: weights, or their product (``context``)."""

    tensor: ReferenceType[Tensor]
    number: int
    context: bool = False
    spread: bool = False  # weights times values, before the sum


class KernelMode(TorchDispatchMode):
    """Dispatch mode that lists the ``kernels`` of a pass in call order, and applies ``changes``.

    Rows are not stored without ``keep``; rows equal to one of the ``shown`` maps not twice.
    """

    def __init__(
        self,
        module: nn.Module,
        changes: Changes | None = None,
        keep: bool = True,
        shown: Sequence[Tensor | None] = (),
    ):
        super().__init__()  # type: ignore[no-untyped-call]
        allow_mask_objects(type(self))
        self.keep, self.shown = keep, [x for x in shown if x is not None]
        self.names, self.changes = Names(module), changes
        self.kernels: list[Kernel] = []
        self.lead: tuple[int, ...] = ()  # lead of the current kernel
        self.own = False  # True if its weights are not a tensor of the module
        self.followed: dict[int, list[Followed]] = {}
        #: Exponentials with their shape, or sums of one, with the exponential's shape and axis.
        self.exponentials: dict[int, tuple[ReferenceType[Tensor], torch.Size, int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SOFTMAX:
            return self.softmax(func, args, kwargs)
        if func in FUSED:
            return self.fused(func, args, kwargs)
        if func in WHOLE:
            with self:
                return func.decompose(*args, **kwargs)
        name = short(func)
        if name in ("softmax", "_softmax") and "out" in kwargs:
            made = self.softmax(aten._softmax.default, (*args[:2], False), {})
            kwargs["out"].copy_(made)
            self.follow("copy_", (made,), {}, kwargs["out"])
            return kwargs["out"]
        if self.changes is not None and name in PRODUCTS:
            args = self.projecting(name, args)
        out = func(*args, **kwargs)
        if func in OPAQUE:
            self.kernels.append(Kernel(name, self.names.path(), met="opaque"))
        elif name in WRITTEN and isinstance(out, Tensor):
            out = self.by_hand(name, args, out)
        if self.followed:
            self.follow(name, args, kwargs, out)
        return out

    def note(self, name: str, rows: Rows, out: Tensor, met: str = "") -> Kernel:
        """Add a kernel to the list, and follow its output."""
        path, outside = self.names.path(), self.names.outside()
        kernel = Kernel(name, path, dtype=rows.dtype, met=met, outside=outside, lead=self.lead)
        if self.keep:
            kernel.made, kernel.shape = rows.kept(self.shown), rows.shape
        self.kernels.append(kernel)
        mark = Followed(ref(out), len(self.kernels) - 1, context=met == "product")
        self.followed[id(out)] = [*self.marks(out), mark]
        return kernel

    def softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Run a softmax, edited or not, and store its rows."""
        x, dim, number = args[0], args[1], len(self.kernels)
        self.lead = lead_of(x, dim)
        log = func is aten._log_softmax.default
        if self.changes is not None:
            x = unrowed(self.changes.scores(number, rowed(x, dim)), x, dim)
        out: Tensor = func(x, *args[1:], **kwargs)
        rows = rowed(out, dim).exp() if log else rowed(out, dim)
        if self.changes is not None:
            made = self.changes.weights(number, rows)
            if made is not rows:
                rows, out = made, unrowed(made.log() if log else made, out, dim)
        self.note(short(func), Rows(rows), out)
        return out

    def fused(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a fused attention; its weights are computed from q and k by PyTorch's formula."""
        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        number, kind = len(self.kernels), torch.promote_types(given["query"].dtype, torch.float32)
        out = func(*args, **kwargs)
        self.lead = tuple(given["query"].shape[:-1])
        rows: Rows = FusedRows(given, kind)
        if self.changes is not None:
            scores = formula(given, kind)
            shape = scores.shape
            scores = self.changes.scores(number, rowed(scores, -1)).to(kind)
            scores = softmax_in_place(scores)  # no other reference exists
            self.own = True
            scores = self.changes.weights(number, scores).to(kind)
            self.own = False
            v = shared(given["value"].to(kind), shape[1])
            out = (torch.empty_like(out[0]).copy_(scores.reshape(shape) @ v), *out[1:])
            rows = Rows(scores)
        self.note(short(func), rows, out[0], "product").weighed = out[0].numel()
        return out

    def by_hand(self, name: str, args: tuple[Any, ...], out: Tensor) -> Tensor:
        """Detect an explicit softmax: an exponential divided by its sum, or one that sums to 1."""
        if name in ("exp", "exp_") and out.dim() > 1 and not self.marks(args[0]):
            self.exponentials[id(out)] = (ref(out), out.shape, 0)
            if shares(out):
                return self.written(out, -1)
        elif name == "sum" and len(args) > 1 and len(args[1]) == 1:
            whole = self.exponential(args[0])
            if whole is not None:
                size = whole[1]
                self.exponentials[id(out)] = (ref(out), size, args[1][0] % len(size) - len(size))
        elif name in ("div", "div_") and isinstance(args[1], Tensor):
            total = self.exponential(args[1])
            if total is not None and total[2] < 0 and total[1] == out.shape:
                return self.written(out, total[2], in_place=name == "div_")
        return out

    def exponential(self, x: Tensor) -> tuple[ReferenceType[Tensor], torch.Size, int] | None:
        """Return the entry of an exponential or of the sum of one."""
        found = self.exponentials.get(id(x))
        return found if found is not None and found[0]() is x else None

    def written(self, out: Tensor, dim: int, in_place: bool = False) -> Tensor:
        """Record an explicit softmax as a kernel; edits act on its logarithm."""
        number = len(self.kernels)
        self.lead = lead_of(out, dim)
        if self.changes is not None:
            logs = self.changes.scores(number, rowed(out, dim).log())
            rows = self.changes.weights(number, logs.softmax(-1).nan_to_num(0.0))
            made = unrowed(rows, out, dim)
            out = out.copy_(made) if in_place else made
        self.note(BY_HAND, Rows(rowed(out, dim)), out)
        return out

    def projecting(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a product, changed where one is a kernel's product."""
        place = PRODUCTS[name]
        changed = args[place]
        numbers = [mark.number for mark in self.marks(changed) if mark.context]
        if numbers and self.changes is not None:
            changed = self.changes.projected(numbers, changed, feature_axis(name))
        return (*args[:place], changed, *args[place + 1 :])

    def marks(self, x: Any) -> list[Followed]:
        """Return the marks of a tensor."""
        found = self.followed.get(id(x), [])
        return [mark for mark in found if mark.tensor() is x]

    def follow(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        """Follow weights through a call, or record their use there."""
        results = [y for y in flat(out) if y.is_floating_point() or y.is_complex()]
        given = flat((args, {word: x for word, x in kwargs.items() if word != "out"}))
        if name in ADDED:
            self.note_sum(name, given)
        for x in given:
            for mark in self.marks(x):
                if mark.context and name in ADDED and self.joined_by_others(x, given):
                    continue  # the projection takes more than the heads
                if mark.context and name in PRODUCTS and self.weighed_again(mark, given):
                    continue  # the same weights multiply their own product: not a projection
                for y in self.next(mark, name, x, results):
                    self.hand_on(mark, name, x, y)

    def note_sum(self, name: str, given: list[Tensor]) -> None:
        """Mark kernels with two parts that are added or subtracted: differential attention."""
        numbers = [{mark.number for mark in self.marks(x) if mark.context} for x in given[:2]]
        for number in set.intersection(*numbers) if len(numbers) == 2 else ():
            self.kernels[number].summed = name.removesuffix("_")

    def joined_by_others(self, x: Tensor, given: list[Tensor]) -> bool:
        """Return True if a sum adds a tensor of this size that no kernel made."""
        return any(y.numel() >= x.numel() and not self.marks(y) for y in given)

    def weighed_again(self, mark: Followed, given: list[Tensor]) -> bool:
        """Return True if weights multiply their own product."""
        return any(
            other.number == mark.number and not other.context
            for y in given
            for other in self.marks(y)
        )

    def next(self, mark: Followed, name: str, x: Tensor, results: list[Tensor]) -> list[Tensor]:
        """Return the results of a call that derive from a followed tensor; record its use."""
        kernel = self.kernels[mark.number]
        product = name in PRODUCTS or (mark.spread and name in ("sum", "mean"))
        if product and mark.context:
            size = tuple(x.movedim(feature_axis(name), -1).shape)
            kernel.projected = kernel.projected or size
            kernel.projections.append(size)
            return []
        if product:
            kernel.met = "product"
        elif name in USES and not mark.context:
            kernel.met = kernel.met or USES[name]
            return []
        return [y for y in results if product or y.numel() >= x.numel() or name in PARTS]

    def hand_on(self, mark: Followed, name: str, x: Tensor, y: Tensor) -> None:
        """Follow a tensor that derives from a followed one."""
        product = name in PRODUCTS or (mark.spread and name in ("sum", "mean"))
        if product and not mark.context:
            self.kernels[mark.number].weighed = y.numel()
        spread = not mark.context and not product and y.numel() > x.numel() and name == "mul"
        made = Followed(ref(y), mark.number, mark.context or product, mark.spread or spread)
        known = self.marks(y)
        if not any(old.number == made.number and old.context == made.context for old in known):
            known.append(made)
        self.followed[id(y)] = known


def shares(out: Tensor) -> bool:
    """Return True if exponentials sum to 1 in each row, and not all rows are a 1 and zeros.

    The latter may be decays of a state space model.
    """
    rows = out.detach().double()
    whole = bool(((rows.sum(-1) - 1).abs() < SUMS_TO_ONE).all())
    return whole and bool((rows.amax(-1) < 1).any())


def feature_axis(name: str) -> int:
    """Return the feature axis of a product's first factor."""
    return CHANNELS.get(name, -1)


def short(func: Any) -> str:
    """Return the name of a kernel without namespace and overload, such as ``_softmax``."""
    return str(func.name()).partition("::")[2].partition(".")[0]


def flat(values: Any) -> list[Tensor]:
    """Return the tensors in nested arguments or results."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list | tuple):
        return []
    return [x for value in values for x in flat(value)]
