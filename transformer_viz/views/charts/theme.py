"""Common style of every plotly figure: no frame, quiet axes, its caption."""

from __future__ import annotations

from unicodedata import east_asian_width

import plotly.graph_objects as go

from ...core.guesses import Record, guess_mark, guesses_in
from ...core.palette import Ramp, palette

BELOW = 24  # pixels of the mark under a picture
_SHOWN = {"marker": {"opacity": 1}}
#: Options for clickable points: none fades when another one is chosen.
STEADY = {"selected": _SHOWN, "unselected": _SHOWN}


def scale(ramp: Ramp) -> list[list[float | str]]:
    """Return a ramp as a plotly colour scale: evenly spaced stops from 0 to 1."""
    last = len(ramp) - 1
    return [[place / last, colour] for place, colour in enumerate(ramp)]


def template(dark: bool = False) -> go.layout.Template:
    """Return the template of all figures: no frame, quiet axes, text of 14 pixels and more."""
    colours = palette(dark)
    axis = {
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "color": colours.ink,
        "fixedrange": True,
        "tickfont": {"size": 14},
    }
    return go.layout.Template(
        layout={
            "font": {
                "family": "Source Sans, system-ui, sans-serif",
                "size": 14,
                "color": colours.ink,
            },
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "xaxis": axis,
            "yaxis": axis,
            "showlegend": False,
            "hoverlabel": {
                "bgcolor": colours.card,
                "bordercolor": colours.line,
                "font": {"size": 15, "color": colours.ink},
            },
        }
    )


def figure(dark: bool = False, **layout: object) -> go.Figure:
    """Return an empty figure in the common style."""
    return go.Figure(layout={"template": template(dark), **layout})


def captioned(picture: go.Figure, text: str, *records: Record) -> go.Figure:
    """Attach a caption to a figure, and return the figure.

    Its ``meta`` has the text twice: ``caption`` escaped for HTML, ``alt`` plain for a screen
    reader. If ``records`` (runs and cards) have guessed values, their mark ends the text. It also
    stands below the figure as its title, for readers who see the figure alone.
    """
    mark = guess_mark(guesses_in(*records))
    if mark:
        text = f"{text} · {mark}"
        _write_below(picture, mark)
    picture.update_layout(meta={"caption": escaped(text), "alt": text})
    return picture


def _write_below(picture: go.Figure, mark: str) -> None:
    room = picture.layout.margin.b
    room = 8 if room is None else room  # that of `template`
    place = {"x": 0, "xref": "container", "xanchor": "left", "y": 0, "yanchor": "bottom"}
    words = {"text": escaped(mark), "font": {"size": 14}, "pad": {"l": 8, "b": 4}}
    picture.update_layout(title=words | place, margin_b=room + BELOW)
    if picture.layout.height:
        picture.update_layout(height=picture.layout.height + BELOW)


def without_mark(picture: go.Figure) -> go.Figure:
    """Remove the mark from a figure, for a page that shows it once; the caption keeps it."""
    if picture.layout.title.text:
        picture.update_layout(title=None, margin_b=picture.layout.margin.b - BELOW)
        if picture.layout.height:
            picture.update_layout(height=picture.layout.height - BELOW)
    return picture


def letters(text: str) -> int:
    """Return the width of a text in letters; East Asian signs count as two."""
    return sum(1 + (east_asian_width(sign) in "WF") for sign in text)


def escaped(text: str) -> str:
    """Return text escaped for plotly and HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
