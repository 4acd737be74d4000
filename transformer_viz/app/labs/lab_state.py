"""Settings of a lab as stored in ``tried`` of the link: ``guess=1;width=64``."""

from __future__ import annotations

from collections.abc import Sequence

from ...i18n import say
from ..session import notices, url_values
from ..session.keys import private
from ..session.state import state

LAB = "lab"  # key in the link
MAX_NAMED = 9  # values to list in a message, or digits of a count: fewer than this


def read(text: str) -> dict[str, str]:
    """Return the settings in a text; invalid parts are skipped."""
    parts = (part.partition("=") for part in text.split(";"))
    return {name: value for name, found, value in parts if name and found and value}


def write(settings: dict[str, str]) -> str:
    """Return settings as text; the inverse of `read`."""
    return ";".join(f"{name}={value}" for name, value in settings.items())


def settings() -> dict[str, str]:
    """Return the settings of the current lab."""
    return read(state.tried)


def put(name: str, value: str | None) -> None:
    """Store a setting of the current lab; None removes it."""
    others = {key: kept for key, kept in settings().items() if key != name}
    state.tried = write(others | ({} if value is None else {name: value}))


def valid_setting(name: str, allowed: Sequence[str], default: str) -> str:
    """Return a setting or its default; report and drop an invalid value."""
    value = settings().get(name, default)
    if value in allowed:
        return value
    few = [one for one in allowed if one]
    _refuse(name, value, ", ".join(few) if len(few) < MAX_NAMED else f"{few[0]} ... {few[-1]}")
    return default


def written(name: str, default: str) -> str:
    """Return a typed text, or the default."""
    return _unpacked(settings().get(name, "")) or default


def put_text(name: str, text: str) -> None:
    """Store a typed text; an empty one removes the setting."""
    put(name, _packed(text.strip()) or None)


def _packed(text: str) -> str:
    """Return a text with the separator of the settings escaped."""
    return text.replace("%", "%25").replace(";", "%3B")


def _unpacked(text: str) -> str:
    return text.replace("%3B", ";").replace("%25", "%")


def counted(name: str) -> int:
    """Return the press count of a button."""
    value = settings().get(name, "0")
    if value.isascii() and value.isdecimal() and len(value) < MAX_NAMED:
        return int(value)
    _refuse(name, value, "0, 1, 2 ...")
    return 0


def _refuse(name: str, value: str, allowed: str) -> None:
    """Drop an invalid setting; report it if the link has just set it."""
    put(name, None)
    notices.about_link(
        say(
            "In the link, tried sets {name} to {value}; it can be {allowed}. It was left out.",
            name=name,
            value=repr(url_values.shortened(value)),
            allowed=allowed,
        )
    )


def opened(names: Sequence[str]) -> str:
    """Return the open lab: the one in the link if it exists, else the first."""
    if state.lab not in names:
        if state.lab:
            notices.about_link(
                say(
                    "In the link, lab is {name}, which is not here. It was left out.",
                    name=repr(url_values.shortened(state.lab)),
                )
            )
        state.lab = names[0]
    if private.fresh and write(settings()) != state.tried:
        notices.about_link(
            say("In the link, tried has parts that are no settings. They were left out.")
        )
        state.tried = write(settings())
    private.lab = state.lab
    return state.lab


def turn() -> None:
    """Restore the settings of the selected lab and keep those of the previous one (callback)."""
    private.other_labs = private.other_labs | {private.lab: state.tried}
    state.tried = private.other_labs.get(state.lab, "")


def turn_to(name: str) -> None:
    """Open another lab (callback)."""
    state.lab = name
    turn()
