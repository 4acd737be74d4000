"""The witness below the probe: every softmax and fused attention that really runs.

It stands under torch's functions, where only kernels are left, and follows tensors by identity; it
shares no code with the capture but the names of modules.
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
#: What others are made of; a module in inference mode hands them down undivided.
WHOLE = frozenset(
    (
        aten.softmax.int,
        aten.log_softmax.int,
        aten.scaled_dot_product_attention.default,
        aten.einsum.default,
    )
)
#: Whole layers in one kernel: nothing inside them can be seen.
OPAQUE = frozenset(
    (aten._native_multi_head_attention.default, aten._transformer_encoder_layer_fwd.default)
)
#: Products, and which argument their first factor is.
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "matmul": 0, "linear": 0, "convolution": 0} | {
    "addmm": 1,
    "baddbmm": 1,
    "addbmm": 1,
    "addmv": 1,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), 0),
}
#: Where the features of a convolution's input lie; inference mode hands down those with a number,
#: whose input may have no batch.
CHANNELS = {"convolution": 1, "conv1d": -2, "conv2d": -3, "conv3d": -4}
#: What else takes weights, and what that makes of them.
USES = {"topk": "routing", "sort": "routing", "argmax": "choice", "max": "choice"} | {
    "multinomial": "choice",
    "gather": "choice",
    "index": "choice",
    "nll_loss_forward": "loss",
}
#: Calls that hand on a part of a tensor.
PARTS = frozenset(
    ("slice", "select", "split", "split_with_sizes", "unbind", "view", "_unsafe_view", "alias")
)
ADDED = frozenset(("add", "add_", "sub", "sub_"))
BY_HAND = "exp"
WRITTEN = frozenset(("exp", "exp_", "sum", "div", "div_"))  # what a softmax by hand is made of
SUMS_TO_ONE = 1e-3


@dataclass(eq=False)
class Kernel:
    """One softmax or fused attention that ran.

    ``made`` gives its weights ``[row, key]`` of this ``shape`` in the order in which they lie
    (empty for an opaque kernel); they ran in ``dtype``. ``met`` is what became of the weights:
    ``product`` (they weighed something), ``routing``, ``choice``, ``loss``, ``opaque``, or empty
    where nothing of the kind
    was seen. ``outside`` where no module of the model ran it. ``projected`` are the sizes of what
    it weighed when it met the next product, the output projection, features last; None if it met
    none.
    ``weighed`` counts the numbers that came of it, ``projections`` are all products that took some;
    ``lead`` is the shape of the weights without the axis of the keys; ``summed`` is ``add`` or
    ``sub`` where parts of what it weighed were added or subtracted.
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
        """The weights ``[row, key]`` float32."""
        return self.made()

    @property
    def width(self) -> int:
        """How many numbers came of one row."""
        return self.weighed // max(1, self.shape[0])

    def shared(self) -> bool:
        """Return whether several projections take parts of what came of it, as experts do."""
        parts = [size for size in self.projections if math.prod(size) < self.weighed]
        return len(parts) > 1

    def in_parts(self) -> bool:
        """Whether several projections share its rows: all of its numbers, cut into parts of unlike
        numbers of rows (like ones may be heads)."""
        rows = [math.prod(size[:-1]) for size in self.projections]
        whole = sum(map(math.prod, self.projections)) == self.weighed
        return whole and len(rows) > 1 and len(set(rows)) == len(rows)


class Changes(Protocol):
    """Edits that are made at the kernels; each gets the number of the kernel."""

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Scores ``[row, key]`` before the softmax."""

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Weights ``[row, key]`` after it."""

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """What enters the output projection; its features lie on ``axis``."""


@dataclass
class Followed:
    """A tensor that came of a kernel, which is not kept alive: its weights, or what they weighed
    (``context``)."""

    tensor: ReferenceType[Tensor]
    number: int
    context: bool = False
    spread: bool = False  # weights times values, before the sum


