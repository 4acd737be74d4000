"""How the stream of tokens begins: look-ups, pictures, numbers, nothing at all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import TOKENS, WIDTH, Attention, Block, ids, options, sdpa, variants, ways

VOCABULARY = 50
IDS = {"inputs": ids}
LOOKED_UP = {"inputs": ids, "row": "S1"}


def given(row: str, make, **parts) -> dict[str, object]:
    """The options of a style with one input, and one further module, if any."""
    words = {"inputs": lambda: (make(),), "row": row}
    return words | ({"parts": lambda: {n: p() for n, p in parts.items()}} if parts else {})


class Read(Block):
    """A block behind an embedding: ``embed`` is the style."""

    def parts(self):
        return {
            "table": nn.Parameter(torch.randn(VOCABULARY, WIDTH)),
            "places": nn.Parameter(torch.randn(TOKENS, WIDTH) / 3),
        }

    def forward(self, given):
        return super().forward(self.embed(given) + self.places)


variants("embed", {
    "embedding_function": ("F.embedding", lambda self, given: F.embedding(given, self.table)),
}, Read, **IDS)  # fmt: skip
variants("embed", {
    "embedding_index_sdpa": ("W[ids] before SDPA", lambda self, given: self.table[given]),
}, Read.of(combine=lambda self, q, k, v: sdpa(q, k, v)), **IDS)  # fmt: skip
variants("embed", {
    "embedding_index": ("W[ids], as TransformerLens has it", lambda self, given: self.table[given]),
    "embedding_index_tensor": ("W[ids, :]", lambda self, given: self.table[given, :]),
    "embedding_one_hot": ("F.one_hot(ids).float() @ W",
                          lambda self, given: F.one_hot(given, 50).float() @ self.table),
    "embedding_eye": ("torch.eye(n)[ids] @ W",
                      lambda self, given: torch.eye(50)[given] @ self.table),
    "embedding_select": (
        "W.index_select(0, ids)",
        lambda self, given: self.table.index_select(0, given.flatten()).view(*given.shape, -1)),
}, Read, **LOOKED_UP)  # fmt: skip


@ways("embed", Read)
class Tables:
    """Rows of a table by ids."""

    @options(**LOOKED_UP)
    def embedding_gather(self, given):
        """torch.gather over an expanded table"""
        wide = self.table.expand(len(given), -1, -1)
        return wide.gather(1, given[..., None].expand(-1, -1, WIDTH))

    @options(**LOOKED_UP)
    def embedding_scatter(self, given):
        """zeros.scatter_(-1, ids, 1) through a linear layer"""
        empty = torch.zeros(*given.shape, VOCABULARY)
        return F.linear(empty.scatter_(-1, given[..., None], 1.0), self.table.T)

    @options(inputs=lambda: ([[1, 2, 3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3, 2, 1]],), row="S1")
    def input_numbers_of_python(self, given):
        """lists of Python's numbers, made a tensor inside, W[ids]"""
        return self.table[torch.tensor(given)]


@dataclass
class Batch:
    tokens: Tensor


def read(width: int) -> dict[str, object]:
    return {"read": lambda: nn.Linear(width, WIDTH)}


def patches() -> nn.Module:
    return nn.Conv2d(3, WIDTH, 4, 4)


@ways("forward")
class Inputs:
    """What comes in, and how it becomes tokens."""

    @options(**IDS, parts=lambda: {"table": nn.Embedding(VOCABULARY, WIDTH)})
    def embedding_module(self, given):
        """nn.Embedding: the usual one"""
        return Block.forward(self, self.table(given))

    @options(
        **given(
            "S1",
            lambda: torch.randint(VOCABULARY, (2, TOKENS, 3)),
            bag=lambda: nn.EmbeddingBag(VOCABULARY, WIDTH),
        )
    )
    def embedding_bag(self, given):
        """nn.EmbeddingBag: each token is a bag of three"""
        bags = self.bag(given.flatten(0, 1)) * 2
        return Block.forward(self, bags.view(*given.shape[:2], -1))

    @options(
        **given(
            "S1",
            lambda: torch.randint(256, (2, 3, 12, 12), dtype=torch.uint8),
            patches=patches,
        ),
        key=2,
    )
    def picture_bytes(self, given):
        """a picture of uint8, divided inside, in patches"""
        return Block.forward(self, self.patches(given.float() / 64).flatten(2).mT)

    @options(**given("", lambda: torch.randn(2, 3, 12, 12), patches=patches))
    def picture_floats(self, given):
        """the same of floats"""
        return Block.forward(self, self.patches(given * 2).flatten(2).mT)

    @options(**given("S1", lambda: torch.randint(9, (2, TOKENS, 5)), **read(5)))
    def table_of_integers(self, given):
        """integer features: x.float() through a linear layer"""
        return Block.forward(self, self.read(given.float()) / 4)

    @options(Attention("hqk"), **given("S1", lambda: torch.randn(TOKENS), **read(1)))
    def series_one_dimension(self, given):
        """a series of numbers [token]"""
        x = self.read(given[:, None]) * 2
        q, k, v = (w(x).view(TOKENS, 4, 8).transpose(0, 1) for w in (self.wq, self.wk, self.wv))
        out = (self.weigh(q, k) @ v).transpose(0, 1).reshape(TOKENS, WIDTH)
        return x + self.wo(out)

    @options(**given("S1", lambda: torch.randn(2 * TOKENS), **read(1)))
    def series_cut_up(self, given):
        """a long series of one dimension, cut into items and steps"""
        return Block.forward(self, self.read(given.view(2, TOKENS, 1)) * 2)

    @options(**given("S1", lambda: torch.randint(256, (2, TOKENS)), **read(8)))
    def bits_of_numbers(self, given):
        """numbers as their bits"""
        bits = (given[..., None] >> torch.arange(8)) & 1
        return Block.forward(self, self.read(bits * 2.0 - 1))

    @options(**given("", lambda: Batch(torch.randn(2, TOKENS, WIDTH))))
    def input_in_object(self, given):
        """the input is an object of the user's own"""
        return Block.forward(self, given.tokens)

    @options(**given("", lambda: {"tokens": torch.randn(2, TOKENS, WIDTH)}))
    def input_in_dictionary(self, given):
        """the input is a dictionary"""
        return {"out": Block.forward(self, given["tokens"])}

    @options(**given("S1", lambda: torch.randn(2, TOKENS, WIDTH).numpy()))
    def input_of_numpy(self, given):
        """numpy, made a tensor inside"""
        return Block.forward(self, torch.from_numpy(given))

    @options(run=lambda module, given: module(tokens=given))
    def input_by_keyword(self, tokens):
        """called with a keyword"""
        return Block.forward(self, tokens)


class Holding(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("data", torch.randn(2, TOKENS, WIDTH))


@ways("forward", Holding)
class Nothing:
    @options(inputs=tuple, row="S1")
    def input_inside(self):
        """no input at all: the data is a buffer"""
        return Block.forward(self, self.data)
