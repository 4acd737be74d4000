"""What a box looks up in the state of its visit is looked up, not picked from a copy of it all.

A select box, a radio and a box for text of Streamlit's ask for the whole state, only to see whether
None stands under their own key. Its copy holds a value of every control, and that of a component is
a class made anew. A page has many of both: a tenth of what a class's pages computed was this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamlit.runtime.state.safe_session_state import SafeSessionState

_copied: Any = SafeSessionState.filtered_state


class Lookups(Mapping[str, Any]):
    """The state of a visit by its keys; what is not asked for is not read."""

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
    """Have all boxes of this process look up what they ask for."""
    state: Any = SafeSessionState
    state.filtered_state = property(Lookups)
