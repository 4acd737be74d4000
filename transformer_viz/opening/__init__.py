"""Untrusted checkpoints and traces, opened in a separate process.

Names are imported on first use: the fork server needs no torch here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy

if TYPE_CHECKING:
    from .apart import open_apart, propose_apart, report_apart

__all__ = ["open_apart", "propose_apart", "report_apart"]

__getattr__ = lazy(__name__, dict.fromkeys(__all__, ".apart"))
