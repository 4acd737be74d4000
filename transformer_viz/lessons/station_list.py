"""The ten stations, in the order of the lesson."""

from __future__ import annotations

from .lesson_types import Station
from .stations.s01_tokens import STATION as TOKENS
from .stations.s02_looking import STATION as LOOKING
from .stations.s03_query_key_value import STATION as QUERY_KEY_VALUE
from .stations.s04_temperature import STATION as TEMPERATURE
from .stations.s05_heads import STATION as HEADS
from .stations.s06_order import STATION as ORDER
from .stations.s07_norms import STATION as NORMS
from .stations.s08_masks import STATION as MASKS
from .stations.s09_crossing import STATION as CROSSING
from .stations.s10_limits import STATION as LIMITS

STATIONS: tuple[Station, ...] = (
    TOKENS,
    LOOKING,
    QUERY_KEY_VALUE,
    TEMPERATURE,
    HEADS,
    ORDER,
    NORMS,
    MASKS,
    CROSSING,
    LIMITS,
)


def numbered(station: int) -> Station | None:
    """Return the station of a number from 1; None for 0 and for numbers out of range."""
    return STATIONS[station - 1] if 1 <= station <= len(STATIONS) else None
