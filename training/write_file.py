"""Atomic file writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from transformer_viz.checkpoints.common.bundled import CONFIG


def write(path: Path, content: bytes) -> None:
    """Write a file atomically: completely or not at all."""
    temporary = path.with_suffix(".part")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def note(out: Path, **fields: Any) -> None:
    """Write further fields into a model's config.json."""
    known = json.loads((out / CONFIG).read_text(encoding="utf-8"))
    write(out / CONFIG, (json.dumps(known | fields, indent=2) + "\n").encode())
