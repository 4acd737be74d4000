"""The one engine of this server: the pages run on it, and who watches the server asks it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ... import settings

if TYPE_CHECKING:
    from ..engine.engine import Engine

_engines: dict[tuple[str, str], Engine] = {}
_lock = threading.Lock()


def server_engine() -> Engine:
    """The engine that shows the models of the settings, made when it is first asked for.

    Raises:
        ValueError: a setting that cannot have its value; says what it may be.
    """
    # Imported here: the server answers while its pages are still imported.
    from ..engine.engine import Engine

    key = (settings.MODEL.text, settings.MODELS.text)
    with _lock:
        if key not in _engines:
            _engines[key] = Engine(*key)
        return _engines[key]
