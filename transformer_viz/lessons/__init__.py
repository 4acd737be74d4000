"""The lesson apart from any page: stations, questions answered by runs, glossary, worksheet.

Everything here is a pure function of traces; `pages.lessons` shows it.
"""

from .lesson_types import Ask, Exercise, Hidden, Notes, NotHere, Saying, Seen, Spot, Station
from .station_list import STATIONS, numbered

__all__ = [
    "STATIONS",
    "Ask",
    "Exercise",
    "Hidden",
    "NotHere",
    "Notes",
    "Saying",
    "Seen",
    "Spot",
    "Station",
    "numbered",
]
