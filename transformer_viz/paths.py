"""Where the models in the box stand, and the app's first file with its settings."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "box"  # the wheel puts it there; a clone has no such folder

#: The folder that holds ``app.py``, ``.streamlit/config.toml`` and ``pretrained/``: the clone, or a
#: folder of the installed package.
ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
