"""Inert stand-ins for the objects of a pickle, and rules for what may be left out.

``torch.load(weights_only=True)`` remains the reader of every file. It refuses unknown names, so one
object among the hyper-parameters would make the whole file unreadable. It therefore gets a class of
this module for each such name (:func:`stand_in`). The class records the arguments of calls and runs
nothing; no name of the file is ever imported. A separate reader would have to be as careful with
tensors as torch's is, and could fall behind it.

Names of the standard library, of torch and of numpy are left out only if known to be data
(:func:`may_be_left_out`). A file that names ``os.system`` is refused as a whole.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from .errors import CheckpointError

MOST_NAMES = 100  # per file; torch searches all of them at each call
LONGEST_NAME = 200  # characters
SHOWN = 3  # names in a sentence
MOST_SEEN = 10_000  # containers that are searched for left-out objects
FOLDING = (dict, list, tuple, set, argparse.Namespace)
DEEPEST = 5  # nested containers

#: Packages whose names are refused unless `DATA` lists them, since they hold runnable code.
GUARDED = sys.stdlib_module_names - {"__main__"} | {
    *("torch", "numpy", "dill", "cloudpickle", "joblib", "pip", "setuptools", "pkg_resources"),
    *("popen2", "commands", "asyncore", "asynchat", "cgi", "cgitb", "crypt", "distutils", "imp"),
    *("pipes", "smtpd", "telnetlib", "uu", "xdrlib", "IPython", "six"),
}
#: Names of these packages that training scripts store beside the weights and that are only data.
DATA = re.compile(
    r"(pathlib|datetime|decimal|fractions|enum|typing|zoneinfo|ipaddress)\.[\w.]+"
    r"|collections\.(defaultdict|deque|ChainMap|UserDict|UserList)"
    r"|types\.(SimpleNamespace|NoneType|EllipsisType)|uuid\.(UUID|SafeUUID)"
    r"|functools\.partial|_?operator\.getitem|dataclasses\._MISSING_TYPE|inspect\._empty"
    r"|logging\.(Logger|getLogger)|re\._compile|random\.Random|copyreg\.__newobj__"
    r"|builtins\.(bool|int|float|complex|str|bytes|list|dict|tuple|frozenset|object|type|slice)"
    r"|builtins\.(range|getattr|NotImplemented|Ellipsis)"
    r"|torch\.nn\.(modules|functional|init)\.[\w.]+|torch\.optim\.[\w.]+"
    r"|torch\._C\._nn\.\w+|torch\.(relu|tanh|sigmoid|square)"
    r"|torch\.utils\.data\.[\w.]+|torch\.(cuda\.)?amp\.[\w.]+|torch\.torch_version\.TorchVersion"
    r"|torch\.distributed\.fsdp\.[\w.]+|torch\._C\._VariableFunctionsClass"
    r"|numpy\.random\.[\w.]+|numpy\.(bool_?|float\d+|u?int\d+)"
)
ACTIVATIONS = ("torch.nn.modules.activation.", "torch.nn.functional.", "torch._C._nn.")
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


def may_be_left_out(name: str) -> bool:
    """Return True if objects of this class, or calls of this function, may be left out unread."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        return False
    return name.partition(".")[0] not in GUARDED or DATA.fullmatch(name) is not None


def holding_objects(path: Path, names: set[str]) -> CheckpointError:
    """Return the error for a file with more than tensors and plain data, with the names."""
    shown = ", ".join(ascii(name[:80])[1:-1] for name in sorted(names)[:SHOWN])
    return CheckpointError(
        f"{path.name} holds Python objects ({shown}), not only tensors; "
        "opening them could run code, so they are refused. Where the model was trained, save "
        "its weights: torch.save(model.state_dict(), 'weights.pt')."
    )


