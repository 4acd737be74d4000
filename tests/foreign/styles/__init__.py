"""Foreign styles: importing this folder enters all of them into :data:`STYLES`."""

from . import (
    embeddings,
    heads,
    keys,
    layouts,
    masks,
    nothing,
    passes,
    precision,
    queries,
    running,
    scores,
    sites,
    softmaxes,
    training,
)
from .base import STYLES, Style

__all__ = [
    "STYLES",
    "Style",
    "embeddings",
    "heads",
    "keys",
    "layouts",
    "masks",
    "nothing",
    "passes",
    "precision",
    "queries",
    "running",
    "scores",
    "sites",
    "softmaxes",
    "training",
]
