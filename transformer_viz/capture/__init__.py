"""The probe: captures and edits the forward pass of any `nn.Module`, and leaves it unchanged.

May import model and core; independent of checkpoints and text. `README.md` describes the steps from
a torch call to a head's statistics, and from an edit to the numbers.
"""

from typing import TYPE_CHECKING

from ..core.renamed import renamed
from .probe import probe
from .records import (
    OLD_NAMES,
    AttentionRecord,
    Capture,
    CaptureRequest,
    NormRecord,
    ResidualRecord,
)

__all__ = ["AttentionRecord", "Capture", "CaptureRequest", "NormRecord", "ResidualRecord", "probe"]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, OLD_NAMES)
