"""What pictures for print share: a sheet in points, words, cells, a hatch, a caption, files.

A sheet is one pair of axes in points (1/72 inch) from its top left corner, so that a picture says
where things stand in the unit that its letters are measured in. Whoever draws or writes does so
within :func:`printing`, which leaves matplotlib's settings as they were.
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
#: Characters that no XML may hold (XML 1.0, section 2.2): a file with one would not open.
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
DOTS = 300  # per inch, in a PNG
SIZE = 8  # points of words, and the least where a map is dense
MIN_LETTER_SIZE = 5
MARGIN = 8  # points around a picture
STEPS = 255  # colours of a ramp: uneven, so that an unchanged cell has one of its own
CHUNK = 400  # cells drawn in one go; longer outlines are more than matplotlib's painter takes
GAP = 3.0  # points from which cells are wide enough for a gap between them
#: Words stay words in files, and the same figure gives the same bytes.
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "transformer_viz", "pdf.fonttype": 42}
ISOLATES = dict.fromkeys(map(ord, (ISOLATE, ISOLATE_END)))
_PRINTING = threading.Lock()
#: What stands together in a line: a word, or one sign of East Asia with the marks behind it.
WORDS = re.compile(
    r"(\s*)([\u2e80-\u9fff\uf900-\ufaff][，。；：！？、）」”]*|[^\s\u2e80-\u9fff\uf900-\ufaff]+)"
)

Boxes = np.ndarray  # [box, (x, y, width, height)] in points


@contextmanager
def printing() -> Iterator[None]:
    """One picture at a time: fonts and settings are matplotlib's, so the whole process's."""
    with _PRINTING, matplotlib.rc_context(SETTINGS), catch_warnings():
        # Signs that no font of this computer has are printed as boxes; the caption says so.
        filterwarnings("ignore", message="Glyph .* missing")
        yield


def sheet(width: float, height: float, colours: Palette) -> tuple[Figure, Axes]:
    """An empty sheet of so many points, and the axes that cover it; y grows downward."""
    figure = Figure(figsize=(width / 72, height / 72), facecolor=colours.card)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def font(size: float, text: str = "") -> FontProperties:
    """The letters of all pictures, in points, with the fonts that a text needs besides."""
    return FontProperties(family=families(text), size=size)


def width_of(text: str, size: float) -> float:
    """How many points a text takes; a sign that no font has is a box as wide as it is high."""
    drawn = "".join(sign for sign in text if family_of(sign))
    width, _, _ = text_to_path.get_text_width_height_descent(drawn, font(size, drawn), ismath=False)
    return float(width) + size * (len(text) - len(drawn))


def undrawn(figure: Figure, texts: Sequence[str]) -> str:
    """The signs of a figure, and of texts that it will get, that no font here draws."""
    drawn = (found.get_text() for axes in figure.axes for found in axes.texts)
    return missing([*texts, *drawn])


def longest(texts: Sequence[str], size: float) -> float:
    """How many points the longest of some texts takes."""
    return max((width_of(text, size) for text in texts), default=0.0)


def shortened(text: str, size: float, most: float) -> str:
    """A text that takes at most so many points; what is too long ends in an ellipsis."""
    if width_of(text, size) <= most:
        return text
    kept = next((n for n in range(len(text), 0, -1) if width_of(text[:n], size) <= most - size), 1)
    return text[:kept] + "…"


def write(axes: Axes, x: float, y: float, text: str, size: float, colour: str, **more: Any) -> None:
    """Words at a place, never read as formulas; ``more`` are words of matplotlib's ``text``."""
    fields = {"va": "center", "rotation_mode": "anchor"} | more
    text = text.translate(ISOLATES)  # no font draws them
    axes.text(x, y, text, color=colour, fontproperties=font(size, text), parse_math=False, **fields)


