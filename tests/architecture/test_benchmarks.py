"""Every benchmark can be imported: those that run now and then must not fall behind."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benchmarks


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
)
def test_a_benchmark_can_be_imported(name: str) -> None:
    assert importlib.import_module(f"benchmarks.{name}").__doc__
