"""Walkthrough of a head: all numbers between a token's embedding and the next layer, from one run.

May import inference, checkpoints, capture and everything below them.
"""

from .chain import step_inside
from .open_number import terms

__all__ = ["step_inside", "terms"]
