"""Shared parts of figures for print: a sheet in points, text, cells, a hatch, a caption, files.

A sheet is one pair of axes in points (1/72 inch) from its top left corner, the unit of its letter
sizes. All drawing must happen within :func:`printing`, which restores matplotlib's settings.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from warnings import catch_warnings, filterwarnings
from xml.sax.saxutils import escape

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from ...core.palette import Palette, Ramp
from ...i18n import ISOLATE, ISOLATE_END, say
from .fonts import families, family_of, missing
from .paper_look import PaperLook

POINTS = 72 / 25.4  # points in a millimetre
#: Characters that XML must not contain (XML 1.0, section 2.2): a file with one would not open.
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
DOTS = 300  # per inch, in a PNG
SIZE = 8  # points of text, and MIN_LETTER_SIZE for dense maps
MIN_LETTER_SIZE = 5
MARGIN = 8  # points around a picture
STEPS = 255  # colours of a ramp: uneven, so that an unchanged cell has one of its own
CHUNK = 400  # cells of one path; longer outlines exceed the limits of matplotlib's painter
GAP = 3.0  # points from which cells are wide enough for a gap between them
#: Text stays text in files, and the same figure gives the same bytes.
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "transformer_viz", "pdf.fonttype": 42}
ISOLATES = dict.fromkeys(map(ord, (ISOLATE, ISOLATE_END)))
_PRINTING = threading.Lock()
#: Unbreakable units of a line: a word, or one East Asian character with its trailing marks.
WORDS = re.compile(
    r"(\s*)([\u2e80-\u9fff\uf900-\ufaff][，。；：！？、）」”]*|[^\s\u2e80-\u9fff\uf900-\ufaff]+)"
)

Boxes = np.ndarray  # [box, (x, y, width, height)] in points


@contextmanager
def printing() -> Iterator[None]:
    """Draw one figure at a time: matplotlib's fonts and settings are global to the process."""
    with _PRINTING, matplotlib.rc_context(SETTINGS), catch_warnings():
        # Characters that no installed font has are printed as boxes; the caption names them.
        filterwarnings("ignore", message="Glyph .* missing")
        yield


def sheet(width: float, height: float, colours: Palette) -> tuple[Figure, Axes]:
    """Return an empty sheet of ``width`` x ``height`` points, and its axes; y grows downward."""
    figure = Figure(figsize=(width / 72, height / 72), facecolor=colours.card)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def font(size: float, text: str = "") -> FontProperties:
    """Return the font of all figures in points, with the fallback families that a text needs."""
    return FontProperties(family=families(text), size=size)


def width_of(text: str, size: float) -> float:
    """Return the width of a text in points; a missing character is a box as wide as it is high."""
    drawn = "".join(sign for sign in text if family_of(sign))
    width, _, _ = text_to_path.get_text_width_height_descent(drawn, font(size, drawn), ismath=False)
    return float(width) + size * (len(text) - len(drawn))


def undrawn(figure: Figure, texts: Sequence[str]) -> str:
    """Return the characters of a figure and of ``texts`` that no installed font draws."""
    drawn = (found.get_text() for axes in figure.axes for found in axes.texts)
    return missing([*texts, *drawn])


def longest(texts: Sequence[str], size: float) -> float:
    """Return the width of the longest of some texts, in points."""
    return max((width_of(text, size) for text in texts), default=0.0)


def shortened(text: str, size: float, most: float) -> str:
    """Return a text of at most ``most`` points; a longer one ends in an ellipsis."""
    if width_of(text, size) <= most:
        return text
    kept = next((n for n in range(len(text), 0, -1) if width_of(text[:n], size) <= most - size), 1)
    return text[:kept] + "…"


