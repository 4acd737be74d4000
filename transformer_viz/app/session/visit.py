"""One visitor's state: taken from the link when a visit begins, kept in the link ever after."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ...core.interventions import Intervention
from ...core.sites import MAPS
from ...core.trace import Trace
from ...i18n import say, speak
from ..engine import model_names
from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..engine.query import File, Question
from . import url_state
from .edit_controls import Place
from .edit_fit import fitting
from .undo_history import History

OPENED = "_opened"
COMPLAINTS = "_complaints"
ADDRESS = "_address"
KEPT = "_kept"
UNWRITTEN = "_unwritten"  # Back led to a page as it was before its link was written
PAGE = "_page"
COUNTS = "_counts"
HELD = "_held"
ASKED = "_asked"
OPENING = {"layer": "0", "head": "0"}
FRAME = ("text", "second", "model", "target", "beam", "picture", "seed")
FRAMED = "_framed"  # which of them have a box for the model at hand
SUITED = "_suited"  # the model that the rest of the state was fitted to
SWITCHED = "_switched"  # another model was chosen, and the edits are still those of the last one
FILES = "_files"
HERE = "_maps"
FRESH = "_fresh"  # the link has just been read, and nothing was chosen since
HISTORY = "_history"
OWN = "_own"  # the models that this visitor brought, besides those in the box
LOOKED = "_looked"  # those that the page Checkpoint has looked at
RECOLOUR = "_recolour"
NUMBERS = (
    *("layer", "head", "token", "answer", "place", "shift", "pair", "word", "order"),
    *("chosen", "key"),
)


def defaults(engine: Engine, model: str | None = None) -> dict[str, Any]:
    """The value of every key in a link that says nothing, or only the model."""
    first = next(iter(engine.shelf))
    return url_state.DEFAULTS | {"model": first} | engine.first(model or first)


def begin(engine: Engine, framed: bool = True) -> None:
    """Take the state from the link at the first run and after Back or Forward; else keep it.

    On another page each widget is a new one, even with the same key, and begins at its default:
    there what was saved is written back. On the same page what is there is left alone: a value
    written here would be sent to the browser, and could overwrite what the visitor is typing.

    Args:
        engine: the models.
        framed: whether the page has a sentence. One without may stand in the browser's history a
            second time, as it was before its link was written: then nothing is taken from there.
    """
    state = st.session_state
    context = get_script_run_ctx()
    given = st.query_params.to_dict()
    back = context is not None and context.is_history_navigation
    state[UNWRITTEN] = back and not framed and OPENED in state and url_state.others(given) == given
    if OPENED not in state or (back and not state[UNWRITTEN]):
        values, complaints = url_state.read(given, defaults(engine, given.get("model")))
        if url_state.others(given) == given:  # nothing of ours in it
            values |= engine.opening(values["model"], values["block"])
        for name in ("model", "checkpoint"):
            values[name] = _known(values[name])
        state.update(values)
        state.pop(HELD, None)  # all of them have just been written
        state[COMPLAINTS], state[OPENED], state[FRESH] = complaints, True, True
        _settle_model(engine)
        state[PAGE] = None if context is None else context.page_script_hash
        state[SUITED] = None if engine.kind(values["model"]) is None else values["model"]
        suit(engine)
        speak(values["lang"])
        return
    page = None if context is None else context.page_script_hash
    moved = state.get(PAGE, page) != page
    state[PAGE] = page
    if moved:
        newer = {"edits", "masked", *(FRAME if state.pop(ASKED, False) else ())}
        kept = defaults(engine) | state.get(KEPT, {})
        state.update(kept | {name: state[name] for name in newer if name in state})
    restore(engine)
    _settle_model(engine)
    suit(engine)


def speak_first() -> None:
    """Speak the visitor's language before the state of the visit is there: the pages' names."""
    speak(st.session_state.get("lang") or st.query_params.get("lang", ""))


def asked() -> None:
    """Note in a callback that the sentence, or what stands beside it, was changed just now."""
    st.session_state[ASKED] = True


def frame_has(names: tuple[str, ...]) -> None:
    """Note which keys have a widget in the frame; a fragment draws it not, but it stands there."""
    st.session_state[FRAMED] = names


def restore(engine: Engine) -> None:
    """Bring back what had no widget in the last run: one that comes now begins at its default.

    From here on this run speaks the visitor's language.
    """
    state = st.session_state
    kept = defaults(engine, state.get("model")) | state.get(KEPT, {})
    for name in url_state.DEFAULTS:
        gone = state.get(name) is None and url_state.DEFAULTS[name] is not None
        if name not in state or gone:  # nor does a choice stand whose options went away
            state[name] = kept[name]
    for name in state.pop(HELD, ()):
        relabel(name)
    speak(state["lang"])


def hold() -> None:
    """At the end of a run, write what has no widget on this page once more.

    Streamlit drops the state of widgets that a run did not draw, and would then find what was
    written under the same key long ago.
    """
    held, framed = [], st.session_state.get(FRAMED, ())
    for name in url_state.DEFAULTS:
        if name not in framed:
            with suppress(StreamlitAPIException):  # it has a widget here: nothing to do
                relabel(name)
                held.append(name)
    st.session_state[HELD] = held


def models(engine: Engine) -> tuple[str, ...]:
    """The models to choose from in this visit: those in the box, and those that it brought."""
    brought: tuple[str, ...] = st.session_state.get(OWN, ())
    return (*engine.shelf, *(name for name in brought if name in engine.shelf))


def bring(engine: Engine, name: str) -> None:
    """Let a model that is not in the box be one of this visit's."""
    if name not in models(engine):
        st.session_state[OWN] = (*st.session_state.get(OWN, ()), name)


