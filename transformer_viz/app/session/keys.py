"""Private session keys, besides those of the link, as typed attributes.

``private.fresh`` is ``st.session_state["_fresh"]``, or its default if it was never written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ...components import Picked
from ...core.sites import MAPS
from ..engine.query import File
from .undo_history import History

T = TypeVar("T")


class Slot(Generic[T]):
    """A private key of ``st.session_state``, read and written as an attribute.

    The default is never modified; assign a new value instead of changing the old one.
    """

    def __init__(self, default: T) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = f"_{name}"

    def __get__(self, instance: object, owner: type | None = None) -> T:
        value: T = st.session_state.get(self.key, self.default)
        return value

    def __set__(self, instance: object, value: T) -> None:
        st.session_state[self.key] = value

    def __delete__(self, instance: object) -> None:
        st.session_state.pop(self.key, None)


class Private:
    """Private keys. Delete one to reset it to its default."""

    # Life cycle of a session.
    opened = Slot(False)  # the state was read from the link
    visit = Slot[Any](None)  # the server's record of the session, kept alive by this state
    page = Slot[str | None](None)  # hash of the page drawn last
    unwritten = Slot(False)  # Back led to a page before its link was written
    bare = Slot[frozenset[str | None]](frozenset())  # pages with an empty link
    address = Slot[dict[str, str] | None](None)  # query parameters written last
    kept = Slot[dict[str, Any]]({})  # saved values of the link's keys
    seen = Slot[frozenset[str]](frozenset())  # keys with a widget in the browser
    ended = Slot(False)  # the last run was completed
    stale = Slot[dict[str, frozenset[Any]]]({})  # by key: old values that its control may send
    framed = Slot[tuple[str, ...]](())  # keys with a widget in the frame
    recolour = Slot[bool | None](None)  # theme was switched: redraw all
    shortened = Slot(False)  # a text was cut below its input: redraw all
    # Notices.
    complaints = Slot[list[str]]([])
    fresh = Slot(False)  # the link has just been read, nothing chosen since
    counts = Slot[dict[str, int]]({})  # number of options of each clamped index
    # Model and query.
    asked = Slot(False)  # the sentence or another input has just changed
    suited = Slot[str | None](None)  # the model that the state was adapted to
    switched = Slot(False)  # another model was chosen; edits not adapted yet
    files = Slot[dict[str, File | None]]({})  # uploaded pictures, sounds, vectors
    own = Slot[tuple[str, ...]](())  # models that the user opened, besides the listed ones
    looked = Slot[tuple[str, ...]](())  # models opened on the page Checkpoint
    # Edits and selection.
    maps = Slot[tuple[str, ...]](tuple(MAPS))  # attention maps of the model
    history = Slot(History())
    stroke = Slot[tuple[object, str] | None](None)  # slider moved last, and its edits
    moves = Slot[dict[str, Callable[[], None]]]({})  # controls that seem to have been moved
    unfolded = Slot(False)  # the rest of the dock was drawn in the last run
    echoes = Slot[dict[str, Any]]({})  # by control: the value that was overwritten
    picked = Slot[Picked | None](None)  # clicked chip, until its map is shown
    row = Slot[tuple[str, int] | None](None)  # block and row last synchronized
    word = Slot[tuple[str, int] | None](None)  # the same for the word on Norms
    looked_about = Slot[object](None)  # input for which key, zoom and overlay were chosen
    frame_number = Slot(0)  # number of the newest change the server has received
    # Lessons.
    pages = Slot[dict[str, StreamlitPage]]({})  # pages of the app by address
    here = Slot("")  # address of the open page
    arriving = Slot("")  # a station was chosen; its page has not set its state yet
    predicted_about = Slot[tuple[str, str] | None](None)  # model and text of the answers
    tried_later = Slot[dict[int, tuple[int, ...]]]({})  # by station: later answers than the first
    turned = Slot((0, False))  # a station, and True if its question is shown in presentation mode
    # Pages and labs.
    aligned_picked = Slot[tuple[int | None, int | None]]((None, None))  # Align: row and token
    swapped_about = Slot("")  # sentence that the other one is a variant of
    heads_file = Slot[Any](None)  # Heads: sentences of the uploaded file
    heads_file_came = Slot(("", 0))  # name and size of the last file
    heads_ranked = Slot[dict[object, int]]({})  # by question: number of ranked sentences
    heads_file_refused = Slot("")  # reason of a refused file
    atlas_error = Slot(("", ""))  # Corpus: where an atlas was refused, and why
    atlas_came = Slot("")  # the last uploaded zip
    lab = Slot("")  # the lab opened last
    other_labs = Slot[dict[str, str]]({})  # settings of the other labs
    widened = Slot(False)  # the beam width was set on the page itself
    played = Slot[Any](None)  # question and search of the chosen step
    station = Slot[tuple[int | None, str]]((None, ""))  # open station of Step inside, its kind
    upload_folder = Slot[Any](None)
    upload_error = Slot(("", ""))  # the refused path or files, and why
    hub_plan = Slot[tuple[str, Any]](("", None))  # a model of the Hub and its download plan
    hub_begun = Slot("")  # model whose download was started
    placed = Slot[tuple[str, ...]](())  # uploaded files already in the folder
    stored_run = Slot[Any](None)  # Checkpoint: report of the last trace file
    aside = Slot[frozenset[str]](frozenset())  # earlier uploads, which belong to another model
    refused = Slot("")  # config entry with an unreadable value
    unopened = Slot("")  # last message about a model that cannot be opened
    name_choice = Slot[Any](None)  # Checkpoint: table of names to confirm
    renaming = Slot("")  # opened model whose names are being edited
    live = Slot[Any](None)  # live session, which streams the frames
    followed = Slot[Any](None)  # run that a page was drawn without, and its question


private = Private()
