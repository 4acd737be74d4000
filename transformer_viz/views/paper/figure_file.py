"""Figures for print as files: SVG and PDF with vector outlines and text, PNG of 300 dots an inch.

They are drawn with matplotlib, which is imported only here and only on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from ...components.map_look import Zoom
from ...core.palette import palette
from ...core.trace import Trace
from ...i18n import join_words, mark, say, speaking, spoken_language
from ...metrics.attention.map_difference import require_same_words
from ..numbers import as_text, manifest, whose
from .paper_look import PaperLook

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
PICTURES = ("map", "lines", "atlas")
WIDTHS = (60, 1000)  # millimetres
HONEST = mark("Weights show where a head looks; they do not explain what the model answers.")
NAMES = {
    "encoder": mark("Encoder self-attention"),
    "decoder": mark("Decoder self-attention"),
    "cross": mark("Cross-attention"),
}


def printed(
    trace: Trace,
    picture: str,
    kind: str,
    block: str,
    layer: int = 0,
    head: int = 0,
    *,
    also: Sequence[tuple[int, int]] = (),
    before: Trace | None = None,
    words: bool = False,
    special: bool = True,
    ramp: str = "ink",
    gamma: float = 1.0,
    threshold: float = 0.0,
    top: int = 0,
    zoom: Zoom | None = None,
    most: float = 0.0,
    common: bool = False,
    dark: bool = False,
    width: float = 160,
) -> bytes:
    """Return a figure as the bytes of a file, with its caption below it and its manifest inside.

    Args:
        trace: The run to show.
        picture: ``map``, ``lines`` or ``atlas``.
        kind: ``svg``, ``png`` or ``pdf``.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: Indices from 0; an atlas has all of them.
        also: Layer and head of further heads that the lines show.
        before: Another run on the same tokens; if given, the change since it is drawn.
        words: Merge pieces to whole words; an atlas always shows the model's tokens.
        special: Show start and end tokens too; an atlas always does.
        ramp: Colours of amounts, one of :data:`transformer_viz.core.palette.RAMPS`.
        gamma: Exponent of the scale before a map or an atlas is coloured.
        threshold: The weight (or change) from which a line or a cell is drawn.
        top: Number of lines of each token, the strongest first; 0 for all.
        zoom: The part of a map to draw: rows and columns as shown, each from the first to one past
            the last.
        most: The weight at the end of a map's colours, unless the head has a larger one; use it to
            colour two runs alike.
        common: Use one scale for all heads of an atlas.
        dark: Use colours for a dark background.
        width: Millimetres.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: An unknown picture or file, runs that do not compare, or no matplotlib.
    """
    _require(picture, kind, width)
    if before is not None:
        require_same_words(trace, before, block)
    heads = tuple(dict.fromkeys([(layer, head), *also]))
    look = PaperLook(words, special, ramp, gamma, threshold, top, zoom, most, common, dark, width)
    fonts, paper = _matplotlib()
    language = spoken_language()
    with paper.printing(), speaking(fonts.readable(language)):
        title = _title(picture, block, heads, before is not None)
        figure, notes = _drawn(trace, picture, block, heads, look, before)
        lines = [say("{said}.", said=title), whose(trace, before), *notes, say(HONEST)]
        lines = [line.translate(paper.ISOLATES) for line in lines]
        lines += fonts.advice(paper.undrawn(figure, lines), language)
        _captioned(figure, lines, dark)
        text = " ".join(lines)
        shown = [] if picture == "atlas" else [list(one) for one in heads]
        about = {"picture": picture, "block": block, "heads": shown, "caption": text}
        return paper.written(figure, kind, title, text, as_text(manifest(trace, before, **about)))


def _matplotlib() -> tuple[ModuleType, ModuleType]:
    """Return the modules `fonts` and `sheet`, which need matplotlib."""
    try:
        from . import fonts
        from . import sheet as paper
    except ImportError as error:
        raise ValueError(
            say(
                "Pictures for print are drawn with matplotlib, which is not installed ({error}); "
                "install it with: pip install matplotlib",
                error=error,
            )
        ) from error
    return fonts, paper


def _require(picture: str, kind: str, width: float) -> None:
    if picture not in PICTURES:
        raise ValueError(f"There is no picture {picture!r} for print; choose {_or(PICTURES)}.")
    if kind not in FORMATS:
        raise ValueError(f"A picture becomes {_or(FORMATS)}; got {kind!r}.")
    least, most = WIDTHS
    if not least <= width <= most:
        raise ValueError(f"A picture is {least} to {most} millimetres wide; got {width:g}.")


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _drawn(
    trace: Trace,
    picture: str,
    block: str,
    heads: Sequence[tuple[int, int]],
    look: PaperLook,
    before: Trace | None,
) -> tuple[Figure, list[str]]:
    """Return the figure and notes about it."""
    if picture == "atlas":
        from .atlas import printed_atlas

        return printed_atlas(trace, block, look, before)
    if picture == "lines":
        from .lines import printed_lines

        return printed_lines(trace, block, heads, look, before)
    from .head_map import printed_map

    return printed_map(trace, block, *heads[0], look, before)


def _title(picture: str, block: str, heads: Sequence[tuple[int, int]], change: bool) -> str:
    if picture == "atlas":
        title = say("{block}, all heads", block=say(NAMES[block]))
    else:
        shown = heads[:1] if picture == "map" else heads
        title = f"{say(NAMES[block])} {join_words(f'L{layer} H{head}' for layer, head in shown)}"
    return say("{title}: change since the other run", title=title) if change else title


def _captioned(figure: Figure, lines: list[str], dark: bool) -> None:
    """Make the sheet longer and write the caption below the figure."""
    from . import sheet as paper

    (axes,) = figure.axes
    width, height = axes.get_xlim()[1], axes.get_ylim()[0]
    shown = [one for line in lines for one in paper.wrapped(line, width - 2 * paper.MARGIN)]
    whole = height + paper.caption_height(shown)
    figure.set_size_inches(width / 72, whole / 72)
    axes.set_ylim(whole, 0)
    paper.caption(axes, height, shown, palette(dark).ink)