def write(axes: Axes, x: float, y: float, text: str, size: float, colour: str, **more: Any) -> None:
    """Write text without parsing it as math; ``more`` are arguments of matplotlib's ``text``."""
    fields = {"va": "center", "rotation_mode": "anchor"} | more
    text = text.translate(ISOLATES)  # no font draws them
    axes.text(x, y, text, color=colour, fontproperties=font(size, text), parse_math=False, **fields)


def shades(ramp: Ramp, count: int = STEPS) -> list[str]:
    """Return ``count`` colours of a ramp, evenly spaced from its first to its last stop."""
    stops = np.array([[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in ramp])
    places = np.linspace(0, len(ramp) - 1, count)
    parts = [np.interp(places, np.arange(len(ramp)), stops[:, part]) for part in range(3)]
    rows = np.round(np.stack(parts, axis=1)).astype(int)
    return ["#{:02X}{:02X}{:02X}".format(*row) for row in rows]


def levels(
    values: np.ndarray, limit: float, change: bool, gamma: float = 1.0, threshold: float = 0.0
) -> np.ndarray:
    """Return the index of each value's colour of `STEPS`: 0 to ``limit``, or symmetric for changes.

    Args:
        values: Weights or changes.
        limit: The size at the end of the colours.
        change: True if values may be negative.
        gamma: Exponent of the values as parts of the limit.
        threshold: Values of smaller size are drawn as 0.

    Returns:
        int, the shape of ``values``; -1 where there is no value.
    """
    values = values.astype(np.float64)
    part = np.clip(np.where(np.abs(values) < threshold, 0, values) / (limit or 1), -1, 1)
    part = np.sign(part) * np.abs(part) ** gamma
    place = (part + 1) / 2 if change else part
    return np.where(np.isnan(values), -1, np.round(np.nan_to_num(place) * (STEPS - 1))).astype(int)


def grid(x: float, y: float, width: float, height: float, shape: tuple[int, int]) -> Boxes:
    """Return the cells of a map that fills a rectangle, row by row: boxes ``[row x column, 4]``.

    Wide cells leave a fine gap between them. Narrow ones overlap a little, since viewers would show
    a seam of the background otherwise.
    """
    rows, columns = shape
    across, down = width / columns, height / rows
    row, column = np.indices(shape).reshape(2, -1)
    more = -0.5 if min(across, down) >= GAP else 0.04 * min(across, down)
    size = np.broadcast_to([across + more, down + more], (rows * columns, 2))
    return np.column_stack([x + column * across, y + row * down, size])


def cells(axes: Axes, boxes: Boxes, level: np.ndarray, ramp: Ramp, background: str) -> None:
    """Draw boxes ``[box, 4]`` in the colours of their levels ``[box]``, as outlines.

    Boxes of the background's colour and boxes without a level (-1) are left out.
    """
    colours = shades(ramp)
    for one in np.unique(level[level >= 0]):
        if colours[one] == background:
            continue
        mine = boxes[level == one]
        for start in range(0, len(mine), CHUNK):
            patch = PathPatch(outline(mine[start : start + CHUNK]), fc=colours[one], lw=0)
            patch.set_gid(f"cells-{one}-{start}")
            axes.add_patch(patch)


def outline(boxes: Boxes) -> Path:
    """Return rectangles as one path."""
    x, y, width, height = boxes.T
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    points = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(points.reshape(-1, 2), codes * len(boxes))


def hatch(axes: Axes, boxes: Boxes, colour: str) -> None:
    """Draw a fine hatch over boxes, for masked cells."""
    if len(boxes):
        patch = PathPatch(outline(boxes), fc="none", ec=colour, lw=0, hatch="//////")
        patch.set_hatch_linewidth(0.4)
        patch.set_gid("masked")
        axes.add_patch(patch)


def runs(masked: np.ndarray, x: float, y: float, across: float, down: float) -> Boxes:
    """Return the masked cells ``[row, column]`` of a map as boxes, one for each run in a row."""
    edges = np.diff(np.pad(masked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, left = np.nonzero(edges == 1)
    _, right = np.nonzero(edges == -1)
    width = (right - left) * across
    return np.column_stack([x + left * across, y + row * down, width, np.full(len(row), down)])


def frame(axes: Axes, boxes: Boxes, colour: str, width: float = 0.6) -> None:
    """Draw thin frames around boxes."""
    axes.add_patch(PathPatch(outline(boxes), fc="none", ec=colour, lw=width))


def legend(axes: Axes, x: float, y: float, ramp: Ramp, ends: tuple[str, str], ink: str) -> float:
    """Draw a strip of a ramp with the numbers at its ends; return its right edge."""
    write(axes, x, y, ends[0], SIZE, ink)
    x += width_of(ends[0], SIZE) + 5
    boxes = grid(x, y - 4, 90, 8, (1, 60))
    for box, colour in zip(boxes, shades(ramp, 60), strict=True):
        axes.add_patch(PathPatch(outline(box[None]), fc=colour, lw=0))
    frame(axes, np.array([[x, y - 4, 90, 8]]), ink, 0.3)
    write(axes, x + 95, y, ends[1], SIZE, ink)
    return x + 95 + width_of(ends[1], SIZE)


def wrapped(text: str, width: float, size: float = SIZE) -> list[str]:
    """Return a text as lines of at most ``width`` points; scripts without spaces break anywhere."""
    lines = [""]
    for blank, word in WORDS.findall(text):
        longer = f"{lines[-1]}{blank and ' '}{word}".strip()
        if width_of(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(shortened(word, size, width))
    return [line for line in lines if line]


def caption_height(lines: Sequence[str]) -> float:
    """Return the height of the caption's lines in points, with the margin below them."""
    return len(lines) * SIZE * 1.4 + MARGIN


def caption(axes: Axes, y: float, lines: Sequence[str], colour: str) -> None:
    """Write the lines of a caption from ``y`` downward."""
    for number, line in enumerate(lines):
        write(axes, MARGIN, y + (number + 0.5) * SIZE * 1.4, line, SIZE, colour)


def written(figure: Figure, kind: str, title: str, text: str, manifest: str) -> bytes:
    """Return a figure as the bytes of an SVG, PNG or PDF file, the same for the same figure.

    Args:
        figure: The sheet.
        kind: ``svg``, ``png`` or ``pdf``.
        title: Short title of the figure.
        text: Its caption, for screen readers.
        manifest: JSON in ASCII; SVG has it in its metadata, PNG as the text ``manifest``, PDF among
            its keywords.
    """
    file = io.BytesIO()
    words: dict[str, dict[str, Any]] = {
        "svg": {"Title": title, "Description": text, "Keywords": [manifest], "Date": None},
        "png": {"Title": title, "Description": text, "manifest": manifest},
        "pdf": {"Title": title, "Subject": text, "Keywords": manifest, "CreationDate": None},
    }
    figure.savefig(file, format=kind, dpi=DOTS, metadata=words[kind])
    return _spoken(file.getvalue(), text) if kind == "svg" else file.getvalue()


def _spoken(svg: bytes, text: str) -> bytes:
    """Return an SVG for screen readers: role image, with the caption after its title."""
    whole = svg.decode("utf-8").replace("<svg ", '<svg role="img" ', 1)
    whole = NOT_XML.sub("\ufffd", whole)
    return whole.replace(
        "</title>", f"</title>\n <desc>{NOT_XML.sub('', escape(text))}</desc>", 1
    ).encode("utf-8")


def scale_notes(look: PaperLook) -> list[str]:
    """Return notes about the colours of cells, if they do not simply follow the weight."""
    notes = []
    if look.threshold:
        notes.append(say("Cells below {least:g} are left blank.", least=look.threshold))
    if look.gamma != 1:
        notes.append(
            say("Colours follow the part of the scale to the power {gamma:g}.", gamma=look.gamma)
        )
    return notes
