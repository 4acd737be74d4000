"""Texts of any length: what is kept of them, and what they take before they are run."""

from .beginning import beginning
from .choice import kept_of
from .estimate import needed, proof_too_large, refuse_flood, room

__all__ = ["beginning", "kept_of", "needed", "proof_too_large", "refuse_flood", "room"]
