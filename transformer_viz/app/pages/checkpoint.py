"""Page Checkpoint: choice of a model, the result of its inspection, and the capture checks."""

from __future__ import annotations

import sys
import traceback
from html import escape
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.uploaded_file_manager import UploadedFile

from ... import settings
from ...core.errors import is_fault
from ...i18n import mark, say
from ..checkpoint import (
    config_table,
    facts,
    hub_offer,
    name_table,
    stored_run,
    uploads,
    vocabulary_choice,
)
from ..engine import model_names
from ..engine.engine import Engine
from ..lessons import navigation
from ..page_template import failed, notices_above
from ..session import notices, query_state, visit
from ..session.keys import private
from ..session.state import state
from ..ui import layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import escape_markdown, spoken

if TYPE_CHECKING:
    from ...inference.inspection import Inspection

FILES = mark(
    "Weights, with config.json and the vocabulary beside them if there are any, or a zip of a "
    "folder. Other weights, or another zip, are another model. Your files stay on this server "
    "until your visit ends, and nobody else can open them. A trace file opens as its report."
)


def draw(engine: Engine) -> None:
    """Draw the page Checkpoint."""
    with notices_above(engine):
        _body(engine, state.checkpoint or state.model)


def _body(engine: Engine, name: str) -> None:
    if settings.open_roots() or settings.UPLOADS.on:
        engine.models.expect()
    with st.container(key="pictures-checkpoint"):
        left, right = st.columns([5, 13])
        with left.container(border=True, key="card-models"):
            _box(engine, name)
            if settings.open_roots():
                _path()
            if settings.HUB.text != settings.OFF:
                hub_offer.box(_look_at)
            if settings.UPLOADS.on:
                _drop(engine)
        with right:
            if private.stored_run is None:
                _understood(engine, name)
            else:
                stored_run.draw(private.stored_run)


def _box(engine: Engine, name: str) -> None:
    """Draw a choice of the bundled models and those of this session, each listed once."""
    place = model_names.parted(name)[0]
    looked = [one for one in private.looked if one in engine.shelf]
    looked = [one for one in looked if model_names.parted(one)[0] != place]
    names = dict.fromkeys((*visit.models(engine), *looked, name))
    labels = {one: _label(engine, one) for one in names}
    private.looked = tuple(labels)
    st.session_state["checkpoint-box"] = name  # the user may have opened another one below
    layout.heading(say("Which model?"))
    st.radio(
        say("Which model?"),
        list(labels),
        key="checkpoint-box",
        format_func=labels.__getitem__,
        on_change=_choose,
        label_visibility="collapsed",
    )


def _label(engine: Engine, name: str) -> str:
    shelved = engine.shelf.get(name)
    return escape_markdown(model_names.public_name(name) if shelved is None else shelved.label)


def _choose() -> None:
    _look_at(st.session_state["checkpoint-box"])


def _look_at(name: str) -> None:
    state.checkpoint = name
    del private.stored_run
    del private.upload_error


def _path() -> None:
    names = (say("“{word}”", word=root.resolve().name) for root in model_names.roots())
    folders = say(" or ").join(names)
    said = say("A weights file or a folder below the folder {folders}", folders=folders)
    layout.heading(say("Open a path on the server"), 3)
    st.text_input(
        say("Path on the server"),
        key="checkpoint-path",
        placeholder="runs/ckpt.pt",
        on_change=_open_path,
        label_visibility="collapsed",
    )
    _trouble("path")
    layout.quiet(escape(said))


def _open_path() -> None:
    text = st.session_state["checkpoint-path"].strip()
    if not text:
        return
    try:
        _look_at(model_names.path_name(text))
    except (ValueError, OSError) as error:
        private.upload_error = ("path", spoken(error))


def _drop(engine: Engine) -> None:
    """Draw the file uploader; new files are stored once."""
    layout.heading(say("Or drop files"), 3)
    files = st.file_uploader(
        say("Files of a checkpoint"),
        accept_multiple_files=True,
        key="checkpoint-files",
        label_visibility="collapsed",
    )
    _trouble("files")
    layout.quiet(say(FILES))
    files = _of_one_model(files)
    came = tuple(file.file_id for file in files)
    if not came or came == private.placed:
        return
    room, used = uploads.room(engine), model_names.parted(state.model)[0]
    last = files[-1]  # a trace file is opened alone, regardless of earlier files
    try:
        name, run = run_with_progress(
            lambda task: _placed(room, files, last, used),
            key="placing",
            label=say("Unpacking ..."),
            about=came,
        )
        if run is None:
            _look_at(name)
        else:
            private.stored_run = run
            private.upload_error = ("", "")
    except Stopped:
        return
    except (ValueError, OSError) as error:
        private.upload_error = ("files", spoken(error))
    private.placed = came
    st.rerun()


