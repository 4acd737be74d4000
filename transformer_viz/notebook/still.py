"""Still of a widget as a PNG file: all heads of a block, and the open one with its tokens."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.ImageFont import FreeTypeFont

from ..core.guesses import guess_mark
from ..core.palette import LIGHT, ramps
from ..core.sites import called
from ..i18n import say
from ..metrics.attention.map_cells import Cells, cells
from .exploration import Exploration

WIDTH, MARGIN, GAP = 1600, 40, 56  # pixels, two for each CSS pixel
LETTERS = 24  # pixels of a letter
WORDS = 40  # labels on a side up to which they are written
SIDE = 640  # largest size of the open head's map
LINE = 36
#: Fonts of the computer, in order of preference.
FONTS = (
    *("DejaVuSans.ttf", "Arial.ttf", "Helvetica.ttc", "LiberationSans-Regular.ttf"),
    *("NotoSansCJK-Regular.ttc", "PingFang.ttc", "msyh.ttc", "Arial Unicode.ttf"),
)
NOWHERE = "\uffff"  # a character that no font has; its glyph is that of all missing characters


def still(exploration: Exploration) -> bytes:
    """Return the current picture in light colours as the bytes of a PNG file."""
    shown = exploration.shown
    found = cells(exploration.now, shown.block, shown.layer, shown.head)
    small = exploration.now.thumbnail(shown.block)
    half = (WIDTH - 2 * MARGIN - GAP) // 2
    atlas, head = _atlas(small, (shown.layer, shown.head), half), _map(found, half)
    place = f"{called(shown.block)} {shown.site.label}"
    mark = guess_mark(exploration.now.guesses)
    words = [
        " · ".join(filter(None, (exploration.model.name, place, mark))),
        exploration.changes.describe(exploration.before.source.labels),
        say("A still of a live widget: run the cell to change the model here."),
    ]
    top = MARGIN + 2 * LINE + 12
    height = top + max(atlas.height, head.height) + LINE + MARGIN
    page = Image.new("RGB", (WIDTH, height), LIGHT.paper)
    pen = ImageDraw.Draw(page)
    pen.text((MARGIN, MARGIN), _fitting(words[0], WIDTH - 2 * MARGIN), LIGHT.ink, _font(words[0]))
    changed = LIGHT.warm if exploration.changes else LIGHT.quiet
    told = _fitting(words[1], WIDTH - 2 * MARGIN)
    pen.text((MARGIN, MARGIN + LINE), told, changed, _font(told))
    page.paste(atlas, (MARGIN, top))
    page.paste(head, (MARGIN + half + GAP, top))
    pen.text((MARGIN, height - MARGIN - LINE + 8), words[2], LIGHT.quiet, _font(words[2]))
    file = io.BytesIO()
    page.save(file, "PNG", optimize=True)
    return file.getvalue()


def _atlas(small: np.ndarray, opened: tuple[int, int], width: int) -> Image.Image:
    """Return all heads ``[layer, head, row, column]`` uint8 as tiles, the open one framed."""
    layers, heads = small.shape[:2]
    left, top, apart = 64, LINE, 6
    tile = max(6, min(150, (width - left) // heads - apart))
    page = Image.new("RGB", (width, top + layers * (tile + apart)), LIGHT.paper)
    pen = ImageDraw.Draw(page)
    font = _font("LH0123456789", min(LETTERS, max(10, tile // 2)))
    for layer in range(layers):
        y = top + layer * (tile + apart)
        pen.text((left - 10, y + tile / 2), f"L{layer}", LIGHT.quiet, font, anchor="rm")
        for head in range(heads):
            x = left + head * (tile + apart)
            if not layer and tile >= 24:
                pen.text((x + tile / 2, top - 6), f"H{head}", LIGHT.quiet, font, anchor="mb")
            cell = small[layer, head].astype(np.float64)
            page.paste(_coloured(cell / (cell.max() or 1), (tile, tile)), (x, y))
            frame = LIGHT.accent if (layer, head) == opened else LIGHT.line
            wide = 4 if (layer, head) == opened else 1
            pen.rectangle((x - 1, y - 1, x + tile, y + tile), None, frame, wide)
    return page


def _map(found: Cells, width: int) -> Image.Image:
    """Return the open head's map: its cells, query labels on the left, key labels above."""
    rows, columns = (_named(side.labels) for side in (found.rows, found.columns))
    size = max(12, min(LETTERS, SIDE // max(1, len(rows), len(columns)) - 2))
    left = _longest(rows, size) + 14
    top = _longest(columns, size) + 14
    count = len(found.rows.labels), len(found.columns.labels)
    step = min((width - left - 2) / count[1], SIDE / count[0], 56)
    high, wide = max(2, round(step * count[0])), max(2, round(step * count[1]))
    page = Image.new("RGB", (width, top + high + 2), LIGHT.paper)
    weights = np.nan_to_num(found.weights.astype(np.float64))
    page.paste(_coloured(weights / (weights.max() or 1), (wide, high)), (left, top))
    pen = ImageDraw.Draw(page)
    pen.rectangle((left - 1, top - 1, left + wide, top + high), None, LIGHT.line)
    for n, word in enumerate(rows):
        place = (left - 10, top + (n + 0.5) * high / count[0])
        pen.text(place, word, LIGHT.ink, _font(word, size), anchor="rm")
    for n, word in enumerate(columns):
        strip = Image.new("RGB", (top - 2, size + 8), LIGHT.paper)
        place = (4, (size + 8) / 2)
        ImageDraw.Draw(strip).text(place, word, LIGHT.ink, _font(word, size), anchor="lm")
        turned = strip.rotate(90, expand=True)
        page.paste(turned, (round(left + (n + 0.5) * wide / count[1] - turned.width / 2), 0))
    return page


def _coloured(amounts: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """Return amounts ``[row, column]``, 0 to 1, in the app's colours, as ``size`` pixels."""
    stops = np.array([_rgb(stop) for stop in ramps(False)["ink"]], np.float64)
    place = np.clip(amounts, 0, 1) * (len(stops) - 1)
    low = np.minimum(place.astype(int), len(stops) - 2)
    part = (place - low)[..., None]
    colours = stops[low] * (1 - part) + stops[low + 1] * part
    picture = Image.fromarray(colours.round().astype(np.uint8), "RGB")
    return picture.resize(size, Image.Resampling.NEAREST)


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def _named(labels: tuple[str, ...]) -> list[str]:
    """Return the drawable labels of a side; none if there are too many.

    A label with a character missing from all fonts becomes its number.
    """
    if len(labels) > WORDS:
        return []
    return [label if _font_of(label) is not None else f"#{n}" for n, label in enumerate(labels)]


def _longest(words: list[str], size: int) -> int:
    return int(max((_font(word, size).getlength(word) for word in words), default=0))


def _fitting(text: str, width: int) -> str:
    """Return a text shortened to ``width`` pixels, without characters that cannot be drawn."""
    if _font_of(text) is None:
        text = "".join(sign for sign in text if _font_of(sign) == _font_of("a"))
    if _font(text).getlength(text) <= width:
        return text
    while text and _font(text).getlength(text + " …") > width:
        text = text[:-1]
    return text + " …"


def _font(text: str, size: int = LETTERS) -> FreeTypeFont:
    """Return a font that has all characters of a text, or the first one."""
    return _open(_font_of(text) or _there()[0], size)


@cache
def _font_of(text: str) -> str | None:
    """Return the first font that draws each character of a text, or None."""
    signs = {sign for sign in text if not sign.isspace()}
    return next((name for name in _there() if all(_draws(name, sign) for sign in signs)), None)


@cache
def _draws(name: str, sign: str) -> bool:
    def picture(text: str) -> bytes:
        mask = _open(name, LETTERS).getmask(text)
        return bytes(mask) + repr(mask.size).encode()

    return picture(sign) != picture(NOWHERE)


@cache
def _there() -> tuple[str, ...]:
    """Return the installed fonts; Pillow's built-in one is last and always available."""

    def opens(name: str) -> bool:
        try:
            ImageFont.truetype(name, LETTERS)
        except OSError:
            return False
        return True

    return (*filter(opens, FONTS), "")


@cache
def _open(name: str, size: int) -> FreeTypeFont:
    found = ImageFont.truetype(name, size) if name else ImageFont.load_default(size)
    assert isinstance(found, FreeTypeFont), "Pillow was built without FreeType"
    return found
