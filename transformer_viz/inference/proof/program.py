"""Recorded calls of a module on one text, for comparison with those on another text.

Proved laws are reused for texts with the same calls and the same numbers, or numbers that grow with
the length. An ``if`` on values or on a length, a number read from a tensor, a closed gate, or a
table from outside PyTorch makes another program.
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

FEW = 4096  # weights up to this size are read in full, larger ones sampled
SOME = 64
SHORT = 8  # size from which a window hides some keys, and no edit masks a whole row
SHIFTS, TIMES = 2, 2  # allowed offset of a number from a length, and multiple of it
#: Calls that can silence their input: all results 0, or a condition equal everywhere.
SILENCING = frozenset(
    ("mul", "where", "masked_fill", "relu", "clamp", "clamp_min", "addcmul", "lerp", "threshold")
) | frozenset(
    ("bmm", "mm", "matmul", "heaviside", "isin", "any", "all", "eq", "ne", "gt", "ge", "lt", "le")
)
SILENCING |= {f"{kind}_{name}" for kind in ("logical", "bitwise") for name in ("and", "or", "not")}
OWN = frozenset(("aten", "prims", "prim"))  # namespaces of PyTorch's own calls


@dataclass
class Program:
    """Calls in order, with their numeric arguments from Python.

    Attributes:
        calls: Name and numbers of each call.
        opaque: True if a call is not one of PyTorch's own, so its inside is unknown.
        sizes: Rows and keys of each attention.
        silent: For each call that can silence its input, True if it did; for a condition, True if
            it held everywhere.
    """

    calls: list[tuple[str, Any]] = field(default_factory=list)
    opaque: bool = False
    sizes: tuple[int, ...] = ()
    silent: tuple[bool, ...] = ()
    _silent: list[bool | Tensor] = field(default_factory=list)

    def note(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Add a call."""
        self.opaque = self.opaque or func.namespace not in OWN
        self.calls.append((func.name(), numbers_in((*args, *kwargs.values()))))

    def note_content(self, x: Tensor) -> None:
        """Add the numbers of a tensor that no call made."""
        small = x.numel() == 1 and not x.is_floating_point()
        self.calls.append(("content", int(x) if small else content(x)))

    def note_result(self, name: str, out: Any) -> None:
        """Record if a call silenced its input."""
        if name.rstrip("_") not in SILENCING or not isinstance(out, Tensor) or not dense(out):
            return
        flags = [out.detach().any(), *([out.detach().all()] if out.dtype == torch.bool else [])]
        self._silent += [bool(flag) if flag.is_cpu else flag for flag in flags if not flag.is_meta]

    def close(self, sizes: Sequence[int]) -> None:
        """Store the rows and keys of the attentions, after the last call."""
        self.sizes = tuple(sizes)
        if self._silent:
            self.silent = tuple(map(bool, self._silent))
            self._silent.clear()

    def is_like(self, other: Program) -> bool:
        """Return True if both are the same program, on texts of any length."""
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
    """Return True if numbers of two calls agree up to the lengths of the texts.

    A number may be a length, a multiple or square of it, or near it. 0 is excluded: a shift by 0
    has no effect.
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
    """Return a tensor's identity: shape, dtype and a digest of its bytes.

    Offloaded weights are as large as the model.
    """
    plain = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return tuple(x.shape), x.dtype, blake2b(plain.numpy().data, digest_size=16).digest()


def weights_mark(module: nn.Module) -> tuple[Any, ...]:
    """Return a mark of a module's weights: small ones (e.g. gates) in full, large ones sampled."""
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
    """Proof results of a module on an earlier text.

    Attributes:
        marks: Form of its attentions.
        program: Calls on that text.
        laws: Proved laws.
        mixers: Other modules that mix tokens.
        ordered: True if token order was decided for all attentions and follows from the calls; else
            it is tested again on every text.
    """

    marks: Hashable
    program: Program
    laws: Laws
    mixers: dict[str, str]
    ordered: bool


MOST_KNOWN = 8  # texts cached per module
#: Laws that hold, by module.
KNOWN: WeakKeyDictionary[nn.Module, list[Remembered]] = WeakKeyDictionary()


def remembered(prover: Any, marks: Hashable, known: Sequence[Remembered]) -> Remembered | None:
    """Return the cached result of the longest text like this one."""
    alike = [one for one in known if one.marks == marks and one.program.is_like(prover.program)]
    return max(alike, key=lambda one: one.program.sizes, default=None)


def longer(prover: Any, earlier: Remembered) -> bool:
    """Return True if an attention has more rows or keys than on the earlier text.

    Windows, strides and shifts longer than that text had no effect there.
    """
    sizes = zip(prover.program.sizes, earlier.program.sizes, strict=True)
    return any(now > before for now, before in sizes)


def signature(prover: Any) -> Hashable:
    """Return everything besides the calls that laws may depend on.

    This is the module's mode, weights and code, the capture's code, and for each attention its
    site, axes, kernels, and visible keys.
    """
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
    """Return the identity of a module's replaced forward, without a reference to the module."""
    forward = part.__dict__["forward"]
    if isinstance(forward, MethodType):
        return type(forward.__self__), forward.__func__
    return ref(forward)


def watching_code() -> Hashable:
    """Return the functions of the capture, since results for other functions are not valid."""
    package = probe.__module__.rpartition(".")[0]
    found: set[Any] = set()
    for path, module in list(sys.modules.items()):
        if path.startswith(package):
            for value in list(vars(module).values()):
                inner = vars(value).values() if isinstance(value, type) else (value,)
                found.update(one for one in inner if isinstance(one, FunctionType))
    return frozenset(found)
