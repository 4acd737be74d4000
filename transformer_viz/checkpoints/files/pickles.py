"""Inspection of a pickle without running it: the names it calls, and their arguments.

``torch.load(weights_only=True)`` runs no foreign code. Still, some operations that it allows can
fill the memory or take hours (``bytearray(10**12)``, a set of a tensor that repeats one number).
Each pickle is therefore first read here, with stand-ins in place of everything it names. Only the
few calls that state dicts need pass. Objects of other packages are found here too; they are left
out (:mod:`.stand_ins`).
"""

from __future__ import annotations

import gc
import pickle
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar

from .errors import CheckpointError
from .pickle_rules import CALLS, STRANGE_TENSORS, VALUES, Refused, StandIn, is_plain
from .stand_ins import MOST_NAMES, holding_objects, may_be_left_out

MAX_STEPS = 2_000_000  # reads of the walk: some seconds
MAX_STRING = 2**28  # bytes that are read at once
MAX_UNFOLDED = 10**7  # lists, tuples and dictionaries, counted at each reference
MAX_DEPTH = 50  # of nested containers
WIDTHS = {
    **dict.fromkeys(("ComplexDouble",), 16),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int", "QInt32"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
}


FOLDING = (dict, list, tuple, set, frozenset, StandIn)


@dataclass
class Contents:
    """Result of a walk: bytes of each storage by key, and names to be left out.

    Each name comes with its kind for :func:`.stand_ins.stand_in`.
    """

    storages: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


class _Walk(pickle._Unpickler):
    """Unpickler that records the names and storages a pickle refers to."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: _Metered):
        super().__init__(file)
        self.storages: dict[str, int] = {}
        self.types: dict[str, type[StandIn]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in NAME_MAPPING:  # names of Python 2, as torch reads them
            module, name = NAME_MAPPING[module, name]
        full = f"{IMPORT_MAPPING.get(module, module)}.{name}"
        if full not in self.types:
            left = is_strange(full) and may_be_left_out(full)
            words = {"name": full, "left_out": left, "filled": set()}
            self.types[full] = type("StandIn", (StandIn,), words)
        return self.types[full]

    def persistent_load(self, pid: Any) -> Any:
        """Record a storage: ``("storage", kind, key, device, count of numbers, ...)``."""
        whole = isinstance(pid, tuple) and len(pid) >= 5 and isinstance(pid[4], int)
        if not (whole and isinstance(pid[2], str | int)):
            raise Refused("it refers to something that is no storage")
        kind = str(getattr(pid[1], "name", "")).rpartition(".")[2].removesuffix("Storage")
        if pid[4] < 0:
            raise Refused("a storage is smaller than nothing")
        self.storages[str(pid[2])] = pid[4] * WIDTHS.get(kind, 1)
        return StandIn()


def _keys(items: list[Any]) -> None:
    if not all(map(is_plain, items)):
        raise Refused("a key or an item of a set is nested")


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
    """File with limits on the bytes per read and on the number of reads."""

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
            raise Refused(f"it takes more than {MAX_STEPS:,} steps")


def _walked(walk: _Walk) -> Any:
    """Return the root of a pickle, built while the cyclic garbage collector pauses.

    The collector would visit all new objects again and again: two million empty sets took 20 s, and
    take 2 s without it. `MAX_STEPS` bounds them.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        return walk.load()
    finally:
        if was:
            gc.enable()


def look_through(file: IO[bytes], size: int, path: Path, pickles: int = 1) -> Contents:
    """Inspect the pickles at the beginning of an open file; nothing that they name is run.

    Raises:
        CheckpointError: Names could run code, tensors are not stored plainly, or the pickle is not
            that of a state dict.
    """
    metered, contents = _Metered(file, size), Contents()
    names, reason = set[str](), ""
    for _ in range(pickles):
        walk = _Walk(metered)
        try:
            _refuse_unfolding(_walked(walk))
        except Refused as error:
            reason = str(error)
        except Exception as error:  # a damaged pickle can raise nearly anything
            reason = f"its table of contents is damaged ({type(error).__name__})"
        names |= walk.types.keys()
        contents.storages |= walk.storages
        for name, made in walk.types.items():
            if made.left_out:
                kinds = {contents.left_out.get(name, ""), *made.filled} - {""}
                contents.left_out[name] = kinds.pop() if kinds else ""
                reason = f"{name} is filled as a list and as a dict" if kinds else reason
        if reason:
            break
    _refuse_names(names, path)
    if len(contents.left_out) > MOST_NAMES or (reason and contents.left_out):
        raise holding_objects(path, set(contents.left_out))
    if reason:
        raise CheckpointError(
            f"{path.name} cannot be read as weights: {reason}. Save the state dict again with "
            "torch.save, or as safetensors."
        )
    return contents


def _refuse_unfolding(root: Any) -> None:
    """Refuse deeply shared nested lists: showing, comparing or copying them would take too long.

    Each is visited once, however often it is referred to, after everything that is inside it.
    """
    seen: dict[int, tuple[int, int]] = {}  # number of things inside, and their depth
    waiting = [(root, False)]
    while waiting:
        value, ready = waiting.pop()
        inside = [part for part in _inside(value) if isinstance(part, FOLDING)]
        if ready:
            known = [seen[id(part)] for part in inside]
            size = 1 + sum(count for count, _ in known)
            depth = 1 + max((deep for _, deep in known), default=0)
            if size > MAX_UNFOLDED or depth > MAX_DEPTH:
                raise Refused("it holds lists in lists without end")
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


def is_strange(name: str) -> bool:
    """Return True if no state dict needs this name."""
    known = name in CALLS or VALUES.fullmatch(name) or STRANGE_TENSORS.fullmatch(name)
    return not known


def _refuse_names(names: set[str], path: Path) -> None:
    strange = sorted(name for name in names if STRANGE_TENSORS.fullmatch(name))
    unknown = {name for name in names if is_strange(name)}
    if not all(map(may_be_left_out, unknown)):
        raise holding_objects(path, unknown)
    if strange:
        what = strange[0].rpartition("_rebuild_")[2].partition("tensor")[0].strip("_")
        known = {"q": "quantised", "meta": "empty (meta)", "": "unusual"}
        raise CheckpointError(
            f"{path.name} holds {known.get(what, what)} tensors; only plain tensors with their "
            "numbers can be opened. Save the weights of the model as it was trained: unquantised, "
            "dense, on the CPU."
        )
