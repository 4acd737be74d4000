"""Stack and layer of each attention, by behaviour first and names second."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .roles import Front

SAMPLE = 512  # rows and columns of a long mask that are checked for causality
CROSS_WORDS = ("cross", "multihead_attn", "encoder_attn", "src_attn", "enc_attn", "encdec")


@dataclass(frozen=True)
class Source:
    """Inputs of one attention, used to distinguish its heads from another attention.

    They are the tokens of queries and keys, their numbers, and their places in memory. ``strides``
    are the possible steps in memory from one query to the next.
    """

    tokens: tuple[frozenset[int], frozenset[int]]
    shape: tuple[int, ...]
    memory: tuple[tuple[int, int], ...]
    strides: frozenset[int] = frozenset()

    @classmethod
    def of(cls, lineage: Any, pair: tuple[Any, Any], shape: tuple[int, ...]) -> Source:
        tokens = (lineage.tokens(pair[0]), lineage.tokens(pair[1]))
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        held = [x for x in pair if isinstance(x, Tensor) and not (x.is_meta or wrapped(x))]
        memory = tuple((x.untyped_storage().data_ptr(), int(x.storage_offset())) for x in held)
        sizes = zip(held[0].shape, held[0].stride(), strict=True) if len(held) == 2 else ()
        strides = frozenset(step for size, step in sizes if size == shape[2])
        return cls(tokens, shape, memory, strides)

    def beside(self, other: Source) -> bool:
        """Return True if both attend to the same tokens, row by row."""
        return self.tokens == other.tokens and self.shape == other.shape

    def slices(self, other: Source) -> bool:
        """Return True if queries and keys of both are different slices of the same tensors."""
        pairs = list(zip(self.memory, other.memory, strict=False))
        return len(pairs) == 2 and all(a[0] == b[0] and a[1] != b[1] for a, b in pairs)

    def goes_on(self, before: Source) -> bool:
        """Return True if the queries follow in the same tensor, with the same keys."""
        pairs = list(zip(self.memory, before.memory, strict=False))
        if len(pairs) != 2 or self.tokens != before.tokens or self.shape[:2] != before.shape[:2]:
            return False
        ((queries, at), (other, last)), (keys, same) = pairs
        steps = {step * before.shape[2] for step in self.strides if step}  # 0: copies of one row
        return queries == other and keys == same and at - last in steps


@dataclass
class Place:
    """Position of the last attention of one map."""

    depth: int
    layer: int
    path: str
    heads: int = 0
    first_head: int = 0
    confirmed: bool = False
    source: Source | None = None


class Numbering:
    """Counter of the attentions of each map; a new pass begins where the depth no longer grows."""

    def __init__(self, lone: str):
        self.lone = lone
        self.stacks: dict[str, str] = {}
        self.last: dict[tuple[str, str], Place] = {}
        self.seen: dict[tuple[str, int], int] = {}
        self.homes: dict[tuple[str, str], dict[str, int]] = {}
        self.parts: dict[Any, tuple[Source, int, int]] = {}

    def first_row(self, place: tuple[str, int], source: Source) -> tuple[int, int]:
        """Return the numbers of the first query and of the first head.

        Rows are not counted from 0 if a module takes its queries in parts; these belong to the head
        of the part before.
        """
        before, start, head = self.parts.get((place, source.memory[-1:]), (None, 0, 0))
        if before is None or not source.goes_on(before):
            return 0, 0
        return start + before.shape[2], head

    def kind(self, path: str, queries: frozenset[int], keys: frozenset[int]) -> str:
        """Return ``self`` if the keys include all sequences of the queries, else ``cross``."""
        if any(word in path.lower() for word in CROSS_WORDS):
            return "cross"
        return "self" if queries <= keys else "cross"

    def rows(
        self, place: tuple[str, int], shape: tuple[int, int], front: Front | None
    ) -> tuple[int, int]:
        """Return the absolute positions of the first query and of the first key of a
        self-attention.

        Both are 0 unless keys grew by tokens of earlier passes; a cache may have dropped the oldest
        of these. Columns of memory without tokens are ordinary keys. ``place`` is a module and its
        depth.
        """
        queries, keys = shape
        front = front or Front()
        if front.joined and front.joined == self.seen.get(place) == keys - queries:
            front = replace(front, cached=front.joined)  # those that were queries of the last pass
        grown = bool(front.cached) and not front.written
        offset = max(front.cached, self.seen.get(place, 0)) if grown else front.cached
        self.seen[place] = offset + queries
        return offset, offset + queries - keys if grown else 0

    def stack(self, path: str, kind: str, seen: Seen | None, offset: int) -> str:
        """Return ``decoder`` for cross-attention or hidden later tokens, else the stack by name.

        If only some later tokens are hidden, as in a decoder that reads a picture whole, prior
        knowledge of the module decides.
        """
        if kind == "cross":
            return "decoder"
        if path not in self.stacks:
            causal = None if seen is None else looks_causal(seen, offset)
            if causal is None:
                return named_stack(path) or self.lone
            both_ways = self.lone if hides_later(seen, offset) else "encoder"
            self.stacks[path] = "decoder" if causal else named_stack(path) or both_ways
        return self.stacks[path]

    def place(
        self,
        stack: str,
        kind: str,
        depth: int,
        path: str,
        heads: int,
        source: Source,
        rows: tuple[int, int] = (0, 0),
    ) -> Place:
        """Return the place of the next layer, of a sibling head in the same one, or of rows."""
        before = self.last.get((stack, kind))
        if before is None:
            layer, first = 0, 0
        elif rows[0] and depth == before.depth and path == before.path:
            layer, first = before.layer, rows[1]
        elif depth > before.depth:
            layer, first = before.layer + before.confirmed, 0
        elif depth == before.depth and before.confirmed and heads_of_one(before, path, source):
            layer, first = before.layer, before.first_head + before.heads
        elif depth == before.depth and not before.confirmed:
            layer, first = before.layer, before.first_head
        elif depth == before.depth and before.layer:  # beside it: a new pass begins less deep
            layer, first = before.layer, 0
        else:
            layer, first = self.restart(stack, kind, path, depth < before.depth), 0
        known = self.homes.setdefault((stack, kind), {})
        known[path] = max(layer, known.get(path, 0))
        place = Place(depth, layer, path, heads, first, source=source)
        self.last[stack, kind] = place
        self.parts[(path, depth), source.memory[-1:]] = source, rows[0], first
        return place

    def restart(self, stack: str, kind: str, path: str, deep: bool) -> int:
        """Return the layer of an attention that is less deep than the one before.

        A module that ran before begins a new pass. Another one after a ``deep`` one begins a second
        stack, whose layer numbers continue.
        """
        known = self.homes.get((stack, kind), {})
        if path in known:
            return known[path]
        return max(known.values(), default=-1) + 1 if deep else 0


def named_stack(path: str) -> str | None:
    """Return the stack that a module path names."""
    for part in reversed(path.lower().split(".")):
        if "decoder" in part:
            return "decoder"
        if "encoder" in part:
            return "encoder"
    return None


def heads_of_one(before: Place, path: str, source: Source) -> bool:
    """Return True if a one-head attention is the next head of the one before.

    Such heads are modules in a list, or one module computes them one by one.
    """
    last = before.source
    if last is None or source.shape[1] != 1 or not source.beside(last):
        return False
    return siblings(path, before.path) or (path == before.path and source.slices(last))


def siblings(path: str, other: str) -> bool:
    """Return True if two modules are numbered members of one list, as separate heads are."""
    return path != other and re.sub(r"\d+$", "", path) == re.sub(r"\d+$", "", other)


@dataclass(frozen=True, eq=False)
class Seen:
    """Mask sample, true where hidden, bool ``[row, column]``, at these queries and keys."""

    hidden: Tensor
    rows: Tensor
    columns: Tensor

    @classmethod
    def all(cls, hidden: Tensor) -> Seen:
        return cls(hidden, *(torch.arange(size, device=hidden.device) for size in hidden.shape))

    def later(self, offset: int) -> Tensor:
        """Return the cells whose key comes after their query, bool ``[row, column]``."""
        return self.columns > self.rows[:, None] + offset


def hides_later(seen: Seen | None, offset: int) -> bool:
    """Return True if a mask hides a later key from one row and shows it to another."""
    if seen is None:
        return False
    return bool((seen.hidden & ~seen.hidden.all(0) & seen.later(offset)).any())


def sampled(size: int) -> Tensor:
    """Return the places of an axis at which a mask is read.

    All of a short axis; else those at the beginning, where a narrow window shows, and some along
    the whole.
    """
    if size <= 2 * SAMPLE:
        return torch.arange(size, device="cpu")
    spread = torch.linspace(0, size - 1, SAMPLE, device="cpu").round().long()
    return torch.cat((torch.arange(SAMPLE, device="cpu"), spread)).unique()


def looks_causal(seen: Seen, offset: int) -> bool | None:
    """Return True if a mask hides all later keys; None if undecidable."""
    if len(seen.rows) < 2:
        return None
    later, padding = seen.later(offset), seen.hidden.all(0)
    if not bool((later & ~padding).any()):
        return None
    return bool((seen.hidden | ~later).all())
