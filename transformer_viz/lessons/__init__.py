"""Lesson content independent of any page: stations, questions from runs, glossary, worksheet.

Everything here is a pure function of traces; `pages.lessons` displays it.
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
