"""Open a checkpoint and compare what the model says of itself, or the error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.provenance import ORIGINS

NOTHING: Mapping[str, Any] = {}


def opens(
    path: object,
    words: Mapping[str, Any] = NOTHING,
    *,
    origin: Mapping[str, str] = NOTHING,
    **expected: Any,
) -> tv.Model:
    """Return the model, after comparing what it says of itself.

    Args:
        path: a file, a folder or a module.
        words: overrides by name.
        origin: expected values of ``model.provenance``.
        expected: attributes of the model, values of its config, and ``ids`` (pad, bos, eos).
    """
    model = tv.load(path, **({"device": "cpu"} | dict(words)))
    attributes = {name: getattr(model, name) for name in expected if hasattr(model, name)}
    attributes["ids"] = (model.pad_id, model.bos_id, model.eos_id)
    for name, value in expected.items():
        found = [told[name] for told in (attributes, model.config) if name in told]
        assert found and all(one == value for one in found), (path, words, name, found)
    assert {word: model.provenance[word] for word in origin} == dict(origin), (path, words)
    assert model.provenance.keys() == model.config.keys(), (path, words)
    assert set(model.provenance.values()) <= set(ORIGINS), (path, words)
    return model


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


def reworded(folder: Path, config: str = "", **changes: Any) -> Path:
    """Write other words of config.json, as it is or from a text; None removes one."""
    path = folder / "config.json"
    words = json.loads(config or path.read_text()) | changes
    path.write_text(json.dumps({word: v for word, v in words.items() if v is not None}))
    return folder
