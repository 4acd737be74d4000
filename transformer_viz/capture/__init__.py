"""The probe: watches and edits the forward pass of any `nn.Module`, and leaves it as it was.

May import model and core; needs to know nothing of checkpoints or text.
"""

from .probe import probe
from .run import AttentionRecord, NormRecord, ResidualRecord, Run, Want

__all__ = ["AttentionRecord", "NormRecord", "ResidualRecord", "Run", "Want", "probe"]