class LeftOut:
    """Object of a pickle that was not created: the name of its class, and its plain data.

    Nothing of the file runs: each call of the pickle only records the arguments.
    """

    name: ClassVar[str] = ""
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any, **named: Any) -> Any:
        made = super().__new__(cls)
        made.arguments, made.state = args, None
        return made

    def __init__(self, *args: Any, **named: Any):
        """Do nothing: ``__new__`` recorded the arguments."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __repr__(self) -> str:
        return f"<left out: {self.name}>"

    @property
    def attributes(self) -> dict[str, Any]:
        """Named values of the object: fields of a dataclass, options of a configuration."""
        parts = self.state if isinstance(self.state, tuple) else (self.state,)
        found: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, Mapping):
                named = islice(part.items(), MOST_SEEN)
                found.update((name, value) for name, value in named if type(name) is str)
        return found

    @property
    def scalar(self) -> Any:
        """Single value of the object, such as the member of an enum; else the object itself.

        An activation has its name as value, ``torch.nn.modules.activation.GELU(tanh)``.
        """
        held: Any = self
        if "_val" in self.attributes:  # a node of omegaconf
            held = self.attributes["_val"]
        elif self.name.startswith(ACTIVATIONS) or _names_activation(self.arguments):
            name = self.name if self.name.startswith(ACTIVATIONS) else self.arguments[0].name
            return f"{name}({self.attributes.get('approximate', '')!s:.9})"
        elif self.name == "builtins.getattr" and self.arguments:  # an enum's member in Python 3.11
            held = self.arguments[-1]
        elif self.state is None and len(self.arguments) == 1:
            held = self.arguments[0]
        if isinstance(held, LeftOut) and held is not self and len(held.arguments) == 1:
            held = held.arguments[0]
        return held if isinstance(held, str | int | float | bool | None) else self


def _names_activation(arguments: tuple[Any, ...]) -> bool:
    """Return True if the first argument names an activation, as for ``partial``."""
    first = arguments[0] if arguments else None
    return isinstance(first, type) and getattr(first, "name", "").startswith(ACTIVATIONS)


def stand_in(name: str, kind: str) -> type:
    """Return a class for one name of a pickle.

    Args:
        name: Name as in the pickle.
        kind: ``dict`` or ``list`` if the pickle fills the objects with items, as for subclasses of
            these types. torch fills only plain ones, so plain ones are created.
    """
    if kind == "dict":
        return type("LeftOut", (), {"__new__": lambda cls, *args, **named: OrderedDict()})
    if kind == "list":
        return type("LeftOut", (), {"__new__": lambda cls, *args, **named: []})
    return type("LeftOut", (LeftOut,), {"name": name})


def is_left_out(value: Any) -> bool:
    """Return True if a value is a stand-in: an object, or a class or function by its name."""
    return isinstance(value, LeftOut) or (isinstance(value, type) and issubclass(value, LeftOut))


def named_values(value: Any) -> Mapping[Any, Any]:
    """Return names and values of a mapping, a namespace or a stand-in; empty for other values.

    A configuration of omegaconf returns its content.
    """
    if isinstance(value, LeftOut):
        value = value.attributes
    elif isinstance(value, argparse.Namespace):
        value = vars(value)
    if not isinstance(value, Mapping):
        return {}
    inner = value.get("_content")
    return inner if isinstance(inner, Mapping) else value


def plain_value(value: Any) -> Any:
    """Return the plain value of a stand-in: one value, or its named ones."""
    if isinstance(value, type):
        return getattr(value, "name", "") if is_left_out(value) else value
    if not isinstance(value, LeftOut):
        return value
    one = value.scalar
    return named_values(value) if one is value else one


@dataclass(frozen=True)
class Place:
    """Path of a stand-in in a file's content, and the name of the object."""

    path: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path) or 'the file'} ({self.name})"[:LONGEST_NAME]


def what_was_left_out(content: Any) -> tuple[Place, ...]:
    """Return the places of all stand-ins in a file's content; nested ones are not listed."""
    if not is_left_out(content) and not isinstance(content, FOLDING):
        return ()
    return tuple(dict.fromkeys(Place(path, value.name) for path, value in _left_out(content)))


def left_out_note(path: Path, left_out: Sequence[Place]) -> tuple[str, ...]:
    """Return the note on objects that were left out of a file; empty if there are none."""
    if not left_out:
        return ()
    more = len(left_out) - SHOWN
    shown = ", ".join(map(str, left_out[:SHOWN])) + (f" and {more} more" if more > 0 else "")
    return (
        f"Objects of {path.name} that could run code were left out: {shown}. Only their plain "
        "values were read.",
    )


def names_among(values: Iterable[Any]) -> set[str]:
    """Return the names of the stand-ins among some values."""
    return {value.name for value in values if is_left_out(value)}


def _left_out(content: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    waiting: list[tuple[tuple[str, ...], Any]] = [((), content)]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_SEEN:
        path, value = waiting.pop(0)
        if is_left_out(value):
            yield path, value
        elif len(path) <= DEEPEST and id(value) not in seen:
            seen.add(id(value))
            value = vars(value) if isinstance(value, argparse.Namespace) else value
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += [
                ((*path, key[:40] if isinstance(key, str) else "..."), inner)
                for key, inner in islice(pairs, MOST_SEEN)
                if is_left_out(inner) or isinstance(inner, FOLDING)
            ]
