"""Models that learn within seconds, each trained once in a session, whoever asks first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transformer_viz as tv
from tests.support import repeater, synthetic_pair
from tests.support.repeater import Snapshot
from transformer_viz.checkpoints.common.model import Model

#: A third of those of docs/demonstrations.md; by then the two layers are right in .99.
STEPS = 300


@pytest.fixture(scope="session")
def once(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str, Callable[[], Any]], Any]:
    """Makes a thing, or reads what another process of this session has made."""
    base = tmp_path_factory.getbasetemp()
    spread = hasattr(request.config, "workerinput")
    folder = base.parent if spread else base

    def made(name: str, make: Callable[[], Any]) -> Any:
        file = Path(folder) / f"{name}.pt"
        if not file.exists():
            part = base / f"{name}.part"
            torch.save(make(), part)
            part.replace(file)
        return torch.load(file, weights_only=False)

    return made


@pytest.fixture(scope="session")
def two_layers(once: Callable[..., Any]) -> list[Snapshot]:
    """W7 as it learns."""
    found: list[Snapshot] = once("two-layers", lambda: repeater.taught(steps=STEPS))
    return found


@pytest.fixture(scope="session")
def one_layer(once: Callable[..., Any]) -> list[Snapshot]:
    """Its control, which lacks the layer that could look at what the first has found."""
    found: list[Snapshot] = once(
        "one-layer", lambda: repeater.taught(layers=1, steps=STEPS, every=STEPS)
    )
    return found


@pytest.fixture(scope="session")
def translator(once: Callable[..., Any]) -> Model:
    """The translator between two made-up languages, D6: fewer steps than 1,200, and larger ones.

    Its best head has an error rate of .11 by then, and all words are right.
    """
    made = once("translator", lambda: synthetic_pair.translator(steps=450, rate=4e-3).module)
    return tv.load(made)
