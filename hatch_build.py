"""Puts what stands beside the package in a clone into the wheel, as its folder ``box``.

An editable install needs none of it: `transformer_viz/paths.py` finds the clone.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BESIDE = ("app.py", ".streamlit", "pretrained")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the folder to a wheel that is copied to where it is installed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, before the wheel is written."""
        if version == "standard":
            build_data["force_include"] |= {n: f"transformer_viz/box/{n}" for n in BESIDE}
