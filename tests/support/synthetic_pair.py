"""D6: two made-up languages whose word alignment is known by how they are made, and their model.

The source says *determiner adjectives noun, verb, determiner adjectives noun*, perhaps an adverb
and a phrase with a preposition. The target has a word of its own for each (a lexicon), says nouns
before their adjectives, and the verb last. So every word has exactly one partner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.metrics.alignment.error_rate import Gold
from transformer_viz.model import Transformer
from transformer_viz.model.config import ModelConfig

PAD, BOS, EOS = 0, 1, 2
#: How many words there are of each kind; a kind's words follow those of the kind before.
KINDS = {"determiner": 4, "adjective": 16, "noun": 32, "verb": 20, "adverb": 8, "preposition": 6}
VOCABULARY = 3 + sum(KINDS.values())
STEPS, BATCH, RATE = 1200, 64, 2e-3


@dataclass(frozen=True)
class Pair:
    """Source ids with the end mark, target words without marks, and who translates whom."""

    source: list[int]
    target: list[int]
    links: frozenset[tuple[int, int]]

    @property
    def gold(self) -> Gold:
        """All links are sure."""
        return Gold(self.links, self.links)


def pairs(count: int, seed: int) -> list[Pair]:
    """Sentences drawn at random; the lexicon is the same for every seed."""
    return _drawn(count, np.random.default_rng(seed))


def _drawn(count: int, generator: np.random.Generator) -> list[Pair]:
    return [_pair(generator) for _ in range(count)]


@cache
def lexicon() -> tuple[int, ...]:
    """The target word of each source word; special ids stand for themselves."""
    order = np.random.default_rng(0).permutation(VOCABULARY - 3) + 3
    return (PAD, BOS, EOS, *map(int, order))


def _pair(generator: np.random.Generator) -> Pair:
    source: list[int] = []

    def say(kind: str) -> int:
        """One more word of the source; gives its place."""
        first = 3 + sum(list(KINDS.values())[: list(KINDS).index(kind)])
        source.append(first + int(generator.integers(KINDS[kind])))
        return len(source) - 1

    def phrase() -> list[int]:
        """A noun with what stands before it, in the order of the target."""
        determiner = [say("determiner")]
        adjectives = [say("adjective") for _ in range(generator.integers(3))]
        return [*determiner, say("noun"), *adjectives]

    subject, verb, thing = phrase(), [say("verb")], phrase()
    adverb = [say("adverb")] if generator.random() < 0.5 else []
    place = [say("preposition"), *phrase()] if generator.random() < 0.5 else []
    order = [*subject, *adverb, *place, *thing, *verb]
    target = [lexicon()[source[place]] for place in order]
    links = frozenset((s, t) for t, s in enumerate(order))
    return Pair([*source, EOS], target, links)


def _padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def module(seed: int = 0) -> Transformer:
    """2 + 2 layers of 4 heads, width 64, pre-norm: the reference Transformer with fresh weights."""
    torch.manual_seed(seed)
    return Transformer(
        ModelConfig(
            d_model=64,
            heads=4,
            d_ff=128,
            encoder_layers=2,
            decoder_layers=2,
            source_vocab=VOCABULARY,
            target_vocab=VOCABULARY,
            max_positions=64,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            dropout=0.0,
        )
    )


@cache
def translator(seed: int = 0, steps: int = STEPS, rate: float = RATE) -> Model:
    """The model after its training: a minute or two on one core. Kept for the process."""
    model, generator = module(seed), np.random.default_rng(seed + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98))
    for step in range(steps):
        batch = _drawn(BATCH, generator)
        source = _padded([pair.source for pair in batch])
        target = _padded([[BOS, *pair.target, EOS] for pair in batch])
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 100) * min(1.0, 2 * (1 - step / steps))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return tv.load(model.eval())


def as_ids(some: list[Pair]) -> list[tuple[list[int], list[int]]]:
    """(source, decoder's input) pairs, as `tv.trace` takes them."""
    return [(pair.source, [BOS, *pair.target]) for pair in some]


def accuracy(model: Model, some: list[Pair]) -> float:
    """The share of target words, end mark included, that are the most probable ones."""
    source = _padded([pair.source for pair in some])
    target = _padded([[BOS, *pair.target, EOS] for pair in some])
    with torch.inference_mode():
        said = model.module(source, target[:, :-1]).argmax(-1)
    asked = target[:, 1:] != PAD
    return float((said == target[:, 1:])[asked].float().mean())
