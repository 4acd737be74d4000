"""A trace made by hand: every number in it can be worked out on paper."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from transformer_viz.metrics import head_statistics
from transformer_viz.records import Attention, Produced, Report, Tokens, Trace
from transformer_viz.sites import MAPS, Site

SOURCE = Tokens(
    ids=(7, 5, 6, 5, 3),
    pieces=("▁the", "▁c", "at", "▁the", "</s>"),
    labels=("the", "c", "at", "the (2)", "</s>"),
    words=(0, 1, 1, 2, 3),
    special=(False, False, False, False, True),
)
TARGET = Tokens(
    ids=(2, 8, 9, 9),
    pieces=("<s>", "▁die", "▁Ka", "tze"),
    labels=("<s>", "die", "Ka", "tze"),
    words=(0, 1, 2, 2),
    special=(True, False, False, False),
)
LAYERS, HEADS = 2, 3


def softmax(scores: np.ndarray) -> np.ndarray:
    """Rows of scores [..., query, key] as weights; minus infinity becomes exactly 0."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attention(name: str, layer: int, rows: int, columns: int, temperature: float) -> Attention:
    """A block whose scores are a ramp, other in each layer and head; causal in the decoder."""
    stack, block = MAPS[name]
    query, key = np.mgrid[:rows, :columns]
    heads = np.arange(HEADS)[:, None, None]
    scores = np.cos(query * 1.3 + key * (1 + layer) + heads) * 2 / temperature
    if name == "decoder":
        scores = np.where(key > query, -np.inf, scores)
    return Attention(
        weights=softmax(scores).astype(np.float32),
        site=Site(stack, block, layer),
        query="source" if name == "encoder" else "target",
        key="target" if name == "decoder" else "source",
        scores=scores.astype(np.float32),
    )


def _heads(attentions: list[Attention]) -> pd.DataFrame:
    tables = []
    for one in attentions:
        table = head_statistics(one.weights)
        for place, word in enumerate(("stack", "block", "layer")):
            table.insert(place, word, getattr(one.site, word))
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def make_trace(temperature: float = 1.0, probability: float = 0.9) -> Trace:
    """A translation of four words by a model of two layers and three heads."""
    shapes = {"encoder": (5, 5), "decoder": (4, 4), "cross": (4, 5)}
    attentions = [
        attention(name, layer, *shape, temperature)
        for name, shape in shapes.items()
        for layer in range(LAYERS)
    ]
    thumbnails = {
        name: np.stack(
            [np.round(a.weights * 255).astype(np.uint8) for a in attentions if a.site.map == name]
        )
        for name in shapes
    }
    produced = Produced(
        ids=(8, 9, 9, 3),
        pieces=("▁die", "▁Ka", "tze", "</s>"),
        labels=("die", "Ka", "tze", "</s>"),
        probability=np.full(4, probability, np.float32),
        rank=np.array([1, 1, 1 if probability > 0.5 else 7, 1]),
    )
    return Trace(
        source=SOURCE,
        target=TARGET,
        produced=produced,
        heads=_heads(attentions),
        thumbnails=thumbnails,
        attentions=tuple(attentions),
        norms=pd.DataFrame(),
        gains={},
        residuals=pd.DataFrame(),
        positions={},
        logits=None,
        report=Report((), 0.0, None, {}),
        manifest={"model": "by hand"},
    )


@pytest.fixture(scope="session")
def clean() -> Trace:
    """The run as it was."""
    return make_trace()


@pytest.fixture(scope="session")
def warm() -> Trace:
    """The same run at temperature 3, which makes the third word improbable."""
    return make_trace(temperature=3.0, probability=0.25)
