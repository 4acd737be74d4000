"""Choice of the vocabulary files of source and target."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from ...core.errors import visible
from ...i18n import say
from ..engine import model_names
from ..ui import layout

if TYPE_CHECKING:
    from ...inference.inspection import Inspection

Look = Callable[[str], None]  # opens the model of a name
BY_NAME = ""  # the file is found by its name


def choose(path: Path, found: Inspection, name: str, look: Look) -> None:
    """Show the choice of files if their names do not determine the sides, or did not suffice.

    Args:
        path: The weights, or their folder.
        found: Inspection of the model.
        name: Name of the model.
        look: Opens a model.
    """
    from ...checkpoints.vocabularies.beside import side_files
    from ...checkpoints.vocabularies.by_size import sides_of_note
    from ...preprocessing.vocabularies import NO_SOURCE, ONE_OF_TWO

    one_side = {NO_SOURCE, ONE_OF_TWO} & set(found.notes)
    unclear = one_side or side_files(_folder(path)).unclear or found.vocabulary.typed
    taken: dict[str, str] = {}
    for note in found.notes:
        taken |= sides_of_note(note)
    if unclear or taken or _is_chosen(name):
        _draw(_files(path, name), name, look, taken)


def choose_again(path: Path, sentence: str, name: str, look: Look) -> bool:
    """Show the choice of files after an error about a vocabulary file.

    Args:
        path: The weights, or their folder.
        sentence: The error message.
        name: Name of the model.
        look: Opens a model.

    Returns:
        True if the choice is shown.
    """
    files = _files(path, name)
    about = any(re.search(rf"(?<![\w.-]){re.escape(visible(file))}", sentence) for file in files)
    return (about or _is_chosen(name)) and _draw(files, name, look, {})


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _files(path: Path, name: str) -> list[str]:
    from ...checkpoints.vocabularies.beside import offered_files

    if not model_names.is_own(name):
        return []
    return [file.name for file in offered_files(_folder(path))]


def _is_chosen(name: str) -> bool:
    return any(word in model_names.parted(name)[1] for word in model_names.VOCABULARIES)


def _draw(files: list[str], name: str, look: Look, taken: dict[str, str]) -> bool:
    """Draw the choice; `taken` is the file of each side that was chosen by its size."""
    from ...checkpoints.vocabularies.by_size import SIDES

    if not files:
        return False
    with st.container(border=True, key="card-vocabularies"):
        layout.heading(say("Which file holds the words of which side?"))
        with layout.row("bottom"):
            labels = (say("Source vocabulary"), say("Target vocabulary"))
            for word, label, side in zip(model_names.VOCABULARIES, labels, SIDES, strict=True):
                _select(word, label, files, name, look, taken.get(side, ""))
    return True


def _select(word: str, label: str, files: list[str], name: str, look: Look, by_size: str) -> None:
    now = str(model_names.parted(name)[1].get(word, BY_NAME))
    options = [BY_NAME, *dict.fromkeys((*files, *([now] if now else [])))]
    st.selectbox(
        label,
        options,
        options.index(now),
        key=f"{word}-{name}",
        format_func=partial(_shown, by_size),
        on_change=partial(_open, word, f"{word}-{name}", name, look),
        width=layout.FILE_WIDTH,
    )


def _shown(by_size: str, file: str) -> str:
    if not file and by_size:
        return say("{file}, by its size", file=by_size)
    return file or say("none, or by its name")


def _open(word: str, key: str, name: str, look: Look) -> None:
    """Open the model with the chosen file of a side."""
    place, words = model_names.parted(name)
    words = {other: value for other, value in words.items() if other != word}
    file = st.session_state[key]
    look(model_names.named(place, words | ({word: file} if file else {})))
