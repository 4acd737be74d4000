"""Uploaded text file on which heads are measured."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from ...corpus.sentence_file import sentences
from ...i18n import numeral, say
from ..session.keys import private
from ..ui.text_format import escape_markdown, spoken
from .jobs import Item

MOST = 1000  # sentences measured interactively
BYTES = 20_000_000
BOX = "heads-file"


@dataclass(frozen=True)
class SentenceFile:
    """Sentences of an uploaded file, its name, and the number ``left`` out of the measurement."""

    name: str
    sentences: tuple[Item, ...]
    left: int


def file() -> bool:
    """Draw the file uploader and its messages; return True if there are sentences."""
    given = st.file_uploader(
        say("A text of one sentence a line, or source and target with a tabulator between"),
        type=["txt", "tsv"],
        key=BOX,
        help=say("It is read here and kept in memory for this visit only."),
    )
    if given is not None and (given.name, given.size) != private.heads_file_came:
        private.heads_file_came = (given.name, given.size)
        try:
            private.heads_file = read(given.name, given.getvalue())
        except ValueError as error:
            private.heads_file = None
            private.heads_file_refused = spoken(error)
        else:
            private.heads_file_refused = ""
    if private.heads_file_refused:
        st.warning(escape_markdown(private.heads_file_refused))
    found = private.heads_file
    if found is None:
        return False
    if found.left:
        st.caption(
            say(
                "The first {count} sentences of {name} are measured, {left} are left out; "
                "`transformer-viz atlas` takes any number.",
                count=numeral(len(found.sentences), ","),
                name=escape_markdown(found.name),
                left=numeral(found.left, ","),
            )
        )
    return True


def read(name: str, content: bytes) -> SentenceFile:
    """Return the sentences of a file.

    Args:
        name: Original name of the file.
        content: Its bytes.

    Raises:
        ValueError: The file is too large, empty, not text, or has lines of different kinds.
    """
    if len(content) > BYTES:
        raise ValueError(
            say(
                "{name} has {size} MB; here up to {most} MB are read. Give a part of it, or "
                "measure all of it with transformer-viz atlas.",
                name=name,
                size=round(len(content) / 1e6),
                most=BYTES // 1_000_000,
            )
        )
    plain = re.sub(r"[^\w.-]+", "_", name)[-80:] or "text"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / plain
        path.write_bytes(content)
        try:
            found = sentences(path)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), name)) from error
    return SentenceFile(name, tuple(found[:MOST]), max(0, len(found) - MOST))