def shades(ramp: Ramp, count: int = STEPS) -> list[str]:
    """So many colours of a ramp, evenly spaced from its first to its last stop."""
    stops = np.array([[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in ramp])
    places = np.linspace(0, len(ramp) - 1, count)
    parts = [np.interp(places, np.arange(len(ramp)), stops[:, part]) for part in range(3)]
    rows = np.round(np.stack(parts, axis=1)).astype(int)
    return ["#{:02X}{:02X}{:02X}".format(*row) for row in rows]


def levels(
    values: np.ndarray, limit: float, change: bool, gamma: float = 1.0, threshold: float = 0.0
) -> np.ndarray:
    """Which of the `STEPS` colours a value has: 0 to ``limit``, or -``limit`` to ``limit``.

    Args:
        values: weights or changes.
        limit: the size at the end of the colours.
        change: whether values may be negative.
        gamma: power that parts of the limit are raised to.
        threshold: values of less size are drawn as 0.

    Returns:
        int, the shape of ``values``; -1 where there is no value.
    """
    values = values.astype(np.float64)
    part = np.clip(np.where(np.abs(values) < threshold, 0, values) / (limit or 1), -1, 1)
    part = np.sign(part) * np.abs(part) ** gamma
    place = (part + 1) / 2 if change else part
    return np.where(np.isnan(values), -1, np.round(np.nan_to_num(place) * (STEPS - 1))).astype(int)


def grid(x: float, y: float, width: float, height: float, shape: tuple[int, int]) -> Boxes:
    """The cells of a map that fills a rectangle, row by row: boxes ``[row x column, 4]``.

    Wide cells leave a fine gap between them; narrow ones overlap a little, or readers' programs
    would show a seam of the background.
    """
    rows, columns = shape
    across, down = width / columns, height / rows
    row, column = np.indices(shape).reshape(2, -1)
    more = -0.5 if min(across, down) >= GAP else 0.04 * min(across, down)
    size = np.broadcast_to([across + more, down + more], (rows * columns, 2))
    return np.column_stack([x + column * across, y + row * down, size])


def cells(axes: Axes, boxes: Boxes, level: np.ndarray, ramp: Ramp, background: str) -> None:
    """Draw boxes ``[box, 4]`` in the colours of their levels ``[box]``, as outlines.

    Those of the background's colour and those without a level (-1) are left out.
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
    """Rectangles as one path."""
    x, y, width, height = boxes.T
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    points = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(points.reshape(-1, 2), codes * len(boxes))


def hatch(axes: Axes, boxes: Boxes, colour: str) -> None:
    """A fine hatch over boxes: what is masked has no colour."""
    if len(boxes):
        patch = PathPatch(outline(boxes), fc="none", ec=colour, lw=0, hatch="//////")
        patch.set_hatch_linewidth(0.4)
        patch.set_gid("masked")
        axes.add_patch(patch)


def runs(masked: np.ndarray, x: float, y: float, across: float, down: float) -> Boxes:
    """The masked cells ``[row, column]`` of a map as boxes, one for each run of them in a row."""
    edges = np.diff(np.pad(masked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, left = np.nonzero(edges == 1)
    _, right = np.nonzero(edges == -1)
    width = (right - left) * across
    return np.column_stack([x + left * across, y + row * down, width, np.full(len(row), down)])


def frame(axes: Axes, boxes: Boxes, colour: str, width: float = 0.6) -> None:
    """Thin frames around boxes."""
    axes.add_patch(PathPatch(outline(boxes), fc="none", ec=colour, lw=width))


def legend(axes: Axes, x: float, y: float, ramp: Ramp, ends: tuple[str, str], ink: str) -> float:
    """A strip of a ramp with the numbers at its ends; gives where it ends on the right."""
    write(axes, x, y, ends[0], SIZE, ink)
    x += width_of(ends[0], SIZE) + 5
    boxes = grid(x, y - 4, 90, 8, (1, 60))
    for box, colour in zip(boxes, shades(ramp, 60), strict=True):
        axes.add_patch(PathPatch(outline(box[None]), fc=colour, lw=0))
    frame(axes, np.array([[x, y - 4, 90, 8]]), ink, 0.3)
    write(axes, x + 95, y, ends[1], SIZE, ink)
    return x + 95 + width_of(ends[1], SIZE)


def wrapped(text: str, width: float, size: float = SIZE) -> list[str]:
    """A text as lines of at most so many points; signs of a script without blanks part anywhere."""
    lines = [""]
    for blank, word in WORDS.findall(text):
        longer = f"{lines[-1]}{blank and ' '}{word}".strip()
        if width_of(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(shortened(word, size, width))
    return [line for line in lines if line]


def caption_height(lines: Sequence[str]) -> float:
    """How many points the caption's lines take, and the margin below them."""
    return len(lines) * SIZE * 1.4 + MARGIN


def caption(axes: Axes, y: float, lines: Sequence[str], colour: str) -> None:
    """The lines of a caption from ``y`` downward."""
    for number, line in enumerate(lines):
        write(axes, MARGIN, y + (number + 0.5) * SIZE * 1.4, line, SIZE, colour)


def written(figure: Figure, kind: str, title: str, text: str, manifest: str) -> bytes:
    """A figure as the bytes of an SVG, PNG or PDF file, the same for the same figure.

    Args:
        figure: the sheet.
        kind: ``svg``, ``png`` or ``pdf``.
        title: what the picture is, in a few words.
        text: its caption, for those who cannot see it.
        manifest: JSON in ASCII; SVG has it in its metadata, PNG as the text ``manifest``, PDF
            among its keywords.
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
    """An SVG that a screen reader reads: a picture, whose caption follows its title."""
    whole = svg.decode("utf-8").replace("<svg ", '<svg role="img" ', 1)
    whole = NOT_XML.sub("\ufffd", whole)
    return whole.replace(
        "</title>", f"</title>\n <desc>{NOT_XML.sub('', escape(text))}</desc>", 1
    ).encode("utf-8")


def scale_notes(look: PaperLook) -> list[str]:
    """Say how cells are coloured where it is not plainly by their weight."""
    notes = []
    if look.threshold:
        notes.append(say("Cells below {least:g} are left blank.", least=look.threshold))
    if look.gamma != 1:
        notes.append(
            say("Colours follow the part of the scale to the power {gamma:g}.", gamma=look.gamma)
        )
    return notes
