"""Open a checkpoint and compare what the model says of itself, or the error, with what is expected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.provenance import ORIGINS

NOTHING: Mapping[str, Any] = {}


def opens(
    path: object,
    words: Mapping[str, Any] = NOTHING,
    *,
    model: Mapping[str, Any] = NOTHING,
    config: Mapping[str, Any] = NOTHING,
    origin: Mapping[str, str] = NOTHING,
) -> tv.Model:
    """Return the model, after comparing its attributes, its config and its config's origins.

    Args:
        path: a file, a folder or a module.
        words: overrides by name.
        model: expected attributes of the model.
        config: expected values of ``model.config``.
        origin: expected values of ``model.provenance``.
    """
    found = tv.load(path, **({"device": "cpu"} | dict(words)))
    assert {name: getattr(found, name) for name in model} == dict(model), (path, words)
    assert {word: found.config[word] for word in config} == dict(config), (path, words)
    assert {word: found.provenance[word] for word in origin} == dict(origin), (path, words)
    assert found.provenance.keys() == found.config.keys(), (path, words)
    assert set(found.provenance.values()) <= set(ORIGINS), (path, words)
    return found


def refused(path: object, message: str, **words: Any) -> None:
    """Assert that opening raises one sentence that matches ``message``."""
    try:
        tv.load(path, **({"device": "cpu"} | words))
    except CheckpointError as error:
        said = str(error)
    else:
        said = "it opened"
    assert re.search(message, said), f"{path}, {words}: expected {message!r}, got {said!r}"
    assert "\n" not in said and said[-1] in ".?!", said
