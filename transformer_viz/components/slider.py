"""A slider whose pictures follow while it is dragged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .blob import both_palettes, pack


@dataclass(frozen=True)
class Stop:
    """One value of a slider: as it is written in messages, on the screen, and as it is spoken."""

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
    """What ``slider.js`` draws.

    Args:
        name: of the slider, as it is written in messages.
        stops: its values from left to right.
        chosen: the value of the stop that it stands on.
        own: the value of the model itself, which is marked on the track.
        title: what is written above it; left out, its name.
        help: what moving it does, in a sentence.
        disabled: whether it cannot be moved.
        line: the address that live frames are asked of; empty where there are none, and each step
            is then told to Python.
        seq: the number of the newest step that Python has heard of; the browser counts on.

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
