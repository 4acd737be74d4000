"""The running module, read from the calling frames, so that no hook is needed."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from torch import Tensor, nn

HEAD_WORDS = (
    "num_heads",
    "n_heads",
    "n_head",
    "heads",
    "num_attention_heads",
    "nhead",
    "nheads",
    "h",
)


#: Names of frames in which a module computes; others (`generate`) only prepare its inputs.
COMPUTING = frozenset(("forward", "__call__", "_call_impl"))


def holds(value: Any, x: Tensor, deep: int = 4) -> bool:
    """Return True if a value given to a model is a tensor, or contains it."""
    if value is x:
        return True
    if deep == 0 or isinstance(value, Tensor | nn.Module | str | bytes | int | float):
        return False
    if isinstance(value, dict):
        return any(holds(part, x, deep - 1) for part in value.values())
    if isinstance(value, list | tuple | set):
        return any(holds(part, x, deep - 1) for part in value)
    return (
        any(holds(part, x, deep - 1) for part in vars(value).values())
        if hasattr(value, "__dict__")
        else False
    )


def beside(held: dict[str, Any], deep: int = 3) -> list[Tensor]:
    """Return the tensors in plain objects of a weight or linear map, as quantisation scales."""
    found: list[Tensor] = []
    for value in held.values():
        if deep == 0 or isinstance(value, nn.Module | type) or not hasattr(value, "__dict__"):
            continue
        if isinstance(value, Tensor):
            found.append(value)
        else:
            found += beside(vars(value), deep - 1)
    return found


#: Attributes of every linear map beside its tensors; only a quantised one has more.
PLAIN_LINEAR = frozenset(vars(nn.Linear(1, 1, device="meta")))


class Names:
    """Modules of one model by identity: their paths, and the tensors they own.

    ``waves`` are the angles of the sine and cosine tables among those, once they were searched.
    """

    def __init__(self, module: nn.Module):
        self.root = module
        self.paths: dict[int, str] = {}
        self.modules: dict[str, nn.Module] = {}
        self.tensors: list[Tensor] = []
        for path, part in module.named_modules():
            self.paths[id(part)] = path
            self.modules[path] = part
            held = (*part._parameters.values(), *part._buffers.values(), *vars(part).values())
            mine = [x for x in held if isinstance(x, Tensor)]
            self.tensors += mine
            for x in mine:
                if x.__dict__:  # empty for most tensors
                    self.tensors += beside(x.__dict__)
            if isinstance(part, nn.Linear) and vars(part).keys() - PLAIN_LINEAR:
                self.tensors += beside(vars(part))
        self.owned = set(map(id, self.tensors))
        self.waves: dict[int, Tensor] | None = None

    def frame(self) -> tuple[str, FrameType | None]:
        """Return the path of the nearest running module, and its frame; ``""`` and None if none
        runs.
        """
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_argcount and code.co_varnames[0] == "self":
                path = self.paths.get(id(frame.f_locals.get("self")))
                if path is not None:
                    return path, frame
            frame = frame.f_back
        return "", None

    def computing(self, otherwise: bool) -> bool:
        """Return True if a module computes now; ``otherwise`` is the result if it only prepares."""
        frame: FrameType | None = sys._getframe(2)
        preparing = False
        while frame is not None:
            code = frame.f_code
            method = code.co_argcount and code.co_varnames[0] == "self"
            if method and id(frame.f_locals.get("self")) in self.paths:
                if code.co_name in COMPUTING:
                    return True
                preparing = True
            frame = frame.f_back
        return preparing and otherwise

    def given(self, x: Tensor) -> bool | None:
        """Return True if a tensor is among the model's arguments; None if no whole call is running.

        The outermost frame of the model keeps the arguments, even if names are rebound later.
        """
        frame: FrameType | None = sys._getframe(2)
        called = None
        while frame is not None:
            code = frame.f_code
            if code.co_varnames[:1] == ("self",) and frame.f_locals.get("self") is self.root:
                called = frame
            frame = frame.f_back
        if called is None:
            return None
        return holds([value for name, value in called.f_locals.items() if name != "self"], x)

    def outside(self) -> bool:
        """Return True if no module of the model is running."""
        return self.frame()[1] is None

    def path(self) -> str:
        """Return the path of the nearest running module."""
        return self.frame()[0]

    def number(self, path: str, words: tuple[str, ...] = HEAD_WORDS) -> int | None:
        """Return a count (heads) named by the module at a path, one around it, or their config."""
        while True:
            module: Any = self.modules.get(path)
            for owner in (module, getattr(module, "config", None)):
                for word in words:
                    value = getattr(owner, word, None)
                    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                        return value
            if not path:
                return None
            path = path.rpartition(".")[0]
