"""The two sliders of an attention site: stops, displayed values and resulting edits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.editing import edit_controls
from ..core.editing.edit_controls import Place
from ..core.errors import short
from ..core.interventions import Intervention
from ..i18n import mark, say
from .slider import Stop

OFF = mark("off")
HOTTEST = 1e38  # largest divisor of single-precision scores
NEWEST = 2**53  # a browser counts its steps no further
#: Temperatures from hard (0) to 5, evenly spaced in their logarithm, with 1 in the middle.
TEMPERATURES = (
    *(0.0, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    1.0,
    *(1.1, 1.25, 1.4, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
)
WINDOWS: tuple[int | None, ...] = (*range(11), 12, 16, 24, 32, None)


@dataclass(frozen=True)
class Slider:
    """Slider: parsing and formatting of its values, and its edit.

    Attributes:
        name, title, help: Name in messages, title and help text.
        own: Value without an edit.
        stops: Returns the stops, with the shown value among them.
        read: Parses text to a value, or raises a ValueError that describes valid input.
        write: Formats a value as text.
        shown: Returns the value at a site.
        moved: Returns the edits with another value; `frames.frame` calls it at each step.

    ``shown`` and ``moved`` are functions of `core/editing/edit_controls.py`.
    """

    name: str
    title: str
    help: str
    own: Any
    stops: Callable[[Any], list[Stop]]
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    shown: Callable[[Intervention, Place], Any]
    moved: Callable[[Intervention, Place, Any], Intervention]


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= HOTTEST:
        raise ValueError(f"A temperature is a number from 0 to {HOTTEST:g}; got {text[:20]!r}.")
    return value


def _temperatures(shown: float) -> list[Stop]:
    return [_warm(value) for value in sorted({*TEMPERATURES, shown})]


def _warm(value: float) -> Stop:
    label = say("hard") if value == 0 else f"{value:g}"
    return Stop(_written(value), label, label)


def _written(value: float) -> str:
    return repr(float(value))


def _window(text: str) -> int | None:
    if text == OFF:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise ValueError(f"A window is a whole number from 0, or off; got {text[:20]!r}.")
    return int(text)


def _windows(shown: int | None) -> list[Stop]:
    numbers = sorted(value for value in {*WINDOWS, shown} if value is not None)
    return [_wide(value) for value in (*numbers, None)]


def _wide(value: int | None) -> Stop:
    if value is None:
        return Stop(OFF, say(OFF), say("off, all words"))
    return Stop(str(value), str(value), say("{count} to each side", count=value))


TEMPERATURE = Slider(
    "temperature",
    mark("temperature"),
    mark(
        "Divides the scores before the softmax: below 1 sharper, above 1 flatter, “hard” looks at "
        "one word only."
    ),
    own=1.0,
    stops=_temperatures,
    read=_temperature,
    write=_written,
    shown=edit_controls.temperature,
    moved=edit_controls.set_temperature,
)
WINDOW = Slider(
    "window",
    mark("window"),
    mark("How many tokens to each side a word may look at."),
    own=None,
    stops=_windows,
    read=_window,
    write=lambda value: OFF if value is None else str(value),
    shown=edit_controls.window,
    moved=edit_controls.set_window,
)
SLIDERS = {slider.name: slider for slider in (TEMPERATURE, WINDOW)}


def asked(query: Mapping[str, str]) -> tuple[Slider, Any, int]:
    """Parse the slider, its value and the step number from ``{"temperature": "2", "seq": "7"}``.

    Raises:
        ValueError: No step of a slider; the message describes a valid one.
    """
    seq, names = query.get("seq", ""), [name for name in SLIDERS if name in query]
    if len(names) != 1 or not (seq.isascii() and seq.isdecimal() and len(seq) < 16):
        raise ValueError(
            f"A frame needs seq, a whole number, and one of {', '.join(SLIDERS)}; got "
            f"{short(', '.join(sorted(query)) or 'nothing')}."
        )
    slider = SLIDERS[names[0]]
    return slider, slider.read(query[slider.name]), int(seq)