class KernelMode(TorchDispatchMode):
    """Lists the ``kernels`` of a pass in call order, and makes ``changes`` at them.

    Without ``keep`` their rows are not kept. Those that equal one of the maps ``shown`` to the bit
    are not kept twice.
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
        self.lead: tuple[int, ...] = ()  # of the kernel that runs
        self.own = False  # whether its weights are no tensor of the module
        self.followed: dict[int, list[Followed]] = {}
        #: An exponential with its shape, or the sum of one, with the exponential's and the axis.
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
        """Enter a kernel into the list, and follow what it gave."""
        path, outside = self.names.path(), self.names.outside()
        kernel = Kernel(name, path, dtype=rows.dtype, met=met, outside=outside, lead=self.lead)
        if self.keep:
            kernel.made, kernel.shape = rows.kept(self.shown), rows.shape
        self.kernels.append(kernel)
        mark = Followed(ref(out), len(self.kernels) - 1, context=met == "product")
        self.followed[id(out)] = [*self.marks(out), mark]
        return kernel

    def softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Run a softmax, edited or not, and keep its rows."""
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
        """Run a fused attention; its weights are reckoned from q and k by PyTorch's formula."""
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
            scores = softmax_in_place(scores)  # nobody else holds them
            self.own = True
            scores = self.changes.weights(number, scores).to(kind)
            self.own = False
            v = shared(given["value"].to(kind), shape[1])
            out = (torch.empty_like(out[0]).copy_(scores.reshape(shape) @ v), *out[1:])
            rows = Rows(scores)
        self.note(short(func), rows, out[0], "product").weighed = out[0].numel()
        return out

    def by_hand(self, name: str, args: tuple[Any, ...], out: Tensor) -> Tensor:
        """A softmax written out: an exponential divided by its sum, or one that sums to 1."""
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
        """Return what is known of an exponential or of the sum of one."""
        found = self.exponentials.get(id(x))
        return found if found is not None and found[0]() is x else None

    def written(self, out: Tensor, dim: int, in_place: bool = False) -> Tensor:
        """A softmax by hand becomes a kernel of the list; edits act on its logarithm."""
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
        """The arguments of a product, changed where one of them is what a kernel weighed."""
        place = PRODUCTS[name]
        changed = args[place]
        numbers = [mark.number for mark in self.marks(changed) if mark.context]
        if numbers and self.changes is not None:
            changed = self.changes.projected(numbers, changed, feature_axis(name))
        return (*args[:place], changed, *args[place + 1 :])

    def marks(self, x: Any) -> list[Followed]:
        """What is known of a tensor."""
        found = self.followed.get(id(x), [])
        return [mark for mark in found if mark.tensor() is x]

    def follow(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        """What becomes of weights: the call that they meet, or what is still the same weights."""
        results = [y for y in flat(out) if y.is_floating_point() or y.is_complex()]
        given = flat((args, {word: x for word, x in kwargs.items() if word != "out"}))
        if name in ADDED:
            self.note_sum(name, given)
        for x in given:
            for mark in self.marks(x):
                if mark.context and name in ADDED and self.joined_by_others(x, given):
                    continue  # what the projection takes is more than the heads
                if mark.context and name in PRODUCTS and self.weighed_again(mark, given):
                    continue  # the same weights take what they gave: this is no projection
                for y in self.next(mark, name, x, results):
                    self.hand_on(mark, name, x, y)

    def note_sum(self, name: str, given: list[Tensor]) -> None:
        """Note kernels of which two parts are added or subtracted: the heads of differences."""
        numbers = [{mark.number for mark in self.marks(x) if mark.context} for x in given[:2]]
        for number in set.intersection(*numbers) if len(numbers) == 2 else ():
            self.kernels[number].summed = name.removesuffix("_")

    def joined_by_others(self, x: Tensor, given: list[Tensor]) -> bool:
        """Whether a sum adds something as large as a tensor that no kernel made."""
        return any(y.numel() >= x.numel() and not self.marks(y) for y in given)

    def weighed_again(self, mark: Followed, given: list[Tensor]) -> bool:
        """Whether weights meet what they weighed before."""
        return any(
            other.number == mark.number and not other.context
            for y in given
            for other in self.marks(y)
        )

    def next(self, mark: Followed, name: str, x: Tensor, results: list[Tensor]) -> list[Tensor]:
        """The results of a call that go on from a followed tensor; notes what it met."""
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
        """Follow a tensor that came of a followed one."""
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
    """Return whether exponentials are shares that sum to 1 in each row. Where each row has a 1 and
    nothing else, they may as well be decays of a state space, from which all else has faded."""
    rows = out.detach().double()
    whole = bool(((rows.sum(-1) - 1).abs() < SUMS_TO_ONE).all())
    return whole and bool((rows.amax(-1) < 1).any())


def feature_axis(name: str) -> int:
    """The axis of the features in the first factor of a product."""
    return CHANNELS.get(name, -1)


def short(func: Any) -> str:
    """The name of a kernel without its namespace and overload, such as ``_softmax``."""
    return str(func.name()).partition("::")[2].partition(".")[0]


def flat(values: Any) -> list[Tensor]:
    """The tensors in nested arguments or results."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list | tuple):
        return []
    return [x for value in values for x in flat(value)]
