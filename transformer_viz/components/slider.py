"""Slider whose pictures update while it is dragged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .blob import both_palettes, pack


@dataclass(frozen=True)
class Stop:
    """Value of a slider: as in messages, on the screen, and for a screen reader."""

    value: str
    label: str
    spoken: str


def slider_data(
    name: str,
    stops: Sequence[Stop],
    *,
    chosen: str,
    own: str,
    title: str = "",
    help: str = "",
    disabled: bool = False,
    line: str = "",
    seq: int = 0,
) -> bytes:
    """Return the data of ``slider.js``.

    Args:
        name: Name of the slider in messages.
        stops: Its values from left to right.
        chosen: The value of the current stop.
        own: The model's value without an edit, marked on the track.
        title: Title above it; if omitted, its name.
        help: Effect of the slider, in a sentence.
        disabled: True if it cannot be moved.
        line: URL of live frames; if empty, each step is sent to Python.
        seq: Number of the newest step received by Python; the browser continues from it.

    Raises:
        ValueError: ``chosen`` or ``own`` is no stop of this slider.
    """
    values = [stop.value for stop in stops]
    for value in (chosen, own):
        if value not in values:
            raise ValueError(f"The slider {name} has no stop {value!r}; it has {values}.")
    header = {
        "part": f"slider-{name}",
        "seq": seq,
        "colours": both_palettes(),
        "name": name,
        "title": title or name,
        "values": values,
        "labels": [stop.label for stop in stops],
        "spoken": [stop.spoken for stop in stops],
        "chosen": values.index(chosen),
        "own": values.index(own),
        "help": help,
        "disabled": disabled,
        "line": line,
    }
    return pack(header)
