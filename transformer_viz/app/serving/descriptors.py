"""Limit of open files and connections of a server.

Each page takes four of them: its websocket, and three of an event loop. Streamlit creates that for
each session and keeps it for two minutes after it. Many systems start a process with a limit of
1024, which 250 pages reach; then no page opens any more, without an error message. A process may
raise the limit.
"""

from __future__ import annotations

import sys
from contextlib import suppress

WANTED = (65_536, 10_240)  # the largest that the system grants


def make_room() -> int:
    """Raise the limit as far as the system allows; return the limit, or 0 if it is unknown."""
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