def _known(name: str) -> str:
    """The name of an upload of this visit from the link, which does not say in which room it is."""
    state, name = st.session_state, model_names.shared(name)
    known = (*state.get(LOOKED, ()), *state.get(OWN, ()))
    return next((one for one in reversed(known) if model_names.shared(one) == name), name)


def _settle_model(engine: Engine) -> None:
    """Let the model of the visit be one that is here; a file may be gone since the last look."""
    state = st.session_state
    try:
        engine.shelf[state["model"]]
    except KeyError as error:
        gone = say("The model that was asked for is not here.")
        complaints().append(f"{gone} {error.args[0]}")
        state["model"] = defaults(engine)["model"]
    bring(engine, state["model"])


def save(engine: Engine) -> None:
    """Write the state into the address bar, if it says something else.

    Not into an address of which there is a written one: Back would never get past it.
    """
    if st.session_state.get(UNWRITTEN):
        return
    shown = st.query_params.to_dict()
    wanted = _address(shown, engine)
    if wanted != shown:
        st.query_params.from_dict(wanted)
    state = st.session_state
    state[ADDRESS] = wanted
    state[KEPT] = {name: state[name] for name in url_state.DEFAULTS}


def _address(shown: dict[str, str], engine: Engine) -> dict[str, str]:
    """What the address bar should say."""
    state = st.session_state
    values = {name: state[name] for name in url_state.DEFAULTS}
    ours = url_state.write(values, defaults(engine, state["model"]))
    if not ours and engine.opening(state["model"], state["block"]):
        ours = OPENING  # an empty link would open another head
    return url_state.others(shown) | ours


def answered() -> None:
    """Note that a page stands: what is not there from now on was not asked for by the link."""
    st.session_state[FRESH] = False


def heed(engine: Engine) -> None:
    """Complaints stay until the visitor has changed something."""
    for name in NUMBERS:  # an option that a new sentence took away comes back as its label
        if isinstance(st.session_state.get(name), str):
            st.session_state[name] = None
    now = _address(st.query_params.to_dict(), engine)
    if st.session_state.get(ADDRESS, now) != now:
        complaints().clear()


def complaints() -> list[str]:
    """Sentences about what the link asked for and could not have."""
    found: list[str] = st.session_state.get(COMPLAINTS, [])
    return found


def fit(name: str, count: int, what: str) -> int:
    """Bring a number into the range that there is here.

    A number of the link that is not there is said. What another sentence, block or page has left
    behind is not: nobody asked for it here.
    """
    state = st.session_state
    value = state[name]
    if value is None or not 0 <= value < count:
        asked = state.get(FRESH) and value is not None
        if asked:
            complaints().append(
                say(
                    "There is no {what} {value} here; there are 0 to {last}. {What} 0 is shown.",
                    what=say(what),
                    value=value,
                    last=count - 1,
                    What=say(what).capitalize(),
                )
            )
        state[name] = 0 if asked or value is None else max(0, count - 1)
    counts: dict[str, int] = state.setdefault(COUNTS, {})
    if counts.get(name) != count:  # a slider of another length is a new one, at its beginning
        counts[name] = count
        relabel(name)
    return int(state[name])


def relabel(name: str) -> None:
    """Write a choice again whose options may bear other words now.

    The browser keeps the words that it showed until the value is written.
    """
    st.session_state[name] = st.session_state[name]


