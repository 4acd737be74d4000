"""Puts what stands beside the package in a clone into the wheel, as its folder ``box``.

An editable install needs none of it: `transformer_viz/paths.py` finds the clone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BESIDE = ("app.py", ".streamlit", "pretrained")
#: Stored runs of the labs: 0.6 MB that a run of such a small model replaces in a moment.
LEFT_OUT = "pretrained/labs/*/example.safetensors"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the folder to a wheel that is copied to where it is installed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, before the wheel is written."""
        if version == "standard":
            root = Path(self.root)
            kept = {path for name in BESIDE for path in (root / name, *(root / name).rglob("*"))}
            names = (
                path.relative_to(root).as_posix()
                for path in sorted(kept - {*root.glob(LEFT_OUT)})
                if path.is_file() and "__pycache__" not in path.parts
            )
            build_data["force_include"] |= {n: f"transformer_viz/box/{n}" for n in names}
