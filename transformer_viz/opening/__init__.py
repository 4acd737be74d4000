"""Checkpoints and traces that strangers bring, opened in a process of their own.

The name is fetched when first used: to begin the process that begins others needs no torch here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy

if TYPE_CHECKING:
    from .apart import open_apart, propose_apart, report_apart

__all__ = ["open_apart", "propose_apart", "report_apart"]

__getattr__ = lazy(__name__, dict.fromkeys(__all__, ".apart"))
