"""The calls that a module made on one text, compared with those on another one.

What was proved of a module on one text is remembered for texts on which it runs the same calls with
the same numbers, or with numbers that grow as the text does. An ``if`` on values or on a length, a
number read out of a tensor, a gate that was shut, or a table from outside PyTorch makes another
program.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from ...capture import probe
from ...capture.torch_calls import dense
from .accounts import name
from .laws import Laws
from .numbering import first_of_stairs, looked_at

FEW = 4096  # numbers of a weight that are all read; of a larger one only some
SOME = 64
SHORT = 8  # rows and keys from which on a window hides some, and no edit leaves nothing to see
SHIFTS, TIMES = 2, 2  # how far numbers may stand beside a length, and how often hold it
#: Calls that can silence what they are given: all their results are 0, or a condition is the same
#: everywhere.
SILENCING = frozenset(
    ("mul", "where", "masked_fill", "relu", "clamp", "clamp_min", "addcmul", "lerp", "threshold")
) | frozenset(
    ("bmm", "mm", "matmul", "heaviside", "isin", "any", "all", "eq", "ne", "gt", "ge", "lt", "le")
)
SILENCING |= {f"{kind}_{name}" for kind in ("logical", "bitwise") for name in ("and", "or", "not")}
OWN = frozenset(("aten", "prims", "prim"))  # the namespaces whose calls do what their name says


@dataclass
class Program:
    """Calls in their order, with the numbers that Python gave them.

    Attributes:
        calls: name and numbers of each call.
        opaque: whether a call is none of PyTorch's own, so that its inside cannot be told.
        sizes: rows and keys of each attention.
        silent: of each call that can silence something whether it did, and of a condition whether
            it held everywhere.
    """

    calls: list[tuple[str, Any]] = field(default_factory=list)
    opaque: bool = False
    sizes: tuple[int, ...] = ()
    silent: tuple[bool, ...] = ()
    _silent: list[bool | Tensor] = field(default_factory=list)

    def note(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Enter a call."""
        self.opaque = self.opaque or func.namespace not in OWN
        self.calls.append((func.name(), numbers_in((*args, *kwargs.values()))))

    def note_content(self, x: Tensor) -> None:
        """Enter the numbers of a tensor that no call made."""
        small = x.numel() == 1 and not x.is_floating_point()
        self.calls.append(("content", int(x) if small else content(x)))

    def note_result(self, name: str, out: Any) -> None:
        """Enter whether a call silenced what it was given."""
        if name.rstrip("_") not in SILENCING or not isinstance(out, Tensor) or not dense(out):
            return
        flags = [out.detach().any(), *([out.detach().all()] if out.dtype == torch.bool else [])]
        self._silent += [bool(flag) if flag.is_cpu else flag for flag in flags if not flag.is_meta]

    def close(self, sizes: Sequence[int]) -> None:
        """Enter the rows and keys of the attentions; no call follows."""
        self.sizes = tuple(sizes)
        if self._silent:
            self.silent = tuple(map(bool, self._silent))
            self._silent.clear()

    def is_like(self, other: Program) -> bool:
        """Return whether both are one program, on texts of whatever length."""
        if len(self.calls) != len(other.calls) or len(self.sizes) != len(other.sizes):
            return False
        if self.silent != other.silent:
            return False
        lengths = set(zip(self.sizes, other.sizes, strict=True))
        return all(
            one == two or (one[0] == two[0] and agree(one[1], two[1], lengths))
            for one, two in zip(self.calls, other.calls, strict=True)
        )


def numbers_in(value: Any) -> Any:
    """Return an argument without its tensors."""
    if isinstance(value, Tensor):
        return None
    if isinstance(value, list | tuple):
        return tuple(map(numbers_in, value))
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def agree(one: Any, two: Any, lengths: set[tuple[int, int]]) -> bool:
    """Return whether numbers of two calls are the same but for the lengths of the texts.

    A number may be a length, a multiple or a square of it, or stand beside it. 0 is no such number:
    a shift by 0 does nothing.
    """
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(
            agree(a, b, lengths) for a, b in zip(one, two, strict=True)
        )
    if type(one) is not type(two) or one == two or type(one) is not int:
        return bool(type(one) is type(two) and (one == two or (one != one and two != two)))
    if one == 0 or two == 0:
        return False
    return any(
        one * m == two * n
        or one * m * m == two * n * n
        or any(abs(one - k * n) <= SHIFTS and one - two == k * (n - m) for k in range(1, TIMES + 1))
        for n, m in lengths
        if n != m
    )


