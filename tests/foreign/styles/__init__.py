"""Foreign styles: importing this folder enters all of them into :data:`STYLES`."""

import importlib
import pkgutil

from .base import STYLES, Style

for found in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{found.name}")

__all__ = ["STYLES", "Style"]
