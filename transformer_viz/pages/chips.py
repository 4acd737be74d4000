"""Both sentences as chips, linked with the opened head: which row and column each token is."""

from __future__ import annotations

import numpy as np
import streamlit as st

from ..components import Chip, ChipRow, Picked
from ..records import Tokens
from ..views.cells import Cells
from . import mount, visit
from .edits import hidden
from .scene import Scene

PICKED = "_picked"
CHART = "head-map"


def sentences(scene: Scene, found: Cells) -> None:
    """The chips of source and target; the chosen one is lit, hidden ones are struck out."""
    sides = [("source", scene.now.source)]
    if scene.now.target is not None:
        sides.append(("target", scene.now.target))
    mount.tokens(
        [ChipRow(side, _chips(scene, found, side, tokens)) for side, tokens in sides],
        key="tokens",
        chart=CHART,
        dark=visit.dark(),
        chosen=_keep,
        theme=visit.recolour,
    )


def _chips(scene: Scene, found: Cells, side: str, tokens: Tokens) -> list[Chip]:
    place, lit = scene.place, st.session_state["token"]
    looked_at = side == ("target" if place.block == "decoder" else "source")
    gone = hidden(scene.changes, place) if looked_at else ()
    chips = []
    for token, (text, mark) in enumerate(zip(tokens.labels, tokens.special, strict=True)):
        own = row_token(place.block, side, token)
        chips.append(
            Chip(
                text,
                row=found.row_of(own),
                column=found.column_of(token) if looked_at else None,
                on=own is not None and own == lit,
                gone=token in gone,
                mark=mark,
            )
        )
    return chips


def row_token(block: str, side: str, token: int) -> int | None:
    """The model's row that a token stands at; None where the map has no row for it.

    In the decoder a row bears the word that it produces, so a target token stands at the row
    before its own input, and the start token at none.
    """
    if block == "encoder":
        return token if side == "source" else None
    return token - 1 if side == "target" and token > 0 else None


def _keep(chip: Picked) -> None:
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
