"""The engine of this server, shared by its pages and its monitoring."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ... import settings

if TYPE_CHECKING:
    from ..engine.engine import Engine

_engines: dict[tuple[str, str], Engine] = {}
_lock = threading.Lock()


def server_engine() -> Engine:
    """Return the engine for the models of the settings, created at the first call.

    Raises:
        ValueError: A setting has an invalid value; the message gives the valid ones.
    """
    # Imported here: the server answers while its pages are still imported.
    from ..engine.engine import Engine

    key = (settings.MODEL.text, settings.MODELS.text)
    with _lock:
        if key not in _engines:
            _engines[key] = Engine(*key)
        return _engines[key]
