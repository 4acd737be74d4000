"""Compact form of an attention map: queries, keys, and each row's log-sum.

May import core and the rest of capture below the handlers. `factors.py` collects them by row
blocks, `bias.py` and `edges.py` compress biases and masks, `written_out.py` handles models that
compute their matrix explicitly.
"""

from .factors import Factors, Keeper, fits
from .written_out import Draft, confirmed

__all__ = ["Draft", "Factors", "Keeper", "confirmed", "fits"]
