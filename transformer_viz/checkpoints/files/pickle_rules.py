"""Rules for the names, calls, arguments and states that a pickle of a state dict may contain.

numpy and torch do not validate the arguments of some calls, so each has a check here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar

#: Names that only occur as values: types of numbers and of storages.
VALUES = re.compile(
    r"torch\.(storage\.)?(\w*Storage|b?float\w*|u?int\w*|complex\w*|bool|half|double|long)"
    r"|numpy\.ndarray"
)
#: Tensors whose numbers are not stored plainly.
STRANGE_TENSORS = re.compile(
    r"torch\._utils\._rebuild_(sparse|q|meta|nested|wrapper|device)\w*"
    r"|torch\.serialization\._get_layout|torch\.per_(tensor|channel)_\w*"
)
#: numpy types whose entries are their own bytes: booleans, numbers, text.
DTYPE = re.compile(r"[<>|=]?([biufcSU])(\d{1,3})")
MAX_AXES = 32


class StandIn:
    """Inert replacement of a class or function of a pickle.

    ``left_out`` is True for a package whose objects are not created. ``filled`` records the use as
    a dict or a list.
    """

    name: ClassVar[str] = ""
    left_out: ClassVar[bool] = False
    filled: ClassVar[set[str]] = set()

    def __new__(cls, *args: Any, **named: Any) -> StandIn:
        check = CALLS.get(cls.name)
        called = cls.name in CALLS and not named
        # torch's functions get only known values, never an object that was left out.
        called = called and (check(args) if check else not any(map(_is_left_out, args)))
        if not called and (cls.name in CALLS or VALUES.fullmatch(cls.name)):
            raise Refused(f"{cls.name} is called with what no state dict holds")
        made = super().__new__(cls)
        made.parts = list(args)
        return made

    def __init__(self, *args: Any, **named: Any):
        self.parts: list[Any]

    def __setstate__(self, state: Any) -> None:
        # numpy and torch do not validate a state, which may contain a pointer.
        check = STATES.get(self.name)
        if not self.left_out and (check is None or not check(self, state)):
            raise Refused(f"{self.name} is filled with what no state dict holds")
        self.parts.append(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.filled.add("dict")
        self.parts.append(value)

    def append(self, item: Any) -> None:
        self.filled.add("list")
        self.parts.append(item)

    def extend(self, items: Any) -> None:
        self.filled.add("list")
        self.parts.extend(items)


class Refused(Exception):
    """Pickle with an operation that no state dict needs."""


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes | int | float)


def is_plain(value: Any) -> bool:
    """Return True if a value may be a key: a scalar, a stand-in, or a flat tuple of them."""
    if isinstance(value, tuple):
        return all(_scalar(item) or isinstance(item, StandIn) for item in value)
    return _scalar(value) or isinstance(value, StandIn | type)


def _is_left_out(value: Any) -> bool:
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, StandIn) and kind.left_out


def _scalars(args: tuple[Any, ...]) -> bool:
    return all(_scalar(item) for item in args)


def _items(args: tuple[Any, ...]) -> bool:
    """Return True for no arguments, or one list, tuple, set or dictionary of plain values."""
    if len(args) > 1 or any(type(item) not in (list, tuple, dict, set) for item in args):
        return False
    return all(map(is_plain, args[0] if args else ()))


def _pairs(args: tuple[Any, ...]) -> bool:
    """Return True for no arguments, or one list of pairs whose first item is plain."""
    if len(args) > 1 or any(type(item) is not list for item in args):
        return False
    return all(
        isinstance(pair, list | tuple) and len(pair) == 2 and is_plain(pair[0])
        for pair in (args[0] if args else ())
    )


def _empty_array(args: tuple[Any, ...]) -> bool:
    return (
        len(args) == 3
        and getattr(args[0], "name", "") == "numpy.ndarray"
        and args[1] == (0,)
        and (args[2] in (b"b", "b") or _length(args[2]) == 1)
    )


def _plain_dtype(args: tuple[Any, ...]) -> bool:
    """Return True for a dtype of numbers or fixed-length text; never objects (pointers)."""
    known = bool(args) and isinstance(args[0], str) and DTYPE.fullmatch(args[0])
    return bool(known) and all(type(word) in (bool, int) for word in args[1:])


def _number(args: tuple[Any, ...]) -> bool:
    """Return True for a numpy scalar: its dtype, and the bytes of one such number."""
    return len(args) == 2 and _dtype_bytes(args[0]) == _length(args[1]) is not None


def _latin(args: tuple[Any, ...]) -> bool:
    return len(args) == 2 and isinstance(args[0], str) and args[1] == "latin1"


def _dtype_bytes(dtype: Any) -> int | None:
    """Return the bytes of one entry of a stand-in for ``numpy.dtype``; None for other values."""
    if not isinstance(dtype, StandIn) or dtype.name != "numpy.dtype":
        return None
    kind, size = DTYPE.fullmatch(dtype.parts[0]).groups()  # type: ignore[union-attr]
    return int(size) * (4 if kind == "U" else 1)


def _length(data: Any) -> int | None:
    """Return the number of bytes, stored plainly or as text of older pickles; None for others."""
    if isinstance(data, StandIn) and data.name == "_codecs.encode":
        data = data.parts[0]
        return len(data) if len(data) == len(data.encode("latin1", "ignore")) else None
    return len(data) if isinstance(data, bytes) else None


def _attributes(made: StandIn, state: Any) -> bool:
    """Return True for named attributes of an object of the standard library."""
    return type(state) is dict and all(type(name) is str for name in state)


def _dtype_state(made: StandIn, state: Any) -> bool:
    """Return True for numpy's state of a plain dtype: version, order, no fields, sizes, flags."""
    if type(state) is not tuple or len(state) != 8:
        return False
    size = _dtype_bytes(made)
    text = made.parts[0].lstrip("<>|=")[0]
    sizes = {"S": (size, 1), "U": (size, 4)}.get(text, (-1, -1))
    return (
        all(word is None or type(word) in (int, str) for word in state)
        and state[0] in (3, 4)
        and state[1] in ("<", ">", "|", "=")
        and state[2:5] == (None, None, None)
        and state[5:7] == sizes
        and state[7] in ((0, 8) if text == "U" else (0,))
    )


