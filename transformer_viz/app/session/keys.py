"""What the session keeps besides the keys of the link: one typed attribute a private key.

``private.fresh`` is ``st.session_state["_fresh"]``, or its default where nothing was written yet.
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
    """One private key of ``st.session_state``, read and written as an attribute.

    The default is never written to; assign a new value instead of changing the old one.
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
    """The private keys. Delete one to have it at its default again."""

    # The life of a visit.
    opened = Slot(False)  # the state was taken from the link
    visit = Slot[Any](None)  # the visit as the server knows it, for as long as this state is there
    page = Slot[str | None](None)  # the hash of the page that was drawn last
    unwritten = Slot(False)  # Back led to a page as it was before its link was written
    bare = Slot[frozenset[str | None]](frozenset())  # pages whose whole link is their address
    address = Slot[dict[str, str] | None](None)  # what was written into the address bar last
    kept = Slot[dict[str, Any]]({})  # the values of the link's keys that were saved last
    seen = Slot[frozenset[str]](frozenset())  # the keys whose widgets the browser surely has
    ended = Slot(False)  # the last run came to its end
    stale = Slot[dict[str, frozenset[Any]]]({})  # by key: what its control may still send unasked
    framed = Slot[tuple[str, ...]](())  # the keys that have a widget in the frame
    recolour = Slot[bool | None](None)  # light and dark were switched: draw all anew
    shortened = Slot(False)  # a text was cut below its box just now: draw all anew
    # Notices.
    complaints = Slot[list[str]]([])
    fresh = Slot(False)  # the link has just been read, and nothing was chosen since
    counts = Slot[dict[str, int]]({})  # how many options each clamped index had
    # Model and query.
    asked = Slot(False)  # the sentence, or what stands beside it, was changed just now
    suited = Slot[str | None](None)  # the model that the rest of the state was fitted to
    switched = Slot(False)  # another model was chosen, and the edits are still those of the last
    files = Slot[dict[str, File | None]]({})  # the visitor's own pictures, sounds, vectors
    own = Slot[tuple[str, ...]](())  # the models that the visitor brought, besides those in the box
    looked = Slot[tuple[str, ...]](())  # those that the page Checkpoint has looked at
    # Edits and selection.
    maps = Slot[tuple[str, ...]](tuple(MAPS))  # the attention maps that the model has
    history = Slot(History())
    stroke = Slot[tuple[object, str] | None](None)  # the hand that moved a slider last, its edits
    moves = Slot[dict[str, Callable[[], None]]]({})  # controls that seem to have been moved
    unfolded = Slot(False)  # the rest of the dock was drawn in the last run
    echoes = Slot[dict[str, Any]]({})  # by control: the value that was written over
    picked = Slot[Picked | None](None)  # the clicked chip, until the map that explains it stands
    row = Slot[tuple[str, int] | None](None)  # the block and row that other choices followed last
    word = Slot[tuple[str, int] | None](None)  # the same for the word on Norms
    looked_about = Slot[object](None)  # what key, zoom and overlaid heads were chosen for
    frame_number = Slot(0)  # the newest change that the server has heard of
    # Lessons.
    pages = Slot[dict[str, StreamlitPage]]({})  # the pages of the app by address
    here = Slot("")  # the address of the one that is open
    arriving = Slot("")  # a station was chosen, and its page does not stand in its state yet
    predicted_about = Slot[tuple[str, str] | None](None)  # the model and the text of the answers
    tried_later = Slot[dict[int, tuple[int, ...]]]({})  # by station: chosen after the first answer
    turned = Slot((0, False))  # a station, and whether its question is shown while presenting
    # Pages and labs.
    aligned_picked = Slot[tuple[int | None, int | None]]((None, None))  # Align: row and token
    swapped_about = Slot("")  # the sentence that the other one is a variant of
    heads_file = Slot[Any](None)  # Heads: the sentences of the visitor's file
    heads_file_came = Slot(("", 0))  # the name and size of the file that came last
    heads_ranked = Slot[dict[object, int]]({})  # by what was asked: sentences that are ranked
    heads_file_refused = Slot("")  # why it was refused
    atlas_error = Slot(("", ""))  # Corpus: where an atlas was refused, and why
    atlas_came = Slot("")  # the zip that came last
    lab = Slot("")  # the lab that was open last
    other_labs = Slot[dict[str, str]]({})  # what the other labs were left at
    widened = Slot(False)  # the width of the beam was chosen on the page itself
    played = Slot[Any](None)  # the question and the search that the step was chosen for
    station = Slot[tuple[int | None, str]]((None, ""))  # the open station of Step inside, its kind
    upload_folder = Slot[Any](None)
    upload_error = Slot(("", ""))  # where the path or the files were refused that came last, why
    hub_plan = Slot[tuple[str, Any]](("", None))  # a model of the Hub, and what it would bring
    hub_begun = Slot("")  # the one whose transfer the visitor has begun
    placed = Slot[tuple[str, ...]](())  # the uploaded files that lie in the folder already
    stored_run = Slot[Any](None)  # Checkpoint: the trace file that was dropped last, as its report
    aside = Slot[frozenset[str]](frozenset())  # those before them, which belong to another model
    refused = Slot("")  # the word of a config whose typed value could not be read
    unopened = Slot("")  # the last sentence about what cannot be opened
    name_choice = Slot[Any](None)  # Checkpoint: the table of names that is confirmed now
    renaming = Slot("")  # the opened model whose names are shown to be changed
    live = Slot[Any](None)  # the live session, over which frames come
    followed = Slot[Any](None)  # what a page was drawn without, and the run of it


private = Private()
