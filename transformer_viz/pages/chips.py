"""The translation and both sentences as chips, linked with the picture that a page is about."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np
import streamlit as st

from ..components import Chip, ChipRow, Picked
from ..records import Tokens
from ..views.cells import Cells
from . import mount, visit
from .edits import hidden
from .scene import Scene
from .words import listed, spelled_in_bytes

PICKED = "_picked"


def sentences(
    scene: Scene, rows: list[ChipRow], chart: str, chosen: Callable[[Picked], None]
) -> None:
    """The translation to read, and the chips; ``chart`` is the picture that is lit with them."""
    _notices(scene)
    held = '<span class="tv-quiet">held</span> ' if scene.question.target else ""
    text = f'<span data-what="translation">{escape(scene.answer.text)}</span>'
    st.html(f'<p class="tv-lead">{held}{text}</p>')
    mount.tokens(
        rows,
        key="tokens",
        chart=chart,
        dark=visit.dark(),
        chosen=chosen,
        theme=visit.recolour,
    )


def _notices(scene: Scene) -> None:
    """What the vocabulary cannot read as it stands, before anyone trusts the translation."""
    lost, spelled = scene.engine.lost(scene.question), spelled_in_bytes(scene.before.source)
    if lost:
        st.info(f"The model's vocabulary cannot see {listed(lost)}: it reads the rest.")
    if spelled:
        st.info(
            f"The model's vocabulary has no piece for {listed(spelled)}: it reads bytes instead, "
            "which it has hardly met in training. Do not trust this translation."
        )


def of_map(scene: Scene, found: Cells) -> list[ChipRow]:
    """Chips that are rows and columns of the opened head; hidden ones are struck out."""
    place, lit = scene.place, st.session_state["token"]
    made = []
    for side, tokens in _sides(scene):
        looked_at = side == ("target" if place.block == "decoder" else "source")
        gone = hidden(scene.changes, place) if looked_at else ()
        own = [row_token(place.block, side, token) for token in range(len(tokens))]
        chips = [
            Chip(
                text,
                row=found.row_of(own[token]),
                column=found.column_of(token) if looked_at else None,
                on=own[token] is not None and own[token] == lit,
                gone=token in gone,
                mark=tokens.special[token],
            )
            for token, text in enumerate(tokens.labels)
        ]
        made.append(ChipRow(side, chips))
    return made


def of_stack(scene: Scene, stack: str, lit: int, axis: str) -> list[ChipRow]:
    """Chips of which one sentence runs along an axis (``row`` or ``column``) of the picture."""
    own = "source" if stack == "encoder" else "target"
    made = []
    for side, tokens in _sides(scene):
        chips = [
            Chip(
                text,
                on=side == own and token == lit,
                mark=tokens.special[token],
                row=token if (side, axis) == (own, "row") else None,
                column=token if (side, axis) == (own, "column") else None,
            )
            for token, text in enumerate(tokens.labels)
        ]
        made.append(ChipRow(side, chips))
    return made


def _sides(scene: Scene) -> list[tuple[str, Tokens]]:
    sides = [("source", scene.now.source)]
    return sides if scene.now.target is None else [*sides, ("target", scene.now.target)]


def row_token(block: str, side: str, token: int) -> int | None:
    """The model's row that a token stands at; None where the map has no row for it.

    In the decoder a row bears the word that it produces, so a target token stands at the row
    before its own input, and the start token at none.
    """
    if block == "encoder":
        return token if side == "source" else None
    return token - 1 if side == "target" and token > 0 else None


def keep(chip: Picked) -> None:
    """Keep what was clicked until the map that explains it stands."""
    st.session_state[PICKED] = chip


def settle_picked(found: Cells) -> None:
    """A clicked chip chooses its row; one that is only a column, the row that looks at it most."""
    chip = st.session_state.pop(PICKED, None)
    if chip is None:
        return
    row, column = chip.row, chip.column
    if row is None and column is not None and column < found.weights.shape[1]:
        row = int(np.argmax(found.weights[:, column]))
    if row is not None and row < len(found.members):
        st.session_state["token"] = found.members[row][0]
