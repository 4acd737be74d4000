"""Bundled models of the pages that are run: each is opened, and its laws are proved, once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import transformer_viz as tv
from transformer_viz import checkpoints


@cache
def _opened(name: str, load: Callable[..., tv.Model]) -> tv.Model:
    return load(name)


@pytest.fixture
def opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the same model wherever a page names a bundled one and nothing else."""
    load = checkpoints.load

    def once(thing: Any, *given: Any, **words: Any) -> tv.Model:
        plain = not given and not any(word is not None for word in words.values())
        known = plain and isinstance(thing, str) and thing in tv.available()
        return _opened(thing, load) if known else load(thing, *given, **words)

    for place in (tv, checkpoints):
        monkeypatch.setattr(place, "load", once)
