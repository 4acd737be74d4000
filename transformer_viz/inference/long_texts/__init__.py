"""Texts of any length: what is kept of them, and what they take before they are run."""

from .estimate import needed, refuse_flood, room

__all__ = ["needed", "refuse_flood", "room"]
