"""Which stack and layer an attention belongs to, told by behaviour first and names second."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from .roles import Front

CROSS_WORDS = ("cross", "multihead_attn", "encoder_attn", "src_attn", "enc_attn", "encdec")


@dataclass
class Place:
    """Where the last attention of one map stood."""

    depth: int
    layer: int
    path: str
    heads: int = 0
    first_head: int = 0
    confirmed: bool = False


class Numbering:
    """Counts the attentions of each map; a new pass begins where the depth no longer grows."""

    def __init__(self, lone: str):
        self.lone = lone
        self.stacks: dict[str, str] = {}
        self.last: dict[tuple[str, str], Place] = {}
        self.seen: dict[tuple[str, int], int] = {}

    def kind(self, path: str, queries: frozenset[int], keys: frozenset[int]) -> str:
        """``self`` if the keys hold all sequences whose tokens the queries are, else ``cross``."""
        if any(word in path.lower() for word in CROSS_WORDS):
            return "cross"
        return "self" if queries <= keys else "cross"

    def rows(
        self, place: tuple[str, int], shape: tuple[int, int], front: Front | None
    ) -> tuple[int, int]:
        """The absolute positions of the first query and of the first key of a self-attention.

        Both are 0 but where keys really grew by tokens of earlier passes, of which a cache may have
        forgotten the oldest. Columns of memory that no token made are keys like any other.
        ``place`` is a module and its depth.
        """
        queries, keys = shape
        front = front or Front()
        grown = bool(front.cached) and not front.written
        offset = max(front.cached, self.seen.get(place, 0)) if grown else front.cached
        self.seen[place] = offset + queries
        return offset, offset + queries - keys if grown else 0

    def stack(self, path: str, kind: str, hidden: Tensor | None, offset: int) -> str:
        """``decoder`` for cross-attention and where later words are hidden, else by name."""
        if kind == "cross":
            return "decoder"
        if path not in self.stacks:
            causal = None if hidden is None else looks_causal(hidden, offset)
            if causal is None:
                return named_stack(path) or self.lone
            self.stacks[path] = "decoder" if causal else named_stack(path) or "encoder"
        return self.stacks[path]

    def place(self, stack: str, kind: str, depth: int, path: str, heads: int) -> Place:
        """The next layer of a map, or a sibling head of the same layer."""
        before = self.last.get((stack, kind))
        if before is None:
            layer, first = 0, 0
        elif depth > before.depth:
            layer, first = before.layer + before.confirmed, 0
        elif depth == before.depth and before.confirmed and siblings(path, before.path):
            layer, first = before.layer, before.first_head + before.heads
        elif depth == before.depth and not before.confirmed:
            layer, first = before.layer, before.first_head
        else:
            layer, first = 0, 0
        place = Place(depth, layer, path, heads, first)
        self.last[stack, kind] = place
        return place


def named_stack(path: str) -> str | None:
    """The stack that a module path names."""
    for part in reversed(path.lower().split(".")):
        if "decoder" in part:
            return "decoder"
        if "encoder" in part:
            return "encoder"
    return None


def siblings(path: str, other: str) -> bool:
    """Whether two modules are numbered members of one list, as heads written one by one are."""
    return path != other and re.sub(r"\d+$", "", path) == re.sub(r"\d+$", "", other)


def looks_causal(hidden: Tensor, offset: int) -> bool | None:
    """Whether a mask ``[query, key]`` (true = hidden) hides all later keys; None: cannot tell."""
    queries, keys = hidden.shape
    if queries < 2:
        return None
    later = torch.ones(queries, keys, dtype=torch.bool, device=hidden.device).triu(1 + offset)
    padding = hidden.all(0)
    if not bool((later & ~padding).any()):
        return None
    return bool((hidden | ~later).all())
