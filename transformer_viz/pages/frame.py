"""What stands around the pictures: the sentence, examples, the model, and the footer."""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

from ..colours import palette
from ..records import Trace
from . import boxes, visit
from .engine import Engine
from .kinds import Kind

STYLE = Path(__file__).with_name("style.css")
ATTENTION_NOTE = "attention weights are not explanations"


def style() -> None:
    """The few corrections to Streamlit's look, and the colours they need."""
    colours = palette(visit.dark())
    names = {"accent": colours.accent, "warm": colours.warm, "card": colours.card}
    accents = f":root {{ {' '.join(f'--tv-{name}: {value};' for name, value in names.items())} }}"
    st.html(f"<style>{STYLE.read_text(encoding='utf-8')}\n{accents}</style>")


def sentence_box(engine: Engine) -> None:
    """What the model at hand is asked: a box for what it takes, the model, examples to click."""
    kind = engine.kind(st.session_state["model"]) or Kind()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        framed = boxes.box(engine, kind)
        st.selectbox(
            "Model",
            visit.models(engine),
            key="model",
            on_change=visit.asked,
            format_func=lambda name: engine.shelf[name].label,
            width=210,
        )
        framed += ("model", *boxes.choices(kind))
    boxes.examples(engine, kind)
    visit.frame_has(framed)


def footer(engine: Engine, trace: Trace | None, seconds: float | None) -> None:
    """Model, checkpoint, device, and how long the last change took on the server."""
    shelved = engine.shelf[st.session_state["model"]]
    parts = [shelved.called]
    if shelved.hash:
        parts[0] += f" · sha256 {shelved.hash[:8]}"
    if trace is not None:
        words = (trace.manifest.get("device"), trace.manifest.get("dtype"))
        parts.append(" · ".join(str(word) for word in words if word))
    if seconds is not None:
        parts.append(f"last change: {1000 * seconds:.0f} ms on the server")
    spans = "".join(f"<span>{escape(part)}</span>" for part in parts)
    here = escape(urlencode(st.query_params.to_dict()))  # it is a new visit, with the same link
    note = f'<a href="about?{here}" target="_self">{ATTENTION_NOTE}: why?</a>'
    st.html(f'<div class="tv-foot">{spans}{note}</div>')
