"""Every head of a block beside the opened one, with what is chosen about them."""

from __future__ import annotations

import streamlit as st

from ..views.cells import Cells
from . import head, mount
from .scene import Scene
from .words import plain, spoken

COMPARE = {"now": "Now", "before": "Before", "difference": "Difference"}
SENTENCES = {"encoder": "Source", "decoder": "Target"}
BLOCKS = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"}


def pictures(scene: Scene, found: Cells, question: str) -> None:
    """The question, which block and which run, the overview, and the opened head."""
    _choices(scene, question)
    with st.container(key="pictures"):
        left, right = st.columns([10, 9])
        with left.container(border=True, height="stretch", key="card-overview"):
            _overview(scene, found)
        with right.container(border=True, height="stretch", key="card-head"):
            head.opened(scene, found)


def _choices(scene: Scene, question: str) -> None:
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.html(f'<h2 class="tv-question">{question}</h2>', width="content")
        with st.container(horizontal=True, width="content"):
            if len(scene.before.maps) > 1:
                st.segmented_control(
                    "block",
                    list(scene.before.maps),
                    key="block",
                    format_func=BLOCKS.__getitem__,
                    required=True,
                    label_visibility="collapsed",
                )
            compare(scene)


def compare(scene: Scene) -> None:
    """Now, before, or the difference; nothing to choose while nothing is changed."""
    st.segmented_control(
        "compare",
        list(COMPARE),
        key="compare",
        format_func=COMPARE.__getitem__,
        required=True,
        label_visibility="collapsed",
        disabled=not scene.changes,
    )


def sentence(scene: Scene) -> None:
    """Whose sentence a page speaks about: the one that the encoder reads, or the decoder."""
    if len(scene.kind.stacks) == 1:
        return
    st.segmented_control(
        "sentence",
        list(SENTENCES),
        key="stack",
        format_func=SENTENCES.__getitem__,
        required=True,
        label_visibility="collapsed",
    )


def _overview(scene: Scene, found: Cells) -> None:
    now, before = scene.shown
    place = scene.place
    try:
        mount.heads(
            now,
            place.block,
            key="heads",
            opened=_open_head,
            before=before,
            selected=(place.layer, place.head),
            rows=found.members,
            columns=found.parts,
        )
    except (ValueError, LookupError) as error:
        st.caption(plain(spoken(error)))
    layers, heads = now.thumbnail(place.block).shape[:2]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox("layer", range(layers), key="layer", format_func=lambda n: f"L{n}", width=100)
        st.selectbox("head", range(heads), key="head", format_func=lambda n: f"H{n}", width=100)
        if scene.kind.takes == "text" and scene.kind.spelled:
            st.toggle("whole words", key="words", help="Pieces of a word are put together.")
        if scene.kind.takes != "vectors":
            marks = (
                "start and end marks" if scene.kind.takes == "text" else "tokens without a patch"
            )
            st.toggle(
                marks, key="special", help="Without them each row is divided by what is left."
            )


def _open_head(layer: int, head: int) -> None:
    """A click on a tile opens that head."""
    st.session_state.update(layer=layer, head=head)
