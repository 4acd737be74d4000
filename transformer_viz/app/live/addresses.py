"""The addresses by which whoever runs the server asks it, and who may.

Also read by the process in front of several workers, so nothing here imports Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping

from ... import settings

METRICS, READY, HEALTH = "/metrics", "/ready", "/_stcore/health"
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def may_read_metrics(who: str, peer: str, headers: Mapping[str, str]) -> bool:
    """Whether a request may read the metrics.

    Args:
        who: the setting.
        peer: the address that asks.
        headers: of the request, names in lower case; one that came through a proxy is not of this
            machine, whatever its peer.
    """
    if who == settings.LOCAL:
        return settings.is_loopback(peer) and not any(name in headers for name in FORWARDED)
    return who == settings.ON