def content(x: Tensor) -> tuple[Any, ...]:
    """Return what tells the numbers of a tensor: its shape and a digest of its bytes.

    Weights that are brought from disk are as large as the model.
    """
    plain = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return tuple(x.shape), x.dtype, blake2b(plain.numpy().data, digest_size=16).digest()


def weights_mark(module: nn.Module) -> tuple[Any, ...]:
    """Return what tells the weights of a module: all numbers of the small ones, such as gates, and
    some of the large ones."""
    named = module.state_dict(keep_vars=True).items()
    return tuple(
        (name, 0 if x.is_inference() else x._version, content(sample(x)) if dense(x) else ())
        for name, x in named
        if isinstance(x, Tensor) and not x.is_meta and x.numel()
    )


def sample(x: Tensor) -> Tensor:
    """Return all numbers of a small tensor, and some of a large one."""
    line = x.detach().reshape(-1) if x.is_contiguous() else x.detach().flatten()[:FEW]
    return line if line.numel() <= FEW else line[:: line.numel() // SOME]


@dataclass(frozen=True)
class Remembered:
    """What was proved of a module on an earlier text.

    Attributes:
        marks: what its attentions were like.
        program: the calls that it made there.
        laws: what was proved.
        mixers: the modules that mix tokens besides.
        ordered: whether the order of tokens was told of all attentions, and follows from the
            calls; else it is told again on every text.
    """

    marks: Hashable
    program: Program
    laws: Laws
    mixers: dict[str, str]
    ordered: bool


MOST_KNOWN = 8  # texts of a module that are remembered
#: By module; only what holds.
KNOWN: WeakKeyDictionary[nn.Module, list[Remembered]] = WeakKeyDictionary()


def remembered(prover: Any, marks: Hashable, known: Sequence[Remembered]) -> Remembered | None:
    """Return what is known of the longest text like this one."""
    alike = [one for one in known if one.marks == marks and one.program.is_like(prover.program)]
    return max(alike, key=lambda one: one.program.sizes, default=None)


def longer(prover: Any, earlier: Remembered) -> bool:
    """Return whether an attention has more rows or keys than on the earlier text: windows, strides
    and shifts that are longer than that one change nothing there."""
    sizes = zip(prover.program.sizes, earlier.program.sizes, strict=True)
    return any(now > before for now, before in sizes)


def signature(prover: Any) -> Hashable:
    """Return what laws may depend on besides the calls: the module's mode and weights, the code
    that runs it and that watches it, and of each attention its place, axes, kernels, and which
    keys are looked at."""
    found: list[Hashable] = [prover.module.training, len(prover.kernels), prover.key() is None]
    found += weights_mark(prover.module)
    parts = list(prover.module.modules())
    found += [frozenset(type(part).forward for part in parts), watching_code()]
    found += [_own_forward(part) for part in parts if "forward" in part.__dict__]
    found += [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in parts]
    for account in prover.accounts:
        record, seen = account.record, looked_at(account, prover.kernels)
        cells = seen.flatten(0, 1).any(0)
        kernels = tuple((prover.kernels[n].name, prover.kernels[n].path) for n in account.parts)
        found += [
            (name(record), record.form, record.heads, record.along, account.shape[0]),
            (record.offset, record.first_key, record.shape[0] == record.shape[1], kernels),
            (first_of_stairs(seen) is not None, bool(cells.all()), bool(cells[-1:].all())),
            (bool(seen.any(-1).all()), *(min(size, SHORT) for size in record.shape)),
            (record.scores is not None and record.scores.shape[-1] > record.shape[1]),
        ]
    return tuple(found)


def _own_forward(part: nn.Module) -> Hashable:
    """Return what tells the forward that replaced a module's own, without keeping the module."""
    forward = part.__dict__["forward"]
    if isinstance(forward, MethodType):
        return type(forward.__self__), forward.__func__
    return ref(forward)


def watching_code() -> Hashable:
    """Return the functions of the capture: a law that was proved of others proves nothing."""
    package = probe.__module__.rpartition(".")[0]
    found: set[Any] = set()
    for path, module in list(sys.modules.items()):
        if path.startswith(package):
            for value in list(vars(module).values()):
                inner = vars(value).values() if isinstance(value, type) else (value,)
                found.update(one for one in inner if isinstance(one, FunctionType))
    return frozenset(found)
