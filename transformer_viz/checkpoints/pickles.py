"""A pickle walked through without running it: which names it calls, and with what.

``torch.load(weights_only=True)`` runs no strangers' code, but some of what it allows can fill the
memory or take hours (``bytearray(10**12)``, a set of a tensor that repeats one number). So each
pickle is first gone through here with stand-ins in place of everything it names, and only the few
calls that state dicts are made of pass.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, ClassVar

from .errors import CheckpointError

MAX_STEPS = 2_000_000  # reads of the walk: some seconds
MAX_STRING = 2**28  # bytes that are read at once
MAX_UNFOLDED = 10**7  # lists, tuples and dictionaries, each counted as often as it is met
MAX_DEPTH = 50  # of them in one another
#: Names that are only ever handed over: kinds of numbers and of storages.
VALUES = re.compile(
    r"torch\.(storage\.)?(\w*Storage|b?float\w*|u?int\w*|complex\w*|bool|half|double|long)"
    r"|numpy\.ndarray"
)
#: Tensors whose numbers are not simply there.
STRANGE_TENSORS = re.compile(
    r"torch\._utils\._rebuild_(sparse|q|meta|nested|wrapper|device)\w*"
    r"|torch\.serialization\._get_layout|torch\.per_(tensor|channel)_\w*"
)
#: Kinds of numpy whose entries are their own bytes: truth values, numbers, text.
DTYPE = re.compile(r"[<>|=]?([biufcSU])(\d{1,3})")
MAX_AXES = 32
WIDTHS = {
    **dict.fromkeys(("ComplexDouble",), 16),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int", "QInt32"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
}


class StandIn:
    """What stands for a class or function of a pickle: it does nothing, whatever is done to it."""

    name = ""

    def __new__(cls, *args: Any, **named: Any) -> StandIn:
        check = CALLS.get(cls.name)
        called = cls.name in CALLS and not named and (check is None or check(args))
        if not called and (cls.name in CALLS or VALUES.fullmatch(cls.name)):
            raise _Refused(f"{cls.name} is called with what no state dict holds")
        made = super().__new__(cls)
        made.parts = list(args)
        return made

    def __init__(self, *args: Any, **named: Any):
        self.parts: list[Any]

    def __setstate__(self, state: Any) -> None:
        # numpy and torch follow what a state says without a look: a pointer may stand there.
        check = STATES.get(self.name)
        if check is None or not check(self, state):
            raise _Refused(f"{self.name} is filled with what no state dict holds")
        self.parts.append(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.parts.append(value)

    def append(self, item: Any) -> None:
        self.parts.append(item)

    def extend(self, items: Any) -> None:
        self.parts.extend(items)


class _Refused(Exception):
    """A pickle does what none of a state dict does."""


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes | int | float)


def _plain(value: Any) -> bool:
    """Whether something may be a key: a scalar, a stand-in, or a flat tuple of them."""
    if isinstance(value, tuple):
        return all(_scalar(item) or isinstance(item, StandIn) for item in value)
    return _scalar(value) or isinstance(value, StandIn | type)


def _scalars(args: tuple[Any, ...]) -> bool:
    return all(_scalar(item) for item in args)


def _items(args: tuple[Any, ...]) -> bool:
    """No arguments, or one list, tuple, set or dictionary of plain things."""
    if len(args) > 1 or any(type(item) not in (list, tuple, dict, set) for item in args):
        return False
    return all(map(_plain, args[0] if args else ()))


def _pairs(args: tuple[Any, ...]) -> bool:
    """No arguments, or one list of pairs whose first is plain."""
    if len(args) > 1 or any(type(item) is not list for item in args):
        return False
    return all(
        isinstance(pair, list | tuple) and len(pair) == 2 and _plain(pair[0])
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
    """A kind of numbers or of text of a fixed length; never objects, which are pointers."""
    known = bool(args) and isinstance(args[0], str) and DTYPE.fullmatch(args[0])
    return bool(known) and all(type(word) in (bool, int) for word in args[1:])


def _number(args: tuple[Any, ...]) -> bool:
    """A scalar of numpy: its kind, and the bytes of one such number."""
    return len(args) == 2 and _dtype_bytes(args[0]) == _length(args[1]) is not None


def _latin(args: tuple[Any, ...]) -> bool:
    return len(args) == 2 and isinstance(args[0], str) and args[1] == "latin1"


def _dtype_bytes(dtype: Any) -> int | None:
    """The bytes of one entry of a stand-in for ``numpy.dtype``; None for anything else."""
    if not isinstance(dtype, StandIn) or dtype.name != "numpy.dtype":
        return None
    kind, size = DTYPE.fullmatch(dtype.parts[0]).groups()  # type: ignore[union-attr]
    return int(size) * (4 if kind == "U" else 1)


def _length(data: Any) -> int | None:
    """How many bytes stand there, plainly or as the text of older pickles; None for no bytes."""
    if isinstance(data, StandIn) and data.name == "_codecs.encode":
        data = data.parts[0]
        return len(data) if len(data) == len(data.encode("latin1", "ignore")) else None
    return len(data) if isinstance(data, bytes) else None


def _attributes(made: StandIn, state: Any) -> bool:
    """Named things that hang on an object of Python's own."""
    return type(state) is dict and all(type(name) is str for name in state)


