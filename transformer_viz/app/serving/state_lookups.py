"""Single look-ups in the session state, in place of copies of the whole state.

Streamlit's select box, radio and text input request the whole state, only to check if None is
stored under their key. The copy holds the value of every control, and each component's value is a
newly created class. With many of both on a page, this was a tenth of the computation for a class's
pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamlit.runtime.state.safe_session_state import SafeSessionState

_copied: Any = SafeSessionState.filtered_state


class Lookups(Mapping[str, Any]):
    """Session state by key; values are read on request only."""

    def __init__(self, state: SafeSessionState) -> None:
        self._state = state

    def __getitem__(self, key: str) -> Any:
        with self._state._lock:
            return self._state._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_copied.fget(self._state))

    def __len__(self) -> int:
        return len(_copied.fget(self._state))


def look_up() -> None:
    """Make all inputs of this process look up single keys."""
    state: Any = SafeSessionState
    state.filtered_state = property(Lookups)
