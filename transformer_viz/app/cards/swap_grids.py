"""Grids of patches: one per map or stack, with clicks to keep one, and the strongest as a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from ... import views
from ...core.interventions import Edit
from ...i18n import mark, numeral, say
from ..engine.query import Question
from ..engine.swap_jobs import Compared, Grid, edit_of, grids
from ..session import changes, visit
from ..session.scene import Scene
from ..ui import layout
from ..ui.progress import run_with_progress
from ..ui.text_format import escape_markdown
from .edit_chips import said
from .plotly_chart import chart, clicked

TITLES = {
    "heads": {
        "encoder": mark("Encoder: which head carries it?"),
        "decoder": mark("Decoder: which head carries it?"),
        "cross": mark("Cross-attention: which head carries it?"),
    },
    "patterns": {
        "encoder": mark("Encoder: whose look carries it?"),
        "decoder": mark("Decoder: whose look carries it?"),
        "cross": mark("Cross-attention: whose look carries it?"),
    },
    "stream": {
        "encoder": mark("Encoder: at which word does it stand, behind which layer?"),
        "decoder": mark("Decoder: at which word does it stand, behind which layer?"),
    },
}
LISTED = 5  # strongest patches that are listed


@dataclass(frozen=True)
class Asked:
    """Patching setup of the page: the kind, both sentences and their pair of tokens."""

    scene: Scene
    what: str
    other: str
    compared: Compared

    @property
    def parts(self) -> tuple[str, ...]:
        """Maps of this model, or stacks for the residual stream."""
        maps = self.scene.before.maps
        return tuple(name for name in maps if name in TITLES[self.what])

    def edit(self, part: str, row: int, column: int) -> Edit:
        """Return one cell as an edit."""
        other = with_second(self.scene.question, self.other)
        return edit_of(self.what, part, other, row, column)


def with_second(question: Question, text: str) -> str | tuple[str, str]:
    """Return a text with the second one of a pair, if the question has one."""
    return (text, question.second) if question.second else text


def grid(asked: Asked, part: str) -> Grid:
    """Return the patches of one part, with a progress bar if they take long."""
    scene, compared = asked.scene, asked.compared
    words = (
        with_second(scene.question, scene.question.text),
        with_second(scene.question, asked.other),
        compared.held,
        compared.wanted,
        asked.what,
        part,
        scene.question.masked,
    )
    found: Grid = run_with_progress(
        lambda task: scene.engine.ask(scene.question.model, grids, *words, task=task, stepped=True),
        key=f"swap-{part}",
        label=say("Swapping one part after the other ..."),
        about=words,
    )
    return found


def picture(asked: Asked, part: str, found: Grid) -> None:
    """Draw one grid; a click keeps a patch as an edit, or removes it."""
    stream = asked.what == "stream"
    columns = _columns(asked, part, found.moved.shape[1])
    rows = None
    if stream:
        rows = [say("behind L{layer}", layer=layer) for layer in range(len(found.moved))]
    kept = {
        (row, column)
        for row, column in np.ndindex(*found.moved.shape)
        if asked.edit(part, row, column) in asked.scene.changes.edits
    }
    draw = partial(views.swap_grid, found.moved, columns, rows, kept=kept, dark=visit.dark())
    key = _key(asked, part)
    chart(key, say(TITLES[asked.what][part]), draw, partial(_clicked, asked, part, key))


def _key(asked: Asked, part: str) -> str:
    return f"swap-{asked.what}-{part}"


def _columns(asked: Asked, part: str, count: int) -> list[str]:
    if asked.what != "stream":
        return [f"H{head}" for head in range(count)]
    compared = asked.compared
    beside = part == "decoder" and compared.target is not None
    return list((compared.target or ()) if beside else compared.source)


def _clicked(asked: Asked, part: str, key: str) -> None:
    chosen = clicked(key)
    if chosen:
        toggle(asked.edit(part, chosen[0], chosen[1]))


def toggle(edit: Edit) -> None:
    """Add a patch to the edits, or remove it."""
    now = changes.intervention()
    edits = (*now.edits, edit)
    changes.change(now.without(edit) if edit in now.edits else type(now)(edits))


def strongest(asked: Asked, found: Mapping[str, Grid]) -> None:
    """List the patches with the largest effect, each with a button to keep it."""
    cells = [
        (float(one.moved[row, column]), part, row, column)
        for part, one in found.items()
        for row, column in np.ndindex(*one.moved.shape)
        if np.isfinite(one.moved[row, column])
    ]
    cells.sort(key=lambda cell: -cell[0])
    layout.heading(say("The swaps that move it farthest"), 3)
    for number, (value, part, row, column) in enumerate(cells[:LISTED]):
        edit = asked.edit(part, row, column)
        kept = edit in asked.scene.changes.edits
        with layout.row("center", spread=True, key=f"swap-row-{number}"):
            words = escape_markdown(said(edit, asked.scene.before))
            st.markdown(f"**{numeral(value, '+.2f')}** &nbsp; {words}")
            st.button(
                say("take back") if kept else say("keep it as a change"),
                key=f"swap-keep-{number}",
                on_click=toggle,
                args=(edit,),
            )


def table(asked: Asked, found: Mapping[str, Grid]) -> pd.DataFrame:
    """Return every patch as a row: part, layer, head or token with its label, and its effect."""
    rows = []
    for part, one in found.items():
        for row, column in np.ndindex(*one.moved.shape):
            line: dict[str, object] = {"part": part, "layer": row}
            if asked.what == "stream":
                word = _columns(asked, part, one.moved.shape[1])[column]
                line |= {"token": column, "word": word}
            else:
                line |= {"head": column}
            rows.append(line | {"moved": float(one.moved[row, column])})
    return pd.DataFrame(rows)
