"""Paths of the bundled models, the app's entry file and its settings."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "box"  # created by the wheel; absent in a clone

#: Folder that holds ``app.py``, ``.streamlit/config.toml`` and ``pretrained/``: the clone, or a
#: folder of the installed package.
ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
