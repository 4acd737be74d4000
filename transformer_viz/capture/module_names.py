"""Which module is running: read from the calling frames, so that no hook is needed."""

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
    """Whether something that a model was given is a tensor, or holds it."""
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
    """The tensors in plain objects that a weight or a linear map keeps: the scales of its quantised
    numbers."""
    found: list[Tensor] = []
    for value in held.values():
        if deep == 0 or isinstance(value, nn.Module | type) or not hasattr(value, "__dict__"):
            continue
        if isinstance(value, Tensor):
            found.append(value)
        else:
            found += beside(vars(value), deep - 1)
    return found


#: What every linear map keeps beside its tensors; only a quantised one keeps more.
PLAIN_LINEAR = frozenset(vars(nn.Linear(1, 1, device="meta")))


class Names:
    """The modules of one model by identity: their paths, and the tensors they own.

    ``waves`` are the angles behind the tables of sines and cosines among those, once somebody has
    looked for them.
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
                if x.__dict__:  # of most tensors it is empty
                    self.tensors += beside(x.__dict__)
            if isinstance(part, nn.Linear) and vars(part).keys() - PLAIN_LINEAR:
                self.tensors += beside(vars(part))
        self.owned = set(map(id, self.tensors))
        self.waves: dict[int, Tensor] | None = None

    def frame(self) -> tuple[str, FrameType | None]:
        """The path of the nearest running module, and its frame; ``""`` and None if none runs."""
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
        """Whether a module computes now; ``otherwise`` is the answer where one only prepares."""
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
        """Whether a tensor is among what the model was called with; None if it was not called as a
        whole. The outermost frame of the model keeps what came in, whatever its names are bound to
        later."""
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
        """Whether no module of the model runs: what is called now is not the model's."""
        return self.frame()[1] is None

    def path(self) -> str:
        """The path of the nearest running module."""
        return self.frame()[0]

    def number(self, path: str, words: tuple[str, ...] = HEAD_WORDS) -> int | None:
        """A count that the module at a path, one around it, or their config names: its heads."""
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
