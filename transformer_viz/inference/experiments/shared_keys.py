"""Output of a model whose attentions share one matrix for two of the three projections."""

from __future__ import annotations

from copy import deepcopy

import torch

from ...checkpoints.common.model import Model
from ...checkpoints.common.native import wrap
from ...model.transformer import Attention, Transformer
from ..generation import translate

PAIRS = ("none", "query-key", "key-value")


def written(model: Model, source: str, pair: str) -> str:
    """Return the model's greedy output while all its self-attentions share two projections.

    ``query-key``: keys use the query matrix; ``key-value``: values use the key matrix; ``none``: no
    change. A copy is changed, not the model.

    Raises:
        ValueError: Another kind of module, or projections of different widths.
    """
    return translate(tie_query_key(model, pair), source)[0].text


def tie_query_key(model: Model, pair: str) -> Model:
    """Return a copy of a model whose self-attentions share two projections; see :func:`written`."""
    if pair not in PAIRS:
        raise ValueError(f"There is no pair {pair!r}; there are {', '.join(PAIRS)}.")
    if pair == "none":
        return model
    if not isinstance(model.module, Transformer) or model.kind == "encoder-only":
        raise ValueError(
            f"{model.name} is built of other parts than the Transformer of this project, or writes "
            "nothing; choose en-de or another model of the box that writes."
        )
    copy = deepcopy(model.module)
    for name, part in copy.named_modules():
        if isinstance(part, Attention) and name.endswith("self_attention"):
            _share(part, pair)
    return wrap(copy, model.tokenizer, model.name)


def _share(part: Attention, pair: str) -> None:
    given, taking = (part.query, part.key) if pair == "query-key" else (part.key, part.value)
    if given is None or taking is None or given.weight.shape != taking.weight.shape:
        raise ValueError("These projections are missing or of different widths: nothing to share.")
    with torch.no_grad():
        taking.load_state_dict(given.state_dict())