def _placed(
    room: uploads.UploadFolder, files: list[UploadedFile], last: UploadedFile, used: str
) -> tuple[str, stored_run.StoredRun | None]:
    """Return the name of an uploaded model, or the run of an uploaded trace file."""
    run = stored_run.dropped(last.name, last)
    return ("", run) if run is not None else (room.put([(f.name, f) for f in files], used), None)


def _of_one_model(files: list[UploadedFile]) -> list[UploadedFile]:
    """Return the files of the latest model, since Streamlit's uploader keeps all earlier files.

    Files that accompany weights may follow them later. Other weights, or a zip, begin a new model.
    """
    aside, placed = private.aside, private.placed
    files = [file for file in files if file.file_id not in aside]
    old = [file for file in files if file.file_id in placed]
    new = [file for file in files if file.file_id not in placed]
    if all(any(uploads.begins(file.name) for file in some) for some in (old, new)):
        private.aside = aside | set(placed)
        return new
    return files


def _trouble(where: str) -> None:
    kind, sentence = private.upload_error
    if kind == where:
        st.error(escape_markdown(sentence))


def _understood(engine: Engine, name: str) -> None:
    """Draw the inspection of a model, or the error and possible remedies."""
    waiting = st.container(key="waiting-checkpoint")
    if hub_offer.offered(engine, name, waiting):
        return
    found = _asked(engine, name, waiting)
    if found is None:
        return
    with st.container(key="checkpoint-head"):  # one element, however many notes it holds
        facts.head(name_table.without_note(found), engine.shelf[name].called)
    with st.container(key="checkpoint-names"):
        name_table.line(engine, found, name, _look_at, waiting)
    if st.button(say("Explore this model"), key="explore", type="primary"):
        state.model = name
        visit.bring(engine, name)
        query_state.mark_query_changed()
        notices.mark_answered()  # state of the previous model is not a request of the link
        navigation.open_page(navigation.FIRST)
    facts.rows_named(found.kind)
    vocabulary_choice.choose(engine.shelf[name].path, found, name, _look_at)
    facts.trust(found.findings, found.guessed)
    config_table.table(found, name, _look_at)
    facts.contents(found)


def _inspection(engine: Engine, name: str, where: DeltaGenerator) -> Inspection:
    """Return the inspection, without verification if the user stopped that."""
    label = say("Opening {model} ...", model=engine.shelf[name].called)
    words: dict[str, Any] = {"label": label, "about": name, "where": where}
    try:
        return run_with_progress(
            lambda task: engine.inspection(name, task), key="inspection", **words
        )
    except Stopped:  # shows its own message and a button to resume
        if not engine.ready(name):
            raise
    return run_with_progress(
        lambda task: engine.inspection(name, task, proved=False),
        key="inspection-unproved",
        **words,
    )


def _asked(engine: Engine, name: str, waiting: DeltaGenerator) -> Inspection | None:
    """Return the inspection, or draw the error and the questions that may resolve it."""
    try:
        return _inspection(engine, name, waiting)
    except Stopped:
        return None
    except (ValueError, LookupError, OSError) as error:
        sentence = spoken(error)
    except BaseException as error:  # last resort, so that users never see a traceback
        if not is_fault(error):
            raise
        traceback.print_exc(file=sys.stderr)
        sentence = failed(error)
    shelved = engine.shelf.get(name)
    called = model_names.public_name(name) if shelved is None else shelved.called
    layout.heading(escape(called), what="checkpoint")
    place = st.container(key="checkpoint-refusal")
    if name_table.ask(engine, name, sentence, _look_at, waiting):
        sentence = name_table.without_advice(sentence)
        if name_table.is_first(engine, name):  # not an error: the weights have not been named yet
            place.info(escape_markdown(say(name_table.OWN_NAMES)))
            with place:
                layout.quiet(escape(sentence))
        else:
            place.error(escape_markdown(sentence))
    else:
        place.error(escape_markdown(sentence))
        if shelved is not None:
            vocabulary_choice.choose_again(shelved.path, sentence, name, _look_at)
        config_table.rescue(None if shelved is None else shelved.path, name, sentence, _look_at)
    return None
