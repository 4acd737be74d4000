"""Exports: the picture, the numbers, the run, one page with all heads, and the link."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from ...core.tiles import LONG
from ...i18n import mark, say, speaking
from ...views.csv_text import csv_text
from ...views.export.file_formats import FORMATS, exported
from ..session.keys import private
from ..session.scene import Scene, scene_at
from ..shell.share import written_link
from ..ui import layout

PRINTED = ("png", "svg", "pdf")
MOST_WORDS = 256  # along a side, up to which lines can be read on paper
PART = mark(
    "Zoom in for its numbers: CSV and NPZ hold the part in view, of at most {most:,} × {most:,} "
    "weights."
)
LABELS = {"html": mark("one page"), "safetensors": mark("trace file")}
TYPES = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "csv": "text/csv",
    "npz": "application/octet-stream",
    "safetensors": "application/octet-stream",
    "html": "text/html",
    "json": "application/json",
    "pharaoh": "text/plain",
}


def take(scene: Scene) -> None:
    """Draw a button that opens the export panel; each file is made on demand."""
    tip = say("Pictures, numbers, a page to send, the link.")
    panel = layout.unfolding(say("Take it with you"), key="take-panel", tip=tip)
    if panel is None:
        return
    with panel:
        if scene.is_long:
            _head_of_long(scene)
        else:
            _row(scene, say("This head"), dict.fromkeys((*PRINTED, "csv", "npz"), picture(scene)))
        _row(scene, say("All heads of this block"), dict.fromkeys(PRINTED, "atlas"))
        _row(scene, say("Everything"), {"html": "report", "safetensors": "run"})
        st.markdown(f"**{say('The link')}**")
        st.code(address(), language=None, wrap_lines=True)


def _head_of_long(scene: Scene) -> None:
    """Draw the files of a head too long for its matrix; numbers are those of the visible part."""
    kinds = dict.fromkeys(PRINTED, "map")
    part = in_view(scene)
    if part is not None:
        kinds |= dict.fromkeys(("csv", "npz"), "part")
    _row(scene, say("This head"), kinds)
    if part is None:
        st.caption(say(PART, most=LONG))


def in_view(scene: Scene) -> tuple[slice, slice] | None:
    """Return rows and columns of the visible part of a long map; None if they are too many."""
    shape = scene.now.map_shape(scene.place.map_name, scene.place.layer)
    zoom = scene.look.zoom or tuple((0, size) for size in shape)
    rows, columns = (slice(*span) for span in zoom)
    if (rows.stop - rows.start) * (columns.stop - columns.start) > LONG**2:
        return None
    fits = all(
        0 <= side.start < side.stop <= size
        for side, size in zip((rows, columns), shape, strict=True)
    )
    return (rows, columns) if fits else None


def table_files(table: pd.DataFrame, card: Mapping[str, object], name: str) -> None:
    """Offer a table as CSV, and its run card."""
    with layout.row():
        text_file("CSV", csv_text(table, card), f"{name}.csv", key=f"take-{name}.csv")
        card_file(card, name)


def card_file(card: Mapping[str, object], name: str) -> None:
    """Offer a run card as JSON."""
    told = json.dumps(dict(card), indent=2, ensure_ascii=False)
    file = f"{name}.card.json"
    text_file(say("run card"), told, file, key=f"take-{file}")


def text_file(label: str, text: str, file_name: str, *, key: str) -> None:
    """Offer a text as a file; the extension of the name gives its type."""
    st.download_button(
        label,
        data=text.encode(),
        file_name=file_name,
        mime=TYPES[file_name.rpartition(".")[2]],
        key=key,
        on_click="ignore",
    )


def picture(scene: Scene) -> str:
    """Return the picture type of the head for print: lines if shown and few enough, else map."""
    words = scene.now.block(scene.place.map_name, scene.place.layer).weights.shape[1:]
    return "lines" if scene.look.view == "lines" and max(words) <= MOST_WORDS else "map"


def address() -> str:
    """Return the URL of the current screen."""
    return written_link(st.context.url or "", st.query_params.to_dict(), private.here)


def _row(scene: Scene, title: str, kinds: dict[str, str]) -> None:
    st.markdown(f"**{title}**")
    with layout.row():
        for kind, shown in kinds.items():
            st.download_button(
                say(LABELS[kind]) if kind in LABELS else kind.upper(),
                data=maker(scene, kind, shown),
                file_name=file_name(scene, kind, shown),
                mime=TYPES[kind],
                help=say(FORMATS[kind]),
                key=f"take-{shown}-{kind}",
                on_click="ignore",
            )


def maker(scene: Scene, kind: str, shown: str) -> Callable[[], bytes]:
    """Return a function that makes a file of the current screen.

    It holds no run: buttons live as long as the session, and the cache holds the runs. It uses the
    page's language wherever it is called.
    """
    asked = (scene.engine, scene.question, scene.kind, scene.place, scene.changes, scene.look)
    long = scene.is_long
    part = in_view(scene) if shown == "part" else None

    def make() -> bytes:
        again = scene_at(*asked, long=long)
        place, look = again.place, again.look
        now, before = (again.now, again.before) if kind == "html" else again.shown
        options: dict[str, Any] = {"words": look.words, "special": look.special}
        if long:
            options = {}
        if part is not None:
            options |= {"rows": part[0], "columns": part[1]}
        if kind in PRINTED:
            options |= printed_look(again, shown)
        at = (place.map_name, place.layer, place.head)
        compared = before if before is not now and (kind == "html" or not long) else None
        with speaking(look.lang):
            return exported(now, kind, shown, at, before=compared, **options)

    return make


def printed_look(scene: Scene, shown: str) -> dict[str, Any]:
    """Return the options of a picture for print, so that it looks as on the screen."""
    look = scene.look
    how: dict[str, Any] = {"ramp": look.ramp, "threshold": look.threshold}
    if shown == "lines":
        return how | {"also": look.overlay, "top": look.top}
    how["gamma"] = look.gamma
    if shown == "atlas":
        return how | {"common": look.scale == "common"}
    return how | {"zoom": look.zoom} | ({} if scene.is_long else {"most": scene.most})


def file_name(scene: Scene, kind: str, shown: str) -> str:
    """Return a file name from model, block and head."""
    place = scene.place
    model = re.sub(r"[^\w.-]+", "-", str(scene.now.manifest.get("model", "model"))).strip("-.")
    head = {"atlas": "all-heads", "report": "report", "run": "run"}
    if shown == "part":
        head["part"] = f"L{place.layer}-H{place.head}-part"
    name = f"{model}-{place.map_name}-{head.get(shown, f'L{place.layer}-H{place.head}')}"
    if scene.changes and shown not in ("report", "run"):  # these hold the changed run, or both
        name += f"-{scene.look.compare}"
    return f"{name}.{kind}"
