"""The reference Transformer: reads like the paper, knows nothing of being watched."""

from .config import ModelConfig
from .transformer import Transformer

__all__ = ["ModelConfig", "Transformer"]
