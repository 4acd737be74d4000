"""Selection of a token across pages: row of a head, word on Norms, bar of the outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import streamlit as st

from ...components.ruler import row_sentence
from ...core.sites import MAPS
from . import view_options
from .keys import private
from .scene import Scene
from .widget_sync import choose


def follow_row(scene: Scene) -> Scene:
    """Select a newly chosen row on Norms too; a decoder's row also selects its output token."""
    state, block = st.session_state, scene.place.map_name
    if _moved("row", block, state["token"]):
        stack = MAPS[block][0]
        if block != "encoder" or scene.kind.fills:
            choose(answer=state["token"])
        last = len(scene.now.words_of(stack)) - 1
        choose(stack=stack, word=min(last, state["token"] + _ahead(scene)))
        private.word = (stack, state["word"])
    return replace(scene, look=view_options.look())


def follow_word(scene: Scene) -> None:
    """Select a word newly chosen on Norms as row of the heads, or as column of cross attention."""
    state, block = st.session_state, scene.place.map_name
    if not _moved("word", state["stack"], state["word"]):
        return
    if MAPS[block][0] == state["stack"]:
        choose(token=max(0, state["word"] - _ahead(scene)))
        private.row = (block, state["token"])
    elif block == "cross":
        choose(key=state["word"])


def follow_bar(said: object) -> None:
    """Select the row of a clicked outcome bar."""
    match said:
        case {"row": str(spot)}:
            sentence, _, token = spot.partition(":")
            if not (token.isascii() and token.isdecimal() and len(token) < 6):
                return
            state = st.session_state
            choose(answer=int(token))
            if (sentence == "source") == (state["block"] == "encoder"):
                choose(token=int(token))


def _ahead(scene: Scene) -> int:
    """Return the offset between a row and its label: a decoder's row is named by the next token."""
    return int(row_sentence(scene.before, scene.place.map_name) == "produced")


def _moved(name: Literal["row", "word"], place: str, token: int) -> bool:
    """Return True if another token of the same block or stack was chosen since the last call."""
    was = getattr(private, name)
    setattr(private, name, (place, token))
    return was is not None and was[0] == place and was[1] != token
