"""How many files and connections a server may have open.

Each page is four of them: its websocket, and three of the event loop that Streamlit makes for each
visit and keeps for two minutes after it. Many systems begin a program with room for 1024, which
250 pages fill; then no page opens any more, and none is told why. The system allows more to whoever
asks.
"""

from __future__ import annotations

import sys
from contextlib import suppress

WANTED = (65_536, 10_240)  # the largest that the system grants


def make_room() -> int:
    """Ask for as many as the system grants; how many there may be, 0 where nothing tells."""
    if sys.platform == "win32":
        return 0
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in WANTED:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= most:
            break
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return soft
