"""What was set in a lab, as the link's ``tried`` holds it: ``guess=1;width=64``."""

from __future__ import annotations

from collections.abc import Sequence

from ...i18n import say
from ..session import notices, url_values
from ..session.keys import private
from ..session.state import state

LAB = "lab"  # the key of the link
MAX_NAMED = 9  # values, or digits, that are too many to name


def read(text: str) -> dict[str, str]:
    """The settings of a text; parts that are none are left out."""
    parts = (part.partition("=") for part in text.split(";"))
    return {name: value for name, found, value in parts if name and found and value}


def write(settings: dict[str, str]) -> str:
    """The inverse of `read`."""
    return ";".join(f"{name}={value}" for name, value in settings.items())


def settings() -> dict[str, str]:
    """What is set in the present lab."""
    return read(state.tried)


def put(name: str, value: str | None) -> None:
    """Set something in the present lab; None takes it back."""
    others = {key: kept for key, kept in settings().items() if key != name}
    state.tried = write(others | ({} if value is None else {name: value}))


def valid_setting(name: str, allowed: Sequence[str], default: str) -> str:
    """What is set, or the default; what the link sets in vain is said, and dropped."""
    value = settings().get(name, default)
    if value in allowed:
        return value
    few = [one for one in allowed if one]
    _refuse(name, value, ", ".join(few) if len(few) < MAX_NAMED else f"{few[0]} ... {few[-1]}")
    return default


def written(name: str, default: str) -> str:
    """A text that was typed, or the default."""
    return _unpacked(settings().get(name, "")) or default


def put_text(name: str, text: str) -> None:
    """Keep a typed text; an empty one takes it back."""
    put(name, _packed(text.strip()) or None)


def _packed(text: str) -> str:
    """A text without the sign that stands between settings."""
    return text.replace("%", "%25").replace(";", "%3B")


def _unpacked(text: str) -> str:
    return text.replace("%3B", ";").replace("%25", "%")


def counted(name: str) -> int:
    """How often a button was pressed."""
    value = settings().get(name, "0")
    if value.isascii() and value.isdecimal() and len(value) < MAX_NAMED:
        return int(value)
    _refuse(name, value, "0, 1, 2 ...")
    return 0


def _refuse(name: str, value: str, allowed: str) -> None:
    """Drop a setting that cannot be had; if the link has just asked for it, say so."""
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
    """The lab that is open: the first one unless the link names another that there is."""
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
    """In a callback: another lab was chosen; each finds its settings as they were left."""
    private.other_labs = private.other_labs | {private.lab: state.tried}
    state.tried = private.other_labs.get(state.lab, "")


def turn_to(name: str) -> None:
    """In a callback: open another lab."""
    state.lab = name
    turn()
