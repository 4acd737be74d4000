"""A trace made by hand: every number in it can be worked out on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Produced, Report, Tokens
from transformer_viz.metrics import head_statistics

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
WIDTH = 6  # features of a word's vector
VOCABULARY = 13


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


def table(rows: int) -> np.ndarray:
    """Sine and cosine by turns, slower from pair to pair (Vaswani et al. 2017, section 3.5)."""
    pair = np.arange(WIDTH) // 2
    angles = np.arange(rows)[:, None] / 10000 ** (2 * pair / WIDTH)
    return np.where(np.arange(WIDTH) % 2, np.cos(angles), np.sin(angles)).astype(np.float32)


def stream(tokens: int, steps: int, temperature: float) -> np.ndarray:
    """The residual stream after each sum, ``[step, token, feature]``: it grows step by step."""
    step, token, feature = np.mgrid[:steps, :tokens, :WIDTH]
    return np.cos(1.7 * feature + token) * (1 + 0.5 * step / temperature) + 0.1 * token


def _gain(site: int) -> tuple[np.ndarray, np.ndarray]:
    """A norm's gain and bias: ramps, other at each site."""
    ramp = np.arange(WIDTH)
    return (0.5 + 0.1 * ramp + site).astype(np.float32), (0.2 * ramp - site).astype(np.float32)


def normed(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A layer norm over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / x.std(axis=-1, keepdims=True) * gain + bias


def _places(stack: str) -> list[tuple[int, str]]:
    parts = ("self", "feed_forward") if stack == "encoder" else ("self", "cross", "feed_forward")
    return [(layer, part) for layer in range(LAYERS) for part in parts]


def _norms(stack: str, states: np.ndarray) -> tuple[pd.DataFrame, dict, np.ndarray]:
    """What pre-norms saw: their table, their gains, and what the last one gave."""
    names = [f"{stack}.layers.{layer}.{part}_norm" for layer, part in _places(stack)]
    layers = [*(layer for layer, _ in _places(stack)), -1]
    tables, gains = [], {}
    for number, (name, x) in enumerate(zip([*names, f"{stack}.norm"], states, strict=True)):
        gains[name] = _gain(number)
        out = normed(x, *gains[name])
        columns = {
            "mean": x.mean(axis=1),
            "std": x.std(axis=1),
            "rms": np.sqrt((x**2).mean(axis=1)),
            "input_norm": np.linalg.norm(x, axis=1),
            "output_norm": np.linalg.norm(out, axis=1),
            "output_mean": out.mean(axis=1),
        }
        place = {"site": name, "stack": stack, "layer": layers[number], "token": np.arange(len(x))}
        tables.append(pd.DataFrame(place | {k: v.astype(np.float32) for k, v in columns.items()}))
    return pd.concat(tables, ignore_index=True), gains, out


def _residuals(stack: str, states: np.ndarray) -> pd.DataFrame:
    tables = []
    for (layer, place), x in zip([(0, "embedding"), *_places(stack)], states, strict=True):
        words = {"stack": stack, "layer": layer, "place": place, "token": np.arange(len(x))}
        tables.append(pd.DataFrame(words | {"norm": np.linalg.norm(x, axis=1).astype(np.float32)}))
    return pd.concat(tables, ignore_index=True)


def _through(temperature: float) -> dict[str, Any]:
    """Norms, gains, residual sums and hidden states of both stacks."""
    norms, gains, residuals, hiddens = [], {}, [], {}
    for stack, tokens in (("encoder", 5), ("decoder", 4)):
        states = stream(tokens, len(_places(stack)) + 1, temperature)
        found, vectors, last = _norms(stack, states)
        norms.append(found)
        gains.update(vectors)
        residuals.append(_residuals(stack, states))
        entering = states[:: len(_places(stack)) // LAYERS][:LAYERS]
        hiddens[stack] = np.stack([*entering, last]).astype(np.float32)
    return {
        "norms": pd.concat(norms, ignore_index=True),
        "gains": gains,
        "residuals": pd.concat(residuals, ignore_index=True),
        "hiddens": hiddens,
    }


def _logits(ids: tuple[int, ...], probability: float) -> np.ndarray:
    """Logits that give each row's word its probability, and the others less by equal factors."""
    logits = np.tile(-0.5 * np.arange(VOCABULARY, dtype=np.float64), (len(ids), 1))
    for row, word in enumerate(ids):
        others = np.exp(np.delete(logits[row], word)).sum()
        logits[row, word] = np.log(others * probability / (1 - probability))
    return logits.astype(np.float32)


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
        positions={"table.encoder": table(5), "table.decoder": table(4)},
        logits=_logits(produced.ids, probability),
        report=Report((), 0.0, None, {}),
        manifest={"model": "by hand", "image": {"grid": [2, 2], "prefix": 1}},
        **_through(temperature),
    )


@pytest.fixture(scope="session")
def clean() -> Trace:
    """The run as it was."""
    return make_trace()


@pytest.fixture(scope="session")
def warm() -> Trace:
    """The same run at temperature 3, which makes the third word improbable."""
    return make_trace(temperature=3.0, probability=0.25)
