"""State of a session: read from the link at its start, and written to the link afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from ...i18n import languages, say, speak
from ..engine import hub_models, model_names
from ..engine.engine import Engine
from ..engine.trace_jobs import EXAMPLE
from ..ui.streamlit_private import came_by_history, page_hash, told_keys
from . import url_state, url_values
from .keys import private
from .notices import about_link, complain, rewrite_widget

OPENING = {"layer": "0", "head": "0"}
LOOKS = {"lang", "present"}
FRAME = ("text", "second", "model", "target", "beam", "picture", "seed")
NUMBERS = (
    *("layer", "head", "token", "answer", "place", "shift", "pair", "word", "order"),
    *("chosen", "key"),
)


def defaults(engine: Engine, model: str | None = None) -> dict[str, Any]:
    """Return the value of every key for a link that is empty, or has the model only."""
    first = next(iter(engine.shelf))
    lang = {"lang": browser_language()}
    return url_state.DEFAULTS | lang | {"model": first} | engine.first(model or first)


def begin(engine: Engine) -> None:
    """Read the state from the link at the first run and after Back or Forward; else keep it.

    On another page each widget is a new one, even with the same key, and starts at its default.
    There the saved values are written back. On the same page values are left alone: writing one
    would send it to the browser, and could overwrite the user's typing.

    The browser's history may contain a page as it was before its link was written. Nothing is read
    from such an entry.
    """
    state = st.session_state
    given = st.query_params.to_dict()
    back = came_by_history()
    bare = url_state.others(given) == given and page_hash() not in private.bare
    private.unwritten = back and private.opened and bare
    if not private.opened or (back and not private.unwritten):
        named = hub_models.internal(given.get("model", "")) or None
        values, complaints = url_state.read(given, defaults(engine, named))
        if _tells_no_place(given):
            values |= engine.opening(values["model"], values["block"])
        for name in ("model", "checkpoint", "beside"):
            values[name] = _known(values[name])
        state.update(values)
        del private.stale, private.seen  # all have just been written
        private.complaints, private.opened, private.fresh = complaints, True, True
        _clamp_model(engine)
        private.page = page_hash()
        private.suited = None if engine.kind(values["model"]) is None else values["model"]
        adapt_to_model(engine)
        speak(values["lang"])
        return
    page = page_hash()
    moved = private.page != page
    private.page = page
    if moved:
        del private.seen
        newer = {"edits", "masked", *(FRAME if private.asked else ())}
        del private.asked
        kept = defaults(engine) | private.kept
        state.update(kept | {name: state[name] for name in newer if name in state})
    restore(engine)
    if moved:
        del private.seen  # the browser has reported controls of the previous page
    _clamp_model(engine)
    adapt_to_model(engine)


def speak_first() -> None:
    """Set the user's language before the session state exists, for the page names."""
    chosen = st.session_state.get("lang") or private.kept.get("lang")  # missing after a page switch
    speak(chosen or st.query_params.get("lang") or browser_language())


def browser_language() -> str:
    """Return the first language of the browser if the app has it, otherwise English."""
    code = (st.context.locale or "").partition("-")[0].lower()
    return code if code in languages() else url_state.DEFAULTS["lang"]


def frame_has(names: tuple[str, ...]) -> None:
    """Store the keys with a widget in the frame. A fragment does not draw them, but they exist."""
    private.framed = names


def restore(engine: Engine) -> None:
    """Restore values without a widget in the browser, which would start at its default.

    Such a widget was not drawn in the last run, or its code has not yet reached the browser. Code
    arrives there after the request for this run. From here on this run uses the user's language.
    """
    state = st.session_state
    kept = defaults(engine, state.get("model")) | private.kept
    for name in url_state.DEFAULTS:
        gone = state.get(name) is None and url_state.DEFAULTS[name] is not None
        if name not in state or gone:  # a choice without options is restored too
            state[name] = kept[name]
    for name in _unseen():
        with suppress(StreamlitAPIException):  # its widget is drawn already, with this value
            rewrite_widget(name)
    speak(state["lang"])


def ended() -> None:
    """Note that a run was completed; the next one can rely on the browser's values."""
    private.ended = True


def _unseen() -> set[str]:
    """Return the keys of the link without a widget in the browser."""
    told = told_keys()
    if not told:  # no report from the browser
        return set()
    if not private.ended:  # else some of these may be drawn only, without reaching the browser
        told &= private.seen | private.moves.keys()  # moved controls exist there
    private.seen, private.ended = told, False
    return set(url_state.DEFAULTS) - told


def keep_unmounted_keys() -> None:
    """Write the values without a widget on this page again, at the end of a run.

    Streamlit drops the state of widgets that a run did not draw, and would then use old values of
    the same key.
    """
    for name in url_state.DEFAULTS:
        if name not in private.framed:
            with suppress(StreamlitAPIException):  # it has a widget here: nothing to do
                rewrite_widget(name)


