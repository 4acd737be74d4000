"""One visitor's state: taken from the link when a visit begins, kept in the link ever after."""

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
    """The value of every key in a link that says nothing, or only the model."""
    first = next(iter(engine.shelf))
    lang = {"lang": browser_language()}
    return url_state.DEFAULTS | lang | {"model": first} | engine.first(model or first)


def begin(engine: Engine) -> None:
    """Take the state from the link at the first run and after Back or Forward; else keep it.

    On another page each widget is a new one, even with the same key, and begins at its default:
    there what was saved is written back. On the same page what is there is left alone: a value
    written here would be sent to the browser, and could overwrite what the visitor is typing.

    A page may stand in the browser's history a second time, as it was before its link was written:
    then nothing is taken from there.
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
        del private.stale, private.seen  # all of them have just been written
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
        del private.seen  # what the browser told of are the controls of the page before
    _clamp_model(engine)
    adapt_to_model(engine)


def speak_first() -> None:
    """Speak the visitor's language before the state of the visit is there: the pages' names."""
    chosen = st.session_state.get("lang") or private.kept.get("lang")  # gone where a page switched
    speak(chosen or st.query_params.get("lang") or browser_language())


def browser_language() -> str:
    """Return the first language of the browser if the app has it, otherwise English."""
    code = (st.context.locale or "").partition("-")[0].lower()
    return code if code in languages() else url_state.DEFAULTS["lang"]


def frame_has(names: tuple[str, ...]) -> None:
    """Note which keys have a widget in the frame; a fragment draws it not, but it stands there."""
    private.framed = names


def restore(engine: Engine) -> None:
    """Bring back what the browser has no widget for: one that comes now begins at its default.

    Such a widget was not drawn in the last run, or its code is still on its way to the browser,
    which comes there later than the wish for this run. From here on this run speaks the visitor's
    language.
    """
    state = st.session_state
    kept = defaults(engine, state.get("model")) | private.kept
    for name in url_state.DEFAULTS:
        gone = state.get(name) is None and url_state.DEFAULTS[name] is not None
        if name not in state or gone:  # nor does a choice stand whose options went away
            state[name] = kept[name]
    for name in _unseen():
        with suppress(StreamlitAPIException):  # its widget stands above, with this value
            rewrite_widget(name)
    speak(state["lang"])


def ended() -> None:
    """Note that a run has come to its end: what the next one is told comes from the browser."""
    private.ended = True


def _unseen() -> set[str]:
    """The keys of the link for which the browser has no widget yet."""
    told = told_keys()
    if not told:  # the browser was not asked
        return set()
    if not private.ended:  # then some of these may have been drawn only, and never got there
        told &= private.seen | private.moves.keys()  # what was moved stands there
    private.seen, private.ended = told, False
    return set(url_state.DEFAULTS) - told


def keep_unmounted_keys() -> None:
    """At the end of a run, write what has no widget on this page once more.

    Streamlit drops the state of widgets that a run did not draw, and would then find what was
    written under the same key long ago.
    """
    for name in url_state.DEFAULTS:
        if name not in private.framed:
            with suppress(StreamlitAPIException):  # it has a widget here: nothing to do
                rewrite_widget(name)


def models(engine: Engine) -> tuple[str, ...]:
    """The models to choose from in this visit: those in the box, and those that it brought."""
    return (*engine.shelf, *(name for name in private.own if name in engine.shelf))


def word_languages(engine: Engine) -> tuple[str, str]:
    """The languages of the words that the model at hand reads and writes; empty: not known."""
    kind = engine.kind(st.session_state["model"])
    source, target = engine.shelf[st.session_state["model"]].languages
    return source, target if kind is not None and kind.translates else source


def bring(engine: Engine, name: str) -> None:
    """Let a model that is not in the box be one of this visit's."""
    if name not in models(engine):
        private.own = (*private.own, name)


def _known(name: str) -> str:
    """The name of an upload of this visit from the link, which does not say in which room it is;
    and that of a model of the Hub, which the link says without its first word."""
    name = model_names.public_name(name)
    known = (*private.looked, *private.own)
    mine = (one for one in reversed(known) if model_names.public_name(one) == name)
    return next(mine, hub_models.internal(name))


def _clamp_model(engine: Engine) -> None:
    """Let the models of the visit be such that are here; a file may be gone since the last look."""
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
                state["checkpoint"] = name  # there it can be fetched
            state[key] = defaults(engine)[key]
        if state[key]:
            bring(engine, state[key])


def save(engine: Engine) -> None:
    """Write the state into the address bar, if it says something else.

    Not into an address of which there is a written one, as long as nothing is changed there: Back
    would never get past it.
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
    """Whether a link says nothing of ours, or only how the first page is to look."""
    return set(link) - set(url_state.others(link)) <= LOOKS


def _address(shown: dict[str, str], engine: Engine) -> dict[str, str]:
    """What the address bar should say."""
    state = st.session_state
    values = {name: state[name] for name in url_state.DEFAULTS}
    ours = url_state.write(values, defaults(engine, state["model"]))
    if values["lang"] != url_state.DEFAULTS["lang"]:  # the next reader's browser has another one
        ours["lang"] = values["lang"]
    if _tells_no_place(ours) and engine.opening(state["model"], state["block"]):
        ours |= OPENING  # such a link would open another head
    return url_state.others(shown) | ours


def clear_answered_notices(engine: Engine) -> None:
    """Clear the notices once the visitor has changed something."""
    for name in NUMBERS:  # an option that a new sentence took away comes back as its label
        if isinstance(st.session_state.get(name), str):
            st.session_state[name] = url_state.DEFAULTS[name]
    now = _address(st.query_params.to_dict(), engine)
    if private.address not in (None, now):
        del private.complaints


def adapt_to_model(engine: Engine) -> None:
    """Fit what was asked of another model, or before this one was known, to the model of now."""
    state = st.session_state
    model, before = state["model"], private.suited
    kind = engine.kind(model)
    if kind is None:
        return
    if kind.takes == "image":
        _clamp_picture(tuple(engine.shelf[model].pictures))
    elif kind.eyes and state["picture"] != EXAMPLE:
        state["picture"] = ""  # the name of another model's picture
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
    """Let the chosen picture be one that there is; an unknown one from the link is told."""
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
    """Note that the visitor switched between light and dark: the next run draws all anew."""
    private.recolour = dark


def dark() -> bool:
    """Whether the visitor's background is dark, as far as the server has been told."""
    return st.context.theme.type == "dark"