def _array_state(made: StandIn, state: Any) -> bool:
    """Return True for numpy's state of a numeric array: version, shape, dtype, order, bytes."""
    if type(state) is not tuple or len(state) != 5 or type(state[1]) is not tuple:
        return False
    version, shape, dtype, fortran, data = state
    if version != 1 or type(fortran) not in (bool, int):
        return False
    if len(shape) > MAX_AXES or any(type(n) is not int or not 0 <= n < 2**48 for n in shape):
        return False
    entry, length = _dtype_bytes(dtype), _length(data)
    return entry is not None and length is not None and math.prod(shape) * entry == length


#: Functions that a pickle may call, with the check of their arguments; None leaves them open.
CALLS: dict[str, Callable[[tuple[Any, ...]], bool] | None] = {
    "torch._utils._rebuild_tensor": None,
    "torch._utils._rebuild_tensor_v2": None,
    "torch._utils._rebuild_tensor_v3": None,
    "torch._utils._rebuild_parameter": None,
    "torch._utils._rebuild_parameter_with_state": None,
    "torch.Size": _items,
    "torch.device": _scalars,
    "collections.OrderedDict": _pairs,
    "collections.Counter": _items,
    "builtins.set": _items,
    "builtins.complex": _scalars,
    "_codecs.encode": _latin,
    "argparse.Namespace": lambda args: not args,
    "pathlib.PosixPath": _scalars,
    "pathlib.WindowsPath": _scalars,
    "pathlib._local.PosixPath": _scalars,
    "pathlib._local.WindowsPath": _scalars,
    "numpy.dtype": _plain_dtype,
    "numpy.core.multiarray.scalar": _number,
    "numpy._core.multiarray.scalar": _number,
    "numpy.core.multiarray._reconstruct": _empty_array,
    "numpy._core.multiarray._reconstruct": _empty_array,
}
#: Objects that may receive a state after creation, with the check of it; others may not.
STATES: dict[str, Callable[[StandIn, Any], bool]] = {
    "collections.OrderedDict": _attributes,
    "argparse.Namespace": _attributes,
    "numpy.dtype": _dtype_state,
    "numpy.core.multiarray._reconstruct": _array_state,
    "numpy._core.multiarray._reconstruct": _array_state,
}
