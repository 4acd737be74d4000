"""Files that are whole or not there at all."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a whole file or nothing."""
    temporary = path.with_suffix(".part")
    temporary.write_bytes(content)
    os.replace(temporary, path)
