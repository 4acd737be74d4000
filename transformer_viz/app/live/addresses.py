"""The addresses by which whoever runs the server asks it, and who may.

Also read by the process in front of several workers, so nothing here imports Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping

from ... import settings
from ...reach import FORWARDED, is_loopback, is_own_name

METRICS, READY, HEALTH = "/metrics", "/ready", "/_stcore/health"


def may_read_metrics(who: str, peer: str, headers: Mapping[str, str]) -> bool:
    """Whether a request may read the metrics.

    Args:
        who: the setting.
        peer: the address that asks.
        headers: of the request, names in lower case; one that came through a proxy is not of this
            machine, whatever its peer, and neither is one that asks for another host.
    """
    if who == settings.LOCAL:
        is_own = is_loopback(peer) and is_own_name(headers.get("host", "localhost"))
        return is_own and not any(name in headers for name in FORWARDED)
    return who == settings.ON
