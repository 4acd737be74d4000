"""Texts of any length: choice of captured data, and memory estimates before a run."""

from .beginning import beginning
from .choice import kept_of
from .estimate import needed, proof_too_large, refuse_flood, room

__all__ = ["beginning", "kept_of", "needed", "proof_too_large", "refuse_flood", "room"]
