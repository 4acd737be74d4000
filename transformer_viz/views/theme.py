"""The look of every picture: paper and ink, one ramp for amounts, one for changes; its caption."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

Ramp = tuple[str, ...]


@dataclass(frozen=True)
class Palette:
    """The colours of one background. ``amounts`` runs from zero to the most, ``changes`` from
    less over unchanged to more."""

    paper: str
    card: str
    ink: str
    quiet: str
    line: str
    accent: str
    warm: str
    hatch: str
    amounts: Ramp
    changes: Ramp


LIGHT = Palette(
    paper="#FBFAF7",
    card="#FFFFFF",
    ink="#20242C",
    quiet="#5F6673",
    line="#DEDCD5",
    accent="#2F5AA8",
    warm="#B4560F",
    hatch="#C9C5BA",
    amounts=("#FFFFFF", "#DCE6F4", "#B3C8E8", "#86A7D8", "#5A84C4", "#2F5AA8", "#1B3A75"),
    changes=("#1B4A99", "#7FA3DA", "#FFFFFF", "#EFA76B", "#B4560F"),
)
DARK = Palette(
    paper="#14171C",
    card="#1B1F25",
    ink="#E8E6E1",
    quiet="#A2A8B3",
    line="#343A44",
    accent="#8FAEF0",
    warm="#F0A064",
    hatch="#4A515D",
    amounts=("#1B1F25", "#2A3754", "#3F5687", "#5F80BC", "#8FADDF", "#C6CFDD", "#F7EDB8"),
    changes=("#8FAEF0", "#48639F", "#1B1F25", "#8A5A36", "#F0A064"),
)


_SHOWN = {"marker": {"opacity": 1}}
#: For points that can be clicked: none fades when another one is chosen.
STEADY = {"selected": _SHOWN, "unselected": _SHOWN}


def palette(dark: bool = False) -> Palette:
    """The colours for a light or a dark background."""
    return DARK if dark else LIGHT


def scale(ramp: Ramp) -> list[list[float | str]]:
    """A ramp as plotly writes colour scales: evenly spaced stops from 0 to 1."""
    last = len(ramp) - 1
    return [[place / last, colour] for place, colour in enumerate(ramp)]


def template(dark: bool = False) -> go.layout.Template:
    """The look that all figures share: no frame, quiet axes, text of 14 pixels and more."""
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
    """An empty figure in the common look."""
    return go.Figure(layout={"template": template(dark), **layout})


def captioned(picture: go.Figure, text: str) -> go.Figure:
    """Keep with a figure what a reader must know of it.

    Its ``meta`` has the text twice: ``caption`` as HTML shows it, ``alt`` as it is, for a screen
    reader.
    """
    picture.update_layout(meta={"caption": escaped(text), "alt": text})
    return picture


def escaped(text: str) -> str:
    """Text that plotly and HTML show as it is: its marks are made harmless."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
