"""The reference Transformer: reads like the paper, knows nothing of being watched.

May import nothing else of the package.
"""

from .config import ModelConfig
from .transformer import Transformer

__all__ = ["ModelConfig", "Transformer"]
