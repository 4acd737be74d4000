"""Every head of a block beside the open one, with their view controls."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from ...components.atlas import TITLES
from ...i18n import mark, say
from ..render import payloads
from ..session import widget_sync
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..session.view_options import FURTHER
from ..ui import components, layout
from ..ui.text_format import escape_markdown, spoken
from . import head_card

COMPARE = {"now": mark("Now"), "before": mark("Before"), "difference": mark("Difference")}
SENTENCES = {"encoder": mark("Source"), "decoder": mark("Target")}
ABREAST = {"one": mark("One block"), "all": mark("All blocks")}


def pictures(scene: Scene, question: str, opened: Callable[[], None]) -> None:
    """Draw the question, the choice of blocks, all heads, and the open one with ``opened``."""
    _choices(scene, question)
    wide = scene.look.blocks == "all"
    with st.container(key="pictures-wide" if wide else "pictures"):
        left, right = st.columns(layout.WIDER_LEFT)
        with left.container(border=True, height="stretch", key="card-overview"):
            all_heads(scene)
        with right.container(border=True, height="stretch", key="card-head"):
            opened()


def _choices(scene: Scene, question: str) -> None:
    with layout.row("center", spread=True, key="hand-blocks"):
        layout.heading(question, fit=True)
        with layout.row(fit=True):
            block(scene)
            if len(scene.before.maps) > 1:
                st.segmented_control(
                    say("blocks"),
                    list(ABREAST),
                    key="blocks",
                    format_func=lambda blocks: say(ABREAST[blocks]),
                    required=True,
                    label_visibility="collapsed",
                )


def block(scene: Scene) -> None:
    """Draw the choice of block; nothing if the model has only one."""
    if len(scene.before.maps) > 1:
        st.segmented_control(
            say("block"),
            list(scene.before.maps),
            key="block",
            format_func=lambda name: say(TITLES[name]),
            required=True,
            label_visibility="collapsed",
        )


def compare(scene: Scene) -> None:
    """Draw the choice of now, before, or the difference; disabled without edits."""
    st.segmented_control(
        say("compare"),
        list(COMPARE),
        key="compare",
        format_func=lambda run: say(COMPARE[run]),
        required=True,
        label_visibility="collapsed",
        disabled=not scene.changes,
    )


def sentence(scene: Scene) -> None:
    """Draw the choice of sentence: that of the encoder, or of the decoder."""
    if len(scene.kind.stacks) == 1:
        return
    st.segmented_control(
        say("sentence"),
        list(SENTENCES),
        key="stack",
        format_func=lambda stack: say(SENTENCES[stack]),
        required=True,
        label_visibility="collapsed",
    )


def all_heads(
    scene: Scene,
    data: Callable[[], bytes] | None = None,
    drawn: components.Hear = head_card.take_drawing,
) -> None:
    """Draw every head of the chosen block as a small map; a click opens one.

    Args:
        scene: State of the screen.
        data: Maps that are sorted and coloured by other numbers than the run's, if any.
        drawn: Called with the current display options.
    """
    try:
        components.atlas(
            payloads.atlas(scene) if data is None else data(),
            key="atlas",
            opened=_open_head,
            overlaid=_overlay_heads,
            drawn=drawn,
        )
    except (ValueError, LookupError) as error:
        st.caption(escape_markdown(spoken(error)))
    layers, heads = scene.now.thumbnail(scene.place.map_name).shape[:2]
    with layout.row("bottom", key="fold-overview"):
        st.selectbox(
            say("layer"),
            range(layers),
            key="layer",
            format_func=lambda n: f"L{n}",
            width=layout.INDEX_WIDTH,
        )
        st.selectbox(
            say("head"),
            range(heads),
            key="head",
            format_func=lambda n: f"H{n}",
            width=layout.INDEX_WIDTH,
        )
        if scene.is_long:  # its map is drawn token by token
            return
        if scene.kind.takes == "text" and scene.kind.spelled:
            help_words = say("Pieces of a word are put together.")
            st.toggle(say("whole words"), key="words", help=help_words)
        if scene.kind.takes != "vectors":
            marks = (
                say("start and end marks")
                if scene.kind.takes == "text"
                else say("marks, and silence after the end")
                if scene.kind.takes == "audio"
                else say("tokens without a patch")
            )
            st.toggle(
                marks, key="special", help=say("Without them each row is divided by what is left.")
            )


def _open_head(said: object) -> None:
    """Open the head of a clicked tile."""
    match said:
        case [str(block), int(layer), int(head)] if _known(block, layer, head):
            widget_sync.choose(block=block, layer=layer, head=head)


def _overlay_heads(said: object) -> None:
    """Overlay these heads on the open one as lines, and switch to the line view."""
    if isinstance(said, list) and all(_is_head(state.block, one) for one in said):
        chosen = tuple(dict.fromkeys(map(tuple, said)))
        state.overlay = chosen[-FURTHER:]
        widget_sync.choose(view="lines")


def _is_head(block: str, said: object) -> bool:
    match said:
        case [int(layer), int(head)]:
            return _known(block, layer, head)
    return False


def _known(block: str, layer: int, head: int) -> bool:
    """Return True if such a head is possible; `clamp_index` limits it to existing ones."""
    return block in private.maps and layer >= 0 and head >= 0
