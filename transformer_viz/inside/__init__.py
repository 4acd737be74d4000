"""Step inside a head: every number between a word's embedding and the next layer, from one run."""

from .chain import step_inside
from .opening import terms

__all__ = ["step_inside", "terms"]
