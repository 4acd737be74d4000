"""Classes and a function of a stranger's package, which pickles name and nobody may call."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

CALLED: list[str] = []


def make(tensor: Any) -> Any:
    """Give a tensor back, and tell."""
    CALLED.append("make")
    return tensor


class Kind(enum.Enum):
    """A choice."""

    GELU = "gelu_new"


@dataclass
class Options:
    """The options of a model."""

    n_head: int = 3
    act: Any = Kind.GELU

    def __setstate__(self, state: Any) -> None:
        CALLED.append("__setstate__")
        self.__dict__ = state


class Words(dict[str, Any]):
    """A dictionary with a name of its own."""


class Node:
    """A value as omegaconf keeps it."""

    def __init__(self, value: Any):
        self._val = value
        self._metadata: Any = None


class Config:
    """A configuration as omegaconf keeps it."""

    def __init__(self, **words: Any):
        self._content = {n: v if isinstance(v, Config) else Node(v) for n, v in words.items()}
        self._parent: Any = None