def question(engine: Engine, kind: Kind) -> Question:
    """What is asked of the model as things stand; what its kind does not take is left out."""
    state = st.session_state
    model = state["model"]
    if kind.takes == "image":
        first = next(iter(engine.shelf[model].pictures), "")
        return Question(model, picture=state["picture"] or first, file=file_of(kind))
    if kind.takes == "vectors":
        return Question(model, seed=state["seed"] or 0, file=file_of(kind))
    return Question(
        model,
        _tidy(state["text"]),
        _tidy(state["target"]) if kind.translates and kind.writes else "",
        state["beam"] if kind.writes else Question.beam,
        _tidy(state["second"]) if kind.pairs else "",
        state["masked"] if kind.mask_id is not None else (),
    )


def file_of(kind: Kind) -> File | None:
    """The visitor's own file for models that take pictures, or vectors."""
    found: File | None = st.session_state.get(FILES, {}).get(kind.takes)
    return found


def give(takes: str, file: File | None) -> None:
    """Put a visitor's own file in the place of examples; None goes back to them."""
    st.session_state[FILES] = st.session_state.get(FILES, {}) | {takes: file}
    asked()


def typed() -> None:
    """Note in a callback that another text was typed: masks were numbers of the old one's words."""
    st.session_state["masked"] = ()
    asked()


def suit(engine: Engine) -> None:
    """Fit what was asked of another model, or before this one was known, to the model of now."""
    state = st.session_state
    model, before = state["model"], state.get(SUITED)
    kind = engine.kind(model)
    if kind is None:
        return
    if kind.takes == "image":
        _settle_picture(tuple(engine.shelf[model].pictures))
    if model == before:
        return
    state[SUITED], state[SWITCHED] = model, before is not None
    first = defaults(engine, model)
    was = url_state.DEFAULTS if before is None else defaults(engine, before)
    if state["text"] == was["text"] or not (kind.spelled or _is_ids(state["text"])):
        state["text"] = first["text"]
    if before is not None:
        state["masked"] = first["masked"] if state["text"] == first["text"] else ()


def _settle_picture(known: tuple[str, ...]) -> None:
    """Let the chosen picture be one that there is; an unknown one from the link is told."""
    state = st.session_state
    if state["picture"] and state["picture"] not in known:
        if state.get(FRESH):
            complaints().append(
                say(
                    "In the link, picture is {picture}, which is not here; there is {known}. It "
                    "was left out.",
                    picture=repr(url_state.shortened(state["picture"])),
                    known=", ".join(known) or say("none"),
                )
            )
        state["picture"] = ""


def _is_ids(text: str) -> bool:
    return all(word.isdecimal() for word in text.replace(",", " ").split())


def _tidy(text: str | None) -> str:
    """Text without outer blanks and without control characters, which no one can have meant."""
    return "".join(c for c in text or "" if c == "\t" or unicodedata.category(c) != "Cc").strip()


def intervention() -> Intervention:
    """All changes of this visit."""
    return Intervention.from_json(st.session_state["edits"])


def change(edited: Intervention) -> None:
    """Put other changes in the place of the present ones; `undo` brings these back."""
    state, text = st.session_state, edited.to_json()
    if text != state["edits"]:
        state[HISTORY] = history().did(state["edits"])
        state["edits"] = text


def clean() -> None:
    """Take all changes back: one click to the model as it was trained."""
    change(Intervention())


def history() -> History:
    """What can be undone and redone in this visit."""
    return st.session_state.get(HISTORY, History())


def undo() -> None:
    """Back to the changes as they were before the last move of a control."""
    state = st.session_state
    state[HISTORY], state["edits"] = history().undo(state["edits"])


def redo() -> None:
    """Forward again to what was undone."""
    state = st.session_state
    state[HISTORY], state["edits"] = history().redo(state["edits"])


def drop_misfits(trace: Trace, kind: Kind) -> None:
    """After another model was chosen, take away the changes that mean nothing in it.

    What the last model did to a sentence cannot be undone in this one.
    """
    state = st.session_state
    if not state.get(SWITCHED):
        return
    state[SWITCHED] = False
    kept = fitting(intervention(), trace, kind)
    if kept != intervention():
        state["edits"], state[HISTORY] = kept.to_json(), History()


def place() -> Place:
    """The selected head, and what a change applies to."""
    state = st.session_state
    here = state.get(HERE, tuple(MAPS))
    return Place(state["block"], state["layer"], state["head"], state["scope"], here)


def recolour(dark: bool) -> None:
    """Note that the visitor switched between light and dark: the next run draws all anew."""
    st.session_state[RECOLOUR] = dark


def dark() -> bool:
    """Whether the visitor's background is dark, as far as the server has been told."""
    return st.context.theme.type == "dark"
