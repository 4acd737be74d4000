"""Frame of a page: the sentence, examples, the model, and the footer."""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

from ...core.palette import DARK, LIGHT, palette
from ...core.trace import Trace
from ...i18n import languages, say
from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..session import notices, query_state, visit
from ..session.state import state
from ..ui import layout
from . import inputs
from .presenter import button, keys, presenting
from .share import share

LARGE = Path(__file__).parents[1] / "styles" / "present.css"
STYLES = tuple(path for path in sorted(LARGE.parent.glob("*.css")) if path != LARGE)
CORNER = ("lang",)  # keys with a widget on every page


def style(menu: int) -> None:
    """Write the app's style sheets and colours into the page.

    Args:
        menu: Index of the navigation menu with the open page.
    """
    paths = (*STYLES, LARGE) if presenting() else STYLES
    sheets = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    st.html(f"<style>{sheets}\n{_colours()}\n{_opened(menu)}\n{_on_paper()}</style>")


def _colours() -> str:
    """Return the colours as CSS; they follow Streamlit's `color-scheme` without a run.

    Popovers are outside of the app's element and have the colours of the run.
    """
    now, names = palette(visit.dark()), ("accent", "warm", "card", "paper")
    run = " ".join(f"--tv-{n}: {getattr(now, n)};" for n in names)
    both = " ".join(
        f"--tv-{n}: light-dark({getattr(LIGHT, n)}, {getattr(DARK, n)});" for n in names
    )
    follows = f'[data-testid="stApp"] {{ {both} }}'
    return f":root {{ {run} }}\n@supports (color: light-dark(red, red)) {{ {follows} }}"


def _opened(menu: int) -> str:
    """Return CSS that marks the menu with the open page, as Streamlit marks the page in it."""
    place = f".rc-overflow-item:nth-child({menu + 1})"
    section = f'{place} [data-testid="stTopNavSection"]'
    forced = f"@media (forced-colors: active) {{ {section} {{ border-bottom-color: Highlight; }} }}"
    return f"{section} {{ border-bottom-color: var(--tv-accent); }}\n{forced}"


def _on_paper() -> str:
    """Return print colours for a dark page: dark text, in charts too."""
    if not visit.dark():
        return ""
    ink = f"{LIGHT.ink} !important"
    every = '[data-testid="stApp"] *'
    letters = f'{every}:not([style*="background"], svg *)'
    ours = '[class^="tv-"]'  # their colours follow the scheme, which is light on paper
    plain = f'{every}:not([style*="background"], svg *, [data-testid="stCheckbox"] *, {ours})'
    names = {"text": LIGHT.ink, "background": LIGHT.card, "secondary-background": LIGHT.paper}
    theme = " ".join(f"--st-{name}-color: {shade} !important;" for name, shade in names.items())
    charts = f".js-plotly-plot text {{ fill: {ink}; }}"
    paper = ".js-plotly-plot .main-svg { background: transparent !important; }"
    paper += ' [data-testid="stDataFrame"] { filter: invert(1) hue-rotate(180deg); }'
    bare = f"background-color: transparent !important; border-color: {LIGHT.line} !important;"
    chosen = f'{every}:is([aria-checked="true"]) {{ border: 2px solid {ink}; }}'
    rules = f"{every} {{ {theme} }} {letters} {{ color: {ink}; }} {plain} {{ {bare} }} {chosen}"
    return f"@media print {{ {rules} {charts} {paper} }}"


def corner() -> None:
    """Draw the right end of the navigation: share, present, and the language."""
    with layout.row("center", gap="xsmall", key="corner"):
        share()
        button()
        st.segmented_control(
            say("Language"),
            list(languages()),
            key="lang",
            format_func=languages().__getitem__,
            required=True,
            on_change=_respoken,
            label_visibility="collapsed",
        )
    keys()


def _respoken() -> None:
    """Write all choices again after a switch of the language, since option labels have changed."""
    for name, value in st.session_state.items():
        if _is_choice(value):
            notices.rewrite_widget(str(name))


def _is_choice(value: object) -> bool:
    """Return True if a widget may show the value as text; buttons and uploads cannot be set."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, str | int) for one in value)
    return isinstance(value, str | int | float | tuple) and not isinstance(value, bool)


def sentence_box(engine: Engine) -> None:
    """Draw the model's input, the choice of the model, and examples.

    In presentation mode only the text is shown.
    """
    kind = engine.kind(state.model) or Kind()
    if presenting() and kind.takes == "text":
        texts = filter(None, (state.text, state.second))
        whose = f'translate="no" lang="{escape(visit.word_languages(engine)[0])}"'
        said = f'<p class="tv-presented">{" · ".join(map(escape, texts))}</p>'
        st.html(f"<div {whose}>{said}</div>")
    with layout.row("bottom", key="fold-frame"):
        framed = inputs.box(engine, kind)
        st.selectbox(
            say("Model"),
            visit.models(engine),
            key="model",
            on_change=query_state.mark_query_changed,
            format_func=lambda name: engine.shelf[name].label,
            width=_width(engine.shelf[state.model].label),
            label_visibility="visible" if kind.takes != "text" or kind.pairs else "collapsed",
        )
        framed += ("model", *inputs.choices(kind))
    inputs.examples(engine, kind)
    visit.frame_has((*CORNER, *framed))


def _width(label: str) -> int:
    """Return the width in pixels of the model choice that shows a label, within bounds."""
    return max(210, min(8 * len(label) + 60, 520))


def footer(engine: Engine, trace: Trace | None, seconds: float | None) -> None:
    """Draw model, checkpoint, device, and the server time of the last change."""
    shelved = engine.shelf[state.model]
    parts = [shelved.called]
    if shelved.hash:
        parts[0] += f" · sha256 {shelved.hash[:8]}"
    if trace is not None:
        words = (trace.manifest.get("device"), trace.manifest.get("dtype"))
        parts.append(" · ".join(str(word) for word in words if word))
    if seconds is not None:
        parts.append(say("last change: {time} ms on the server", time=f"{1000 * seconds:.0f}"))
    spans = "".join(f"<span>{escape(part)}</span>" for part in parts)
    here = escape(urlencode(st.query_params.to_dict()))  # a new session, with the same link
    why = escape(say("attention weights are not explanations: why?"))
    note = f'<a href="about?{here}" target="_self">{why}</a>'
    st.html(f'<div class="tv-foot">{spans}{note}</div>')
