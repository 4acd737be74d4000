"""The reference Transformer: written like the paper, independent of the probe.

May import nothing else of the package.
"""

from .config import ModelConfig
from .transformer import Transformer

__all__ = ["ModelConfig", "Transformer"]