def models(engine: Engine) -> tuple[str, ...]:
    """Return the models to choose from in this session: the listed ones, and the user's."""
    return (*engine.shelf, *(name for name in private.own if name in engine.shelf))


def word_languages(engine: Engine) -> tuple[str, str]:
    """Return the languages of the current model's input and output; empty if unknown."""
    kind = engine.kind(st.session_state["model"])
    source, target = engine.shelf[st.session_state["model"]].languages
    return source, target if kind is not None and kind.translates else source


def bring(engine: Engine, name: str) -> None:
    """Add a model that is not listed to this session's models."""
    if name not in models(engine):
        private.own = (*private.own, name)


def _known(name: str) -> str:
    """Return the internal name of a model in a link.

    Links contain uploads without their folder, and models of the Hub without their prefix.
    """
    name = model_names.public_name(name)
    known = (*private.looked, *private.own)
    mine = (one for one in reversed(known) if model_names.public_name(one) == name)
    return next(mine, hub_models.internal(name))


def _clamp_model(engine: Engine) -> None:
    """Replace models of the session that are no longer available."""
    state = st.session_state
    for key in ("model", "beside"):
        name = state[key]
        if not name:
            continue
        try:
            engine.shelf[name]
        except KeyError as error:
            gone = say("The model that was asked for is not here.")
            complain(f"{gone} {error.args[0]}")
            if hub_models.id_of(name) is not None:
                state["checkpoint"] = name  # it can be downloaded there
            state[key] = defaults(engine)[key]
        if state[key]:
            bring(engine, state[key])


def save(engine: Engine) -> None:
    """Write the state into the address bar if it has changed.

    An unchanged history entry without a link is left alone; otherwise Back could never pass it.
    """
    values = {name: st.session_state[name] for name in url_state.DEFAULTS}
    if private.unwritten and values == private.kept:
        return
    del private.unwritten
    shown = st.query_params.to_dict()
    wanted = _address(shown, engine)
    if wanted != shown:
        st.query_params.from_dict(wanted)
    if url_state.others(wanted) == wanted:
        private.bare = private.bare | {page_hash()}
    private.address, private.kept = wanted, values


def _tells_no_place(link: Mapping[str, str]) -> bool:
    """Return True if a link has no keys of the app, or only language and presentation mode."""
    return set(link) - set(url_state.others(link)) <= LOOKS


def _address(shown: dict[str, str], engine: Engine) -> dict[str, str]:
    """Return the query parameters of the current state."""
    state = st.session_state
    values = {name: state[name] for name in url_state.DEFAULTS}
    ours = url_state.write(values, defaults(engine, state["model"]))
    if values["lang"] != url_state.DEFAULTS["lang"]:  # the next reader's browser may differ
        ours["lang"] = values["lang"]
    if _tells_no_place(ours) and engine.opening(state["model"], state["block"]):
        ours |= OPENING  # such a link would open another head
    return url_state.others(shown) | ours


def clear_answered_notices(engine: Engine) -> None:
    """Clear the messages once the user has changed something."""
    for name in NUMBERS:  # an option removed by a new sentence returns as its label
        if isinstance(st.session_state.get(name), str):
            st.session_state[name] = url_state.DEFAULTS[name]
    now = _address(st.query_params.to_dict(), engine)
    if private.address not in (None, now):
        del private.complaints


def adapt_to_model(engine: Engine) -> None:
    """Adapt the question of another model, or of a model not known yet, to the current one."""
    state = st.session_state
    model, before = state["model"], private.suited
    kind = engine.kind(model)
    if kind is None:
        return
    if kind.takes == "image":
        _clamp_picture(tuple(engine.shelf[model].pictures))
    elif kind.eyes and state["picture"] != EXAMPLE:
        state["picture"] = ""  # name of another model's picture
    if model == before:
        return
    private.suited, private.switched = model, before is not None
    first = defaults(engine, model)
    was = url_state.DEFAULTS if before is None else defaults(engine, before)
    if state["text"] == was["text"] or not (kind.spelled or _is_ids(state["text"])):
        state["text"] = first["text"]
    if before is not None:
        state["masked"] = first["masked"] if state["text"] == first["text"] else ()


def _clamp_picture(known: tuple[str, ...]) -> None:
    """Clear an unknown picture, and report it if it came from the link."""
    state = st.session_state
    if state["picture"] and state["picture"] not in known:
        about_link(
            say(
                "In the link, picture is {picture}, which is not here; there is {known}. It "
                "was left out.",
                picture=repr(url_values.shortened(state["picture"])),
                known=", ".join(known) or say("none"),
            )
        )
        state["picture"] = ""


def _is_ids(text: str) -> bool:
    return all(word.isdecimal() for word in text.replace(",", " ").split())


def recolour(dark: bool) -> None:
    """Note that the user switched between light and dark: the next run redraws all."""
    private.recolour = dark


def dark() -> bool:
    """Return True if the user's background is dark, as last reported to the server."""
    return st.context.theme.type == "dark"
