"""How the stream of tokens begins: look-ups, pictures, numbers, nothing at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import TOKENS, WIDTH, Attention, Block, ids, style

VOCABULARY = 50


class Read(Block):
    """A block behind an embedding: ``embed`` is the style."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCABULARY, WIDTH))
        self.places = nn.Parameter(torch.randn(TOKENS, WIDTH) / 3)

    def embed(self, given: Any) -> Tensor:
        return F.embedding(given, self.table)

    def forward(self, given: Any) -> Tensor:
        return super().forward(self.embed(given) + self.places)


@style(inputs=ids)
class EmbeddingModule(Block):
    """nn.Embedding: the usual one"""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, given: Tensor) -> Tensor:
        return super().forward(self.table(given))


@style(inputs=ids)
class EmbeddingFunction(Read):
    """F.embedding"""


@style(inputs=ids, row="S1")
class EmbeddingIndex(Read):
    """W[ids], as TransformerLens has it"""

    def embed(self, given: Tensor) -> Tensor:
        return self.table[given]


@style(inputs=ids, row="S1")
class EmbeddingIndexTensor(Read):
    """W[ids, :], the weight of an nn.Embedding"""

    def embed(self, given: Tensor) -> Tensor:
        return self.table[given, :]


@style(inputs=ids)
class EmbeddingIndexSdpa(EmbeddingIndex):
    """W[ids] before SDPA"""

    def attend(self, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(x)))


@style(inputs=ids, row="S1")
class EmbeddingOneHot(Read):
    """F.one_hot(ids).float() @ W"""

    def embed(self, given: Tensor) -> Tensor:
        return F.one_hot(given, VOCABULARY).float() @ self.table


@style(inputs=ids, row="S1")
class EmbeddingEye(Read):
    """torch.eye(n)[ids] @ W"""

    def embed(self, given: Tensor) -> Tensor:
        return torch.eye(VOCABULARY)[given] @ self.table


@style(inputs=ids, row="S1")
class EmbeddingSelect(Read):
    """W.index_select(0, ids)"""

    def embed(self, given: Tensor) -> Tensor:
        return self.table.index_select(0, given.flatten()).view(*given.shape, -1)


@style(inputs=ids, row="S1")
class EmbeddingGather(Read):
    """torch.gather over an expanded table"""

    def embed(self, given: Tensor) -> Tensor:
        wide = self.table.expand(len(given), -1, -1)
        return wide.gather(1, given[..., None].expand(-1, -1, WIDTH))


@style(inputs=ids, row="S1")
class EmbeddingScatter(Read):
    """zeros.scatter_(-1, ids, 1) through a linear layer"""

    def embed(self, given: Tensor) -> Tensor:
        empty = torch.zeros(*given.shape, VOCABULARY)
        return F.linear(empty.scatter_(-1, given[..., None], 1.0), self.table.T)


@style(inputs=lambda: (torch.randint(VOCABULARY, (2, TOKENS, 3)),), row="S1")
class EmbeddingBag(Block):
    """nn.EmbeddingBag: each token is a bag of three"""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(VOCABULARY, WIDTH)

    def forward(self, given: Tensor) -> Tensor:
        bags = self.bag(given.flatten(0, 1)) * 2
        return super().forward(bags.view(*given.shape[:2], -1))


@style(inputs=lambda: (torch.randint(256, (2, 3, 12, 12), dtype=torch.uint8),), row="S1", key=2)
class PictureBytes(Block):
    """a picture of uint8, divided inside, in patches"""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)

    def forward(self, given: Tensor) -> Tensor:
        return super().forward(self.patches(given.float() / 64).flatten(2).mT)


@style(inputs=lambda: (torch.randn(2, 3, 12, 12),))
class PictureFloats(Block):
    """the same of floats"""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)

    def forward(self, given: Tensor) -> Tensor:
        return super().forward(self.patches(given * 2).flatten(2).mT)


@style(inputs=lambda: (torch.randint(9, (2, TOKENS, 5)),), row="S1")
class TableOfIntegers(Block):
    """integer features: x.float() through a linear layer"""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(5, WIDTH)

    def forward(self, given: Tensor) -> Tensor:
        return super().forward(self.read(given.float()) / 4)


@style(Attention("hqk"), inputs=lambda: (torch.randn(TOKENS),), row="S1")
class SeriesOneDimension(Block):
    """a series of numbers [token]"""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(1, WIDTH)

    def forward(self, given: Tensor) -> Tensor:
        x = self.read(given[:, None]) * 2
        q, k, v = (w(x).view(TOKENS, 4, 8).transpose(0, 1) for w in (self.wq, self.wk, self.wv))
        out = (self.weigh(q, k) @ v).transpose(0, 1).reshape(TOKENS, WIDTH)
        return x + self.wo(out)


@style(inputs=lambda: (torch.randn(2 * TOKENS),), row="S1")
class SeriesCutUp(Block):
    """a long series of one dimension, cut into items and steps"""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(1, WIDTH)

    def forward(self, given: Tensor) -> Tensor:
        return super().forward(self.read(given.view(2, TOKENS, 1)) * 2)


@style(inputs=lambda: (torch.randint(256, (2, TOKENS)),), row="S1")
class BitsOfNumbers(Block):
    """numbers as their bits"""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(8, WIDTH)

    def forward(self, given: Tensor) -> Tensor:
        bits = (given[..., None] >> torch.arange(8)) & 1
        return super().forward(self.read(bits * 2.0 - 1))


@dataclass
class Batch:
    tokens: Tensor


@style(inputs=lambda: (Batch(torch.randn(2, TOKENS, WIDTH)),))
class InputInObject(Block):
    """the input is an object of the user's own"""

    def forward(self, given: Batch) -> Tensor:
        return super().forward(given.tokens)


@style(inputs=lambda: ({"tokens": torch.randn(2, TOKENS, WIDTH)},))
class InputInDictionary(Block):
    """the input is a dictionary"""

    def forward(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"out": super().forward(given["tokens"])}


@style(inputs=lambda: (), row="S1")
class InputInside(Block):
    """no input at all: the data is a buffer"""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("data", torch.randn(2, TOKENS, WIDTH))

    def forward(self) -> Tensor:
        return super().forward(self.get_buffer("data"))


@style(inputs=lambda: ([[1, 2, 3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3, 2, 1]],), row="S1")
class InputNumbersOfPython(Read):
    """lists of Python's numbers, made a tensor inside, W[ids]"""

    def embed(self, given: Any) -> Tensor:
        return self.table[torch.tensor(given)]


@style(inputs=lambda: (torch.randn(2, TOKENS, WIDTH).numpy(),), row="S1")
class InputOfNumpy(Block):
    """numpy, made a tensor inside"""

    def forward(self, given: Any) -> Tensor:
        return super().forward(torch.from_numpy(given))


def main_input(module: nn.Module, given: Tensor) -> Any:
    return module(tokens=given)


@style(run=main_input)
class InputByKeyword(Block):
    """called with a keyword"""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens)
