"""Addresses for monitoring the server, and access to them.

Also imported by the balancer process, so nothing here imports Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping

from ... import settings
from ...reach import FORWARDED, is_loopback, is_own_name

METRICS, READY, HEALTH = "/metrics", "/ready", "/_stcore/health"


def may_read_metrics(who: str, peer: str, headers: Mapping[str, str]) -> bool:
    """Return True if a request may read the metrics.

    Args:
        who: Value of the setting.
        peer: Address of the client.
        headers: Headers of the request, names in lower case. A proxied request is not local,
            whatever its peer, and neither is one for another host.
    """
    if who == settings.LOCAL:
        is_own = is_loopback(peer) and is_own_name(headers.get("host", "localhost"))
        return is_own and not any(name in headers for name in FORWARDED)
    return who == settings.ON
