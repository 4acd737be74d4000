"""What runs now and then must not fall behind: each of these modules can be imported."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks
import tests.soak
import training.tables


def test_measurements_can_be_imported() -> None:
    for folder in (benchmarks, tests.soak, training.tables):
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            assert importlib.import_module(module.name).__doc__, module.name
