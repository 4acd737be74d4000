"""Permissions of users in an environment, as text: for ``--settings`` and the docs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import reach, settings


def permissions(around: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the permissions of an environment: paths, uploads, Hub, token, shares and metrics.

    Args:
        around: Environment to evaluate; by default that of this process.
    """
    roots, hub = settings.open_roots(around), settings.HUB.read(around)
    is_alone = not reach.reason(around)
    tokens = {settings.ANY: "the owner's" if is_alone else "none", settings.OFF: "none"}
    listed = "the owner's, for the listed ids"
    held = [one for one in settings.SHARES if one.read(around) != "0"]
    shares = settings.ON if len(held) == len(settings.SHARES) else settings.OFF
    if 0 < len(held) < len(settings.SHARES):
        shares = ", ".join(one.name for one in held)
    return {
        "paths": f"below {os.pathsep.join(roots)}" if roots else settings.OFF,
        "uploads": settings.UPLOADS.read(around),
        "Hub": hub,
        "token": tokens.get(hub, listed),
        "shares": shares,
        "metrics": settings.METRICS.read(around),
    }