def _dtype_state(made: StandIn, state: Any) -> bool:
    """What numpy writes of a plain kind: version, byte order, no fields, sizes, flags."""
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
    """What numpy writes of an array of numbers: version, shape, dtype, order, exactly its bytes."""
    if type(state) is not tuple or len(state) != 5 or type(state[1]) is not tuple:
        return False
    version, shape, dtype, fortran, data = state
    if version != 1 or type(fortran) not in (bool, int):
        return False
    if len(shape) > MAX_AXES or any(type(n) is not int or not 0 <= n < 2**48 for n in shape):
        return False
    entry, length = _dtype_bytes(dtype), _length(data)
    return entry is not None and length is not None and math.prod(shape) * entry == length


FOLDING = (dict, list, tuple, set, frozenset, StandIn)
#: What a pickle may call, and what its arguments must be; None leaves them open.
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
#: What may be filled after it was made, and what its state must be; nothing else may.
STATES: dict[str, Callable[[StandIn, Any], bool]] = {
    "collections.OrderedDict": _attributes,
    "argparse.Namespace": _attributes,
    "numpy.dtype": _dtype_state,
    "numpy.core.multiarray._reconstruct": _array_state,
    "numpy._core.multiarray._reconstruct": _array_state,
}


class _Walk(pickle._Unpickler):
    """Goes through a pickle and keeps the names it asks for and the storages it refers to."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: _Metered):
        super().__init__(file)
        self.names: set[str] = set()
        self.storages: dict[str, int] = {}
        self._types: dict[str, type[StandIn]] = {}

    def find_class(self, module: str, name: str) -> Any:
        home = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
        full = f"{home}.{name}"
        self.names.add(full)
        if full not in self._types:
            self._types[full] = type("StandIn", (StandIn,), {"name": full})
        return self._types[full]

    def persistent_load(self, pid: Any) -> Any:
        """Note a storage: ``("storage", kind, key, place, count of numbers, ...)``."""
        whole = isinstance(pid, tuple) and len(pid) >= 5 and isinstance(pid[4], int)
        if not (whole and isinstance(pid[2], str | int)):
            raise _Refused("it refers to something that is no storage")
        kind = str(getattr(pid[1], "name", "")).rpartition(".")[2].removesuffix("Storage")
        if pid[4] < 0:
            raise _Refused("a storage is smaller than nothing")
        self.storages[str(pid[2])] = pid[4] * WIDTHS.get(kind, 1)
        return StandIn()


def _keys(items: list[Any]) -> None:
    if not all(map(_plain, items)):
        raise _Refused("a key or an item of a set is nested")


def _setitem(walk: Any) -> None:
    _keys(walk.stack[-2:-1])
    pickle._Unpickler.load_setitem(walk)  # type: ignore[attr-defined]


def _setitems(walk: Any) -> None:
    _keys(walk.stack[::2])
    pickle._Unpickler.load_setitems(walk)  # type: ignore[attr-defined]


def _additems(walk: Any) -> None:
    _keys(walk.stack)
    pickle._Unpickler.load_additems(walk)  # type: ignore[attr-defined]


def _frozenset(walk: Any) -> None:
    _keys(walk.stack)
    pickle._Unpickler.load_frozenset(walk)  # type: ignore[attr-defined]


def _frame(walk: Any) -> None:
    walk.read(8)  # frames only say how much may be read at once


_Walk.dispatch |= {
    pickle.SETITEM[0]: _setitem,
    pickle.SETITEMS[0]: _setitems,
    pickle.ADDITEMS[0]: _additems,
    pickle.FROZENSET[0]: _frozenset,
    pickle.FRAME[0]: _frame,
}


class _Metered:
    """A file that gives no more than it has, and only so often."""

    def __init__(self, file: IO[bytes], size: int):
        self.file, self.size, self.steps = file, size, 0

    def read(self, count: int) -> bytes:
        self._step()
        return self.file.read(min(count, self.size, MAX_STRING))

    def readline(self) -> bytes:
        self._step()
        return self.file.readline(2**16)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise _Refused(f"it takes more than {MAX_STEPS:,} steps")


def look_through(file: IO[bytes], size: int, path: Path, pickles: int = 1) -> dict[str, int]:
    """Go through the pickles at the beginning of an open file; nothing that they name is run.

    Returns:
        The bytes of each storage that the pickles refer to, by key.

    Raises:
        CheckpointError: names that could run code, tensors whose numbers are not simply there, or
            a pickle that no state dict gives.
    """
    metered, names = _Metered(file, size), set[str]()
    storages: dict[str, int] = {}
    reason = ""
    for _ in range(pickles):
        walk = _Walk(metered)
        try:
            _refuse_unfolding(walk.load())
        except _Refused as error:
            reason = str(error)
        except Exception as error:  # a damaged pickle can raise nearly anything
            reason = f"its table of contents is damaged ({type(error).__name__})"
        names |= walk.names
        storages |= walk.storages
        if reason:
            break
    _refuse_names(names, path)
    if reason:
        raise CheckpointError(
            f"{path.name} cannot be read as weights: {reason}. Save the state dict again with "
            "torch.save, or as safetensors."
        )
    return storages


def _refuse_unfolding(root: Any) -> None:
    """Refuse lists in lists without end: to show, compare or copy them would take for ever.

    Each is visited once, however often it is referred to, after everything that is inside it.
    """
    seen: dict[int, tuple[int, int]] = {}  # how many things are inside, how deep they go
    waiting = [(root, False)]
    while waiting:
        value, ready = waiting.pop()
        inside = [part for part in _inside(value) if isinstance(part, FOLDING)]
        if ready:
            known = [seen[id(part)] for part in inside]
            size = 1 + sum(count for count, _ in known)
            depth = 1 + max((deep for _, deep in known), default=0)
            if size > MAX_UNFOLDED or depth > MAX_DEPTH:
                raise _Refused("it holds lists in lists without end")
            seen[id(value)] = size, depth
        elif id(value) not in seen:
            seen[id(value)] = 1, 1  # meanwhile: something may contain itself
            waiting.append((value, True))
            waiting += [(part, False) for part in inside]


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, StandIn):
        return value.parts
    if isinstance(value, dict):
        return (*value, *value.values())
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def _refuse_names(names: set[str], path: Path) -> None:
    strange = sorted(name for name in names if STRANGE_TENSORS.fullmatch(name))
    unknown = sorted(
        name
        for name in names
        if name not in CALLS and name not in strange and not VALUES.fullmatch(name)
    )
    if unknown:
        shown = ", ".join(ascii(name[:80])[1:-1] for name in unknown[:3])
        raise CheckpointError(
            f"{path.name} holds Python objects ({shown}), not only tensors; "
            "opening them could run code, so they are refused. Where the model was trained, save "
            "its weights: torch.save(model.state_dict(), 'weights.pt')."
        )
    if strange:
        what = strange[0].rpartition("_rebuild_")[2].partition("tensor")[0].strip("_")
        known = {"q": "quantised", "meta": "empty (meta)", "": "unusual"}
        raise CheckpointError(
            f"{path.name} holds {known.get(what, what)} tensors; only plain tensors with their "
            "numbers can be opened. Save the weights of the model as it was trained: unquantised, "
            "dense, on the CPU."
        )
