"""What stands around the pictures: the sentence, examples, the model, and the footer."""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

from ..records import Trace
from ..views.theme import palette
from . import visit
from .engine import Engine
from .link import BEAMS

STYLE = Path(__file__).with_name("style.css")
EXAMPLES = (
    "The animal didn't cross the street because it was too tired.",
    "I would like a cup of coffee without sugar.",
    "She gave him the book that he wanted to read.",
    "We can't go home before it stops raining.",
)
ATTENTION_NOTE = "attention weights are not explanations"


def style() -> None:
    """The few corrections to Streamlit's look, and the colours they need."""
    colours = palette(visit.dark())
    names = {"accent": colours.accent, "warm": colours.warm, "card": colours.card}
    accents = f":root {{ {' '.join(f'--tv-{name}: {value};' for name, value in names.items())} }}"
    st.html(f"<style>{STYLE.read_text(encoding='utf-8')}\n{accents}</style>")


def sentence_box(engine: Engine) -> None:
    """The sentence, examples of it, the model, and how the target comes about."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "English sentence",
            key="text",
            placeholder="Type a sentence",
            max_chars=20_000,
            on_change=visit.asked,
        )
        st.selectbox(
            "Model",
            list(engine.shelf),
            key="model",
            on_change=visit.asked,
            format_func=lambda name: _named(engine, name),
            width=210,
        )
        with st.popover("Target"):
            st.text_input(
                "Hold these target words",
                key="target",
                on_change=visit.asked,
                placeholder="leave empty: the model translates",
                help="A translation of your own. The model is then asked about its words.",
            )
            st.selectbox(
                "Beam",
                list(BEAMS),
                key="beam",
                on_change=visit.asked,
                help="How many translations the search keeps at once; 1 is greedy.",
            )
    with st.container(horizontal=True, key="examples", gap="small", vertical_alignment="center"):
        st.html('<span class="tv-quiet">try</span>', width="content")
        for number, text in enumerate(EXAMPLES):
            st.button(text, key=f"example-{number}", type="tertiary", on_click=_take, args=(text,))


def _named(engine: Engine, name: str) -> str:
    size = engine.shelf[name].parameters
    return name if size is None else f"{name} · {size / 1e6:.1f} M"


def _take(text: str) -> None:
    st.session_state.update(text=text, target="")
    visit.asked()


def footer(engine: Engine, trace: Trace | None, seconds: float | None) -> None:
    """Model, checkpoint, device, and how long the last change took on the server."""
    shelved = engine.shelf[st.session_state["model"]]
    parts = [shelved.name]
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
