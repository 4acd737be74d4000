"""Output and sentences as chips, linked with the picture of a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...components import Chip, ChipRow, Picked, spot
from ...components.ruler import Ruler
from ...components.tokens import chip_sides, map_chips
from ...core.trace_parts import Tokens
from ...i18n import mark, say
from ...metrics.attention.map_cells import Cells
from ...preprocessing.tokenizers import visible
from ...preprocessing.typed_text import TypedText
from ..session import visit, widget_sync
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..ui import components
from ..ui.text_format import first_few, spelled_in_bytes
from .written import written

#: Notes on characters that are read as bytes: by a translator, or by another model.
BYTES = {
    True: mark(
        "The model's vocabulary has no piece for {letters}: it reads bytes instead, which it has "
        "hardly met in training. Do not trust this translation."
    ),
    False: mark(
        "The model's vocabulary has no piece for {letters}: it reads bytes instead, which it has "
        "hardly met in training. Do not trust what it says."
    ),
}


def sentences(
    scene: Scene,
    rows: list[ChipRow],
    chosen: Callable[[Picked], None],
    chart: str | None = None,
    sides: tuple[Ruler | None, Ruler | None] = (None, None),
) -> DeltaGenerator:
    """Draw the output and the chips; a Plotly ``chart`` is highlighted with them on its ``sides``.

    Patches and frames are no text: a picture and a sound have no chips. The returned container is
    filled by `written.written_freely`.
    """
    _notices(scene)
    place = written(scene)
    if scene.kind.takes in ("image", "audio"):
        rows = [row for row in rows if row.name == "target"]
    words = bool(rows)
    components.tokens(  # also without tokens: it reports when the page turns dark
        rows,
        key="tokens" if words else "no-tokens",
        chart=chart,
        sides=sides,
        dark=visit.dark(),
        chosen=lambda chip: chosen(replace(chip, token=numbered(scene, chip.token))),
        theme=visit.recolour,
    )
    return place


def no_words() -> None:
    """Draw the component without chips, for long texts; it reports when the page turns dark."""
    components.tokens(
        [],
        key="no-tokens",
        dark=visit.dark(),
        chosen=lambda chip: None,
        theme=visit.recolour,
    )


def _notices(scene: Scene) -> None:
    """Show notes on characters that the vocabulary cannot read unchanged."""
    lost, spelled = scene.engine.lost(scene.question), spelled_in_bytes(scene.before.source)
    if lost:
        st.info(
            say(
                "The model's vocabulary cannot see {letters}: it reads the rest.",
                letters=first_few(lost),
            )
        )
    read = _read_as(scene)
    if read:
        pairs = [f"{_named(typed)} → {one or say('nothing')}" for typed, one in read.items()]
        st.info(
            say(
                "The model's vocabulary lacks some typed characters and reads others instead: "
                "{pairs}.",
                pairs=first_few(pairs),
            )
        )
    if spelled:
        st.info(say(BYTES[scene.kind.translates], letters=first_few(spelled)))


def _read_as(scene: Scene) -> dict[str, str]:
    """Return the replacements of typed characters that a bundled model's vocabulary lacks."""
    engine, asked = scene.engine, scene.question
    if not asked.text or engine.example(asked) is not None:
        return {}
    tokenizer = engine.model(asked.model).tokenizer
    return tokenizer.read_as(asked.text + asked.second) if isinstance(tokenizer, TypedText) else {}


def _named(typed: str) -> str:
    """Return a typed character with its code point, to distinguish apostrophes and dashes."""
    code = f"U+{ord(typed[0]):04X}"
    return code if visible(typed) == code else f"{visible(typed)} ({code})"


def rows_for_map(scene: Scene, found: Cells) -> list[ChipRow]:
    """Return chips as rows and columns of the open head; hidden ones are struck out."""
    made = []
    for side, tokens in _sides(scene):
        chips = map_chips(scene.now, side, tokens, scene.place, found, scene.changes, state.token)
        made.append(ChipRow(side, without_patches(scene, side, chips)))
    return made


def without_patches(scene: Scene, side: str, chips: list[Chip]) -> list[Chip]:
    """Return the chips of a text, with a single chip for the picture beside it."""
    patches = scene.before.patches
    if patches is None or side == "target" or not scene.kind.eyes:
        return chips
    rows, columns = patches.shape
    name = say("picture, {rows} × {columns} patches", rows=rows, columns=columns)
    first, last = int(patches[0, 0]), int(patches[-1, -1])
    return [*chips[:first], Chip(name, mark=True), *chips[last + 1 :]]


def numbered(scene: Scene, chip: int) -> int:
    """Return the token number of a chip, after a picture that has a single chip."""
    patches = scene.before.patches
    if patches is None or not scene.kind.eyes or chip <= int(patches[0, 0]):
        return chip
    return chip + patches.size - 1


def rows_for_stack(scene: Scene, stack: str, lit: int, axis: str) -> list[ChipRow]:
    """Return chips with one sentence along an axis (``row`` or ``column``) of the picture."""
    sides = _sides(scene)
    own = sides[0][0] if stack == "encoder" else sides[-1][0]
    made = []
    for side, tokens in sides:
        chips = [
            Chip(
                text,
                on=side == own and token == lit,
                mark=tokens.special[token],
                row=token if (side, axis) == (own, "row") else None,
                column=token if (side, axis) == (own, "column") else None,
                lights=(spot(side, token),) * 2,
            )
            for token, text in enumerate(tokens.labels)
        ]
        made.append(ChipRow(side, without_patches(scene, side, chips)))
    return made


def sides_of(scene: Scene, stack: str, axis: str) -> tuple[Ruler | None, Ruler | None]:
    """Return the sides of a picture with one sentence along an axis (see `rows_for_stack`)."""
    sides = _sides(scene)
    own, tokens = sides[0] if stack == "encoder" else sides[-1]
    ruler = Ruler(own, tokens.labels, tuple((token,) for token in range(len(tokens))))
    return (ruler, None) if axis == "row" else (None, ruler)


def _sides(scene: Scene) -> list[tuple[str, Tokens]]:
    return chip_sides(scene.now, vectors=scene.kind.takes == "vectors")


def remember_click(chip: Picked) -> None:
    """Keep a click until the map that it refers to is drawn."""
    private.picked = chip


def toggle_mask(tokens: Tokens) -> Callable[[Picked], None]:
    """Return a callback that masks a clicked token, or unmasks it; special tokens stay unmasked."""

    def turned(chip: Picked) -> None:
        masked = set(state.masked)
        if chip.token in masked or not tokens.special[chip.token]:
            state.masked = tuple(sorted(masked ^ {chip.token}))
        widget_sync.choose(answer=chip.token)
        remember_click(chip)

    return turned


def apply_picked(found: Cells) -> None:
    """Choose the row of a clicked chip.

    A chip with a column only chooses that column and the row that attends to it most.
    """
    chip = private.picked
    del private.picked
    if chip is None:
        return
    row, column = chip.row, chip.column
    if row is None and column is not None and column < found.weights.shape[1]:
        row = int(np.argmax(found.weights[:, column]))
        widget_sync.choose(key=found.parts[column][0])
    if row is not None and row < len(found.members):
        widget_sync.choose(token=found.members[row][0])
