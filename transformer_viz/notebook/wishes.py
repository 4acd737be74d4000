"""Requests of the browser to a widget, by name; their values are untrusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..components.edit_sliders import NEWEST, SLIDERS
from ..components.lines import MOST_HEADS
from ..components.tokens import chip_sides, map_chips
from ..core.editing import edit_controls
from ..core.editing.edit_controls import HALF, HEAD_STATES, SCOPES
from ..core.errors import short
from ..core.interventions import Intervention
from ..core.palette import RAMPS
from ..i18n import say
from ..metrics.attention.map_cells import cells
from .exploration import Exploration

VIEWS = ("map", "lines", "qk")
COMPARES = ("now", "before", "difference")
CLICKS = ("choose", "hide")
#: Display options, with validation of their values.
DRAWN: dict[str, Callable[[Any], Any]] = {
    "ramp": lambda said: _one_of(said, RAMPS),
    "sort": str,
    "scale": str,
    "gamma": lambda said: _within(said, 0.05, 20),
    "threshold": lambda said: _within(said, 0, 1),
    "top": lambda said: int(_within(said, 0, 10_000)),
}


def heard(exploration: Exploration, name: str, value: Any) -> int:
    """Process a request of the browser; return the number of a slider's step, else 0.

    Raises:
        ValueError: An unknown request, an invalid value, or edits that the model does not accept;
            the message contains the value.
    """
    if name in SLIDERS:
        return _slid(exploration, name, value)
    if name not in WISHES:
        raise ValueError(say("The widget does not know {name}.", name=short(name)))
    WISHES[name](exploration, value)
    return 0


def _slid(exploration: Exploration, name: str, value: Any) -> int:
    said = value if isinstance(value, Mapping) else {}
    slider, seq = SLIDERS[name], said.get("seq")
    if not isinstance(seq, int) or not 0 <= seq <= NEWEST:
        raise ValueError(say("A step of a slider has a number; got {said}.", said=short(value)))
    _write(exploration, slider.moved, slider.read(str(said.get("value"))))
    return seq


def _write(exploration: Exploration, moved: Callable[..., Intervention], *values: Any) -> None:
    """Write the value of a control of the open head into the edits."""
    place = exploration.shown.place(exploration.before.maps)
    exploration.change(moved(exploration.changes, place, *values))


def _head(exploration: Exploration, value: Any) -> None:
    _write(exploration, edit_controls.set_head_state, _one_of(value, HEAD_STATES), HALF)


def _causal(exploration: Exploration, value: Any) -> None:
    _write(exploration, edit_controls.set_causal, _one_of(value, ("on", "off")) == "on")


def _clean(exploration: Exploration, value: Any) -> None:
    exploration.change(None)


def _source(exploration: Exploration, value: Any) -> None:
    if not isinstance(value, str) or not isinstance(exploration.asked, str):
        raise ValueError(say("This widget's input is set from Python: widget.source = ..."))
    if value != exploration.asked:
        exploration.ask(value)


def _opened(exploration: Exploration, value: Any) -> None:
    exploration.open(tuple(value) if isinstance(value, list) else value)


def _block(exploration: Exploration, value: Any) -> None:
    """Open another map, at the same layer and head if it has them."""
    shown, trace = exploration.shown, exploration.before
    counts = trace.head_counts(_one_of(value, trace.maps))
    layer = min(shown.layer, len(counts) - 1)
    exploration.open((value, layer, min(shown.head, int(counts[layer]) - 1)))


def _overlaid(exploration: Exploration, value: Any) -> None:
    match value:
        case list() if all(_is_place(one) for one in value):
            shown, trace = exploration.shown, exploration.before
            counts = trace.head_counts(shown.block)
            known = [
                (n, h) for n, h in value if n < len(counts) and h < counts[n]
            ]  # the open one is among them, or comes first
            overlay = tuple(at for at in known if at != (shown.layer, shown.head))
            exploration.shown = replace(
                shown, overlay=overlay[: MOST_HEADS - 1], view="lines" if overlay else shown.view
            )
        case _:
            raise ValueError(
                say("Heads are pairs of layer and head; got {said}.", said=short(value))
            )


def _is_place(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(_number(n) is not None for n in one)


def _picked(exploration: Exploration, value: Any) -> None:
    """Choose the row and column of a click in a picture, or the token of a sentence (`_chip`)."""
    said = value if isinstance(value, Mapping) else {}
    if "side" in said:
        _chip(exploration, said)
        return
    row, column = (_number(said.get(name)) for name in ("row", "column"))
    shown = exploration.shown
    exploration.shown = replace(shown, token=shown.token if row is None else row, key=column)
    exploration.open(exploration.shown.site)  # clamps the selection to the map


def _chip(exploration: Exploration, said: Mapping[str, Any]) -> None:
    """Choose the row, or else the column, of a clicked token; or hide it, or show it again."""
    shown, now = exploration.shown, exploration.now
    place = shown.place(now.maps)
    found = cells(now, shown.block, shown.layer, shown.head)
    sides = dict(chip_sides(now, exploration.model.takes == "vectors"))
    side, token = str(said.get("side")), _number(said.get("token"))
    if side not in sides or token is None or token >= len(sides[side]):
        raise ValueError(say("There is no such word here: {said}.", said=short(dict(said))))
    chips = map_chips(now, side, sides[side], place, found, exploration.changes, shown.token)
    chip = chips[token]
    if shown.click == "hide":
        if chip.column is None:
            raise ValueError(
                say("{block} looks at the other sentence; choose words of that.", block=shown.block)
            )
        keys = set(edit_controls.hidden(exploration.changes, place)) ^ {token}
        _write(exploration, edit_controls.set_hidden, keys)
    elif chip.row is not None:
        exploration.shown = replace(shown, token=found.members[chip.row][0])
    elif chip.column is not None:
        row = int(np.argmax(found.weights[:, chip.column]))
        exploration.shown = replace(shown, token=found.members[row][0], key=token)


def _zoomed(exploration: Exploration, value: Any) -> None:
    match value:
        case {"rows": [int(a), int(b)], "columns": [int(c), int(d)]} if 0 <= a < b and 0 <= c < d:
            exploration.shown = replace(exploration.shown, zoom=((a, b), (c, d)))
        case _:
            exploration.shown = replace(exploration.shown, zoom=None)


def _drawn(exploration: Exploration, value: Any) -> None:
    said = value if isinstance(value, Mapping) else {}
    chosen = {name: read(said[name]) for name, read in DRAWN.items() if name in said}
    exploration.shown = replace(exploration.shown, **chosen)


def _choice(field: str, choices: Any) -> Callable[[Exploration, Any], None]:
    def choose(exploration: Exploration, value: Any) -> None:
        chosen: Any = {field: _one_of(value, choices)}
        exploration.shown = replace(exploration.shown, **chosen)

    return choose


def _theme(exploration: Exploration, value: Any) -> None:
    exploration.shown = replace(exploration.shown, dark=value == "dark")


WISHES: dict[str, Callable[[Exploration, Any], None]] = {
    "head_state": _head,
    "causal": _causal,
    "clean": _clean,
    "source": _source,
    "opened": _opened,
    "block": _block,
    "overlaid": _overlaid,
    "picked": _picked,
    "zoomed": _zoomed,
    "drawn": _drawn,
    "theme": _theme,
    "scope": _choice("scope", SCOPES),
    "view": _choice("view", VIEWS),
    "compare": _choice("compare", COMPARES),
    "click": _choice("click", CLICKS),
}


def _one_of(said: Any, choices: Any) -> str:
    if not isinstance(said, str) or said not in choices:
        raise ValueError(
            say("Choose of {choices}; got {said}.", choices=", ".join(choices), said=short(said))
        )
    return said


def _within(said: Any, least: float, most: float) -> float:
    fits = isinstance(said, int | float) and not isinstance(said, bool) and least <= said <= most
    if not fits:
        raise ValueError(
            say(
                "A number from {least:g} to {most:g} was expected; got {said}.",
                least=least,
                most=most,
                said=short(said),
            )
        )
    return float(said)


def _number(said: Any) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and said >= 0 else None
