"""A pickle walked through without running it: which names it calls, and with what.

``torch.load(weights_only=True)`` runs no strangers' code, but some of what it allows can fill the
memory or take hours (``bytearray(10**12)``, a set of a tensor that repeats one number). So each
pickle is first gone through here with stand-ins in place of everything it names, and only the few
calls that state dicts are made of pass.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, ClassVar

from .errors import CheckpointError
from .pickle_rules import CALLS, STRANGE_TENSORS, VALUES, Refused, StandIn, is_plain

MAX_STEPS = 2_000_000  # reads of the walk: some seconds
MAX_STRING = 2**28  # bytes that are read at once
MAX_UNFOLDED = 10**7  # lists, tuples and dictionaries, each counted as often as it is met
MAX_DEPTH = 50  # of them in one another
WIDTHS = {
    **dict.fromkeys(("ComplexDouble",), 16),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int", "QInt32"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
}


FOLDING = (dict, list, tuple, set, frozenset, StandIn)


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
            raise Refused(f"it takes more than {MAX_STEPS:,} steps")


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
        except Refused as error:
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
