"""What is kept of an attention in the place of its matrix: queries, keys, and each row's log-sum.

May import core and the rest of capture below the handlers. `factors.py` collects them row block by
row block, `bias.py` and `edges.py` bring biases and masks into little space, `written_out.py` is
the road of a model that writes its matrix itself.
"""

from .factors import Factors, Keeper, fits
from .written_out import Draft, confirmed

__all__ = ["Draft", "Factors", "Keeper", "confirmed", "fits"]
