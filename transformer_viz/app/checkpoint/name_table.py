"""Table of proposed names for the weights of an unknown file, to be confirmed by the user."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...checkpoints.common.bundled import NAMES_FILE
from ...core.errors import visible
from ...i18n import mark, say
from ..engine import model_names
from ..engine.engine import Engine
from ..session.keys import private
from ..ui import layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import escape_markdown, spoken
from . import config_table, unstated_words, uploads
from .name_choice import NameChoice, faults, remarks
from .table_lines import EVERY, Line, lines_of, spread

if TYPE_CHECKING:
    from ...inference.inspection import Inspection
    from ..engine.model_catalog import Shelved

Look = Callable[[str], None]  # opens the model of a name
#: Errors that a table of names may solve.
ABOUT_NAMES = re.compile(r"transformer-viz names|names=|names\.json")
MANY = 100  # number of weights from which on alike layers initially share a row
HEIGHT = 420  # maximum height of the table in pixels
#: Advice for a file whose names are not mapped yet.
OWN_NAMES = mark(
    "This file names its weights in its own way. Check the proposed names below, fill in what no "
    "file says, and open the model."
)
#: End of an error message that the table below makes redundant.
ADVICE = re.compile(r"(;| To open it,) write a table of names with .*", re.DOTALL)
ROW_HEIGHT = 35  # pixels
WEIGHT, SHAPE, NAME, WHY = "weight", "shape", "name", "why"  # columns
LETTER, MARGIN, WIDEST = 5.9, 16, 460  # pixels of a letter, around a text, and maximum of a column


def ask(engine: Engine, name: str, sentence: str, look: Look, waiting: DeltaGenerator) -> bool:
    """Show the table for a model that could not be opened, if a table may help.

    Args:
        engine: Reads the file.
        name: Name of the model.
        sentence: The error message.
        look: Opens a model.
        waiting: Container for progress.

    Returns:
        True if it is shown.
    """
    shelved = engine.shelf.get(name)
    if shelved is None or not model_names.is_own(name):
        return False
    mapped = (shelved.folder / NAMES_FILE).is_file()
    about_word = mapped and re.search(r"\b(heads|norm|activation|embedding_scale)\b", sentence)
    if not (ABOUT_NAMES.search(sentence) or about_word):
        return False
    return _table(engine, name, shelved, look, waiting)


def is_first(engine: Engine, name: str) -> bool:
    """Return True if there is no names.json beside the weights yet."""
    return not (engine.shelf[name].folder / NAMES_FILE).is_file()


def without_advice(sentence: str) -> str:
    """Return an error message without the advice to write a table, for use above the table."""
    return ADVICE.sub(lambda found: "." if found[1] == ";" else "", sentence)


def without_note(found: Inspection) -> Inspection:
    """Return the inspection without the note about mapped names, which `line` shows."""
    from ...checkpoints.common.names import mapped_counts

    return replace(found, notes=tuple(one for one in found.notes if not mapped_counts(one)))


def line(engine: Engine, found: Inspection, name: str, look: Look, waiting: DeltaGenerator) -> None:
    """Draw the number of mapped names, with a button that shows the table again."""
    from ...checkpoints.common.names import mapped_counts

    mapped, whole = next(filter(None, map(mapped_counts, found.notes)), (0, 0))
    if not mapped:
        return
    place, own = model_names.parted(name)[0], model_names.is_own(name)
    with layout.row("center", key="names-mapped"):
        said = say("Names were mapped ({count} of {whole} weights)", count=mapped, whole=whole)
        st.html(f'<span data-what="names-mapped">{escape(said)}</span>', width="content")
        if own and private.renaming == place:
            st.button(say("close"), key="names-close", on_click=_show_again, args=("",))
        elif own:
            st.button(say("change names"), key="names-change", on_click=_show_again, args=(place,))
    if own and private.renaming == place:
        _table(engine, name, engine.shelf[name], look, waiting, opened=True)


def _show_again(place: str) -> None:
    private.renaming = place


def _table(
    engine: Engine,
    name: str,
    shelved: Shelved,
    look: Look,
    waiting: DeltaGenerator,
    opened: bool = False,
) -> bool:
    """Draw the table with its form. Return False if no names can be proposed."""
    from ...checkpoints.naming.name_proposals import TARGETS

    chosen = st.session_state.get(_key("layout", name))
    stated = model_names.parted(name)[1].get("layout")
    known = stated if any(stated == target.NAME for target, _ in TARGETS) else None
    wanted = known if chosen is None else chosen
    try:
        choice = _choice(engine, name, shelved, wanted, waiting)
    except Stopped:  # shows its own message, with a button to go on
        return True
    except (ValueError, LookupError, OSError) as error:
        if chosen is None:
            return False
        st.session_state.pop(_key("layout", name), None)  # the next run uses the best one again
        st.error(escape_markdown(spoken(error)))
        return True
    if not opened and not (choice.renames or (shelved.folder / NAMES_FILE).is_file()):
        return False  # the names are right, the error is another one
    with st.container(border=True, key="card-names"):
        layout.heading(say("Which weight is which?"))
        _sentence(
            say(
                "Each weight gets the name of a layout that it fits. Check the names against your "
                "code, correct what is wrong, and open the model."
            )
        )
        with layout.row("bottom"):
            _choose_layout(choice, name)
            _choose_rows(choice, name)
        _edit(choice, name)
        wrong = list(faults(choice))
        for sentence in wrong:
            st.error(escape_markdown(sentence))
        for sentence in () if wrong else remarks(choice):
            _sentence(sentence)
        if not opened:  # else they are on the page already
            config_table.said_words(name, look)
        _finish(engine, choice, name, look, bool(wrong))
    return True


def _sentence(text: str) -> None:
    st.html(f'<p class="tv-say">{escape(text)}</p>')


def _key(what: str, name: str) -> str:
    return f"names-{what}-{model_names.parted(name)[0]}"


# ---- The proposal and its table -------------------------------------------------------------


def _choice(
    engine: Engine, name: str, shelved: Shelved, wanted: str | None, waiting: DeltaGenerator
) -> NameChoice:
    """Return the table of a model, proposed once per file and layout."""
    from ...checkpoints.common.names import read_names
    from ...checkpoints.naming.name_proposals import layout_names

    place = model_names.parted(name)[0]
    upload = place.startswith(model_names.UPLOAD)  # the table writes its names.json
    about = (place, *(shelved.written[:2] if upload else shelved.written))
    known = private.name_choice
    same = known is not None and known.about == about
    if same and wanted in (None, known.proposal.layout):
        found: NameChoice = known
        return found
    proposal = run_with_progress(
        lambda task: engine.models.propose(name, wanted, task),
        key="proposing",
        label=say("Reading the names of the weights ..."),
        about=(about, wanted),
        where=waiting,
    )
    names = {row.key: row.proposed for row in proposal.rows}
    options = layout_names(proposal)
    before = None if same else read_names(None, shelved.folder)
    if before is not None:  # a user has corrected the table before
        names |= before.of(names)
        options = tuple(dict.fromkeys((*options, *filter(None, names.values()))))
    choice = NameChoice(about, proposal, options, names, together=len(names) > MANY)
    choice.build()
    private.name_choice = choice
    return choice


def _choose_layout(choice: NameChoice, name: str) -> None:
    from ...checkpoints.naming.name_proposals import TARGETS

    known = [target.NAME for target, _ in TARGETS]
    first = st.session_state.setdefault(_key("best", name), choice.proposal.layout)
    options = [first, *(one for one in known if one != first)]
    st.selectbox(
        say("Layout"),
        options,
        options.index(choice.proposal.layout),
        key=_key("layout", name),
        width=layout.SLIDER_WIDTH,
    )


def _choose_rows(choice: NameChoice, name: str) -> None:
    """Draw a checkbox for one row for all layers, if layers are alike."""
    if len(lines_of(choice.proposal.rows, choice.names, True)) == len(choice.names):
        return
    key = _key("together", name)
    together = st.checkbox(say("One row for all layers"), choice.together, key=key)
    if together != choice.together:
        choice.together = together
        choice.build()


def _edit(choice: NameChoice, name: str) -> None:
    """Draw the table, and store the edited names in the choice."""
    key = _key(f"table-{choice.proposal.layout}-{choice.turn}", name)
    if key not in st.session_state:  # first drawn, or the page was left meanwhile
        choice.shown = dict(choice.names)
    lines = lines_of(choice.proposal.rows, choice.shown, choice.together)
    edited = edit_frame(_frame(lines), _options(choice, lines), key)
    names: dict[str, str | None] = {}
    for row, chosen in zip(lines, edited[NAME], strict=True):
        name_now = chosen.strip() if isinstance(chosen, str) else ""
        names |= spread(row, name_now or None)
    choice.names = names


def edit_frame(frame: pd.DataFrame, options: list[str], key: str) -> pd.DataFrame:
    """Draw the table and return the edited one."""
    height = min(HEIGHT, ROW_HEIGHT * (len(frame) + 1) + 3)
    column = st.column_config
    titles = {
        WEIGHT: say("Weight in the file"),
        NAME: say("Name in the layout"),
        SHAPE: say("Shape"),
        WHY: say("Why"),
    }
    widths = {word: _width([title, *frame[word]]) for word, title in titles.items()}
    edited: pd.DataFrame = st.data_editor(
        frame,
        key=key,
        height=height,
        row_height=ROW_HEIGHT,
        hide_index=True,
        num_rows="fixed",
        placeholder=say("no name"),
        disabled=[WEIGHT, SHAPE, WHY],
        column_config={
            **{word: column.TextColumn(titles[word], width=widths[word]) for word in titles},
            NAME: column.SelectboxColumn(
                titles[NAME], options=options, required=False, width=widths[NAME]
            ),
        },
    )
    return edited


def _width(texts: Iterable[Any]) -> int:
    """Return the width in pixels that shows the longest text of a column in full."""
    longest = max(len(text) for text in texts if isinstance(text, str))
    return min(WIDEST, round(LETTER * longest) + MARGIN)


def _frame(lines: Iterable[Line]) -> pd.DataFrame:
    from ...checkpoints.naming.name_proposals import REASONS

    rows = [
        (
            visible(one.weight),
            one.name,
            _shape(one),
            say("you said so") if one.changed else say(REASONS[one.why]),
        )
        for one in lines
    ]
    return pd.DataFrame(rows, columns=[WEIGHT, NAME, SHAPE, WHY])


def _shape(row: Line) -> str:
    shape = " × ".join(map(str, row.shape))
    return f"{len(row.keys)} × [{shape}]" if len(row.keys) > 1 else shape


def _options(choice: NameChoice, lines: list[Line]) -> list[str]:
    """Return the names to choose from, those with a star first, for rows of several layers."""
    alike = {one.name: None for one in lines if one.name and EVERY in one.name}
    if any(len(one.keys) > 1 for one in lines):
        numbered = (re.sub(r"(?<=\.)\d+(?=\.)", EVERY, name, count=1) for name in choice.options)
        alike |= dict.fromkeys(name for name in numbered if EVERY in name)
    return [*alike, *choice.options]


# ---- Use of the table -----------------------------------------------------------------------


def _finish(engine: Engine, choice: NameChoice, name: str, look: Look, faulty: bool) -> None:
    """Draw the form that opens an upload, or a download of the table and a form if it helps."""
    upload = name.startswith(model_names.UPLOAD)
    if not upload:
        _download(choice, name, faulty)
    if name.startswith(model_names.HUB):
        return
    button = say("Open with these names") if upload else say("Open with names.json")
    words = unstated_words.form(choice.proposal.assumed, name, _key("form", name), button)
    if words is None or faulty:
        return
    place = model_names.parted(name)[0]
    if upload:
        try:
            uploads.room(engine).write_names(place, choice.names)
        except (ValueError, OSError) as error:
            st.error(escape_markdown(spoken(error)))
            return
    elif is_first(engine, name):
        st.error(say("There is no names.json beside the weights yet. Put it there, then open."))
        return
    if "layout" in words or choice.proposal.layout != st.session_state.get(_key("best", name)):
        words["layout"] = choice.proposal.layout
    private.renaming = ""
    look(model_names.named(place, words))
    st.rerun()


def _download(choice: NameChoice, name: str, faulty: bool) -> None:
    if name.startswith(model_names.HUB):
        _sentence(
            say(
                "Put names.json beside the weights in a folder of your own and open that; nothing "
                "is written here."
            )
        )
    else:
        _sentence(say("Put names.json beside the weights on the server; nothing is written there."))
    st.download_button(
        say("Download names.json"),
        json.dumps(choice.names, indent=1, ensure_ascii=False) + "\n",
        NAMES_FILE,
        "application/json",
        key=_key("download", name),
        disabled=faulty,
        on_click="ignore",
    )
