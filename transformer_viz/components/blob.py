"""One blob of bytes for a browser component: a header of words, and arrays behind it.

``u32`` MAGIC, ``u32`` length of the header, the header (JSON, utf-8), and the arrays, each at a
multiple of 8 bytes; numbers are little-endian. The header's ``arrays`` names for each array its
``dtype``, ``shape`` and ``offset`` behind the padded header. ``browser/blob.js`` reads it.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from ..core.palette import DARK, LIGHT, OKABE_ITO, Palette, ramps
from .js_texts import browser_words

MAGIC = 0x31425654  # "TVB1" as it stands in the file
KINDS = ("uint8", "uint16", "int16", "int32", "float32")


def pack(header: dict[str, Any], **arrays: np.ndarray) -> bytes:
    """A header and arrays as one blob.

    Args:
        header: plain JSON values; its keys ``arrays`` and ``texts`` are written here.
        arrays: uint8, uint16, int16, int32 or float32, of any shape.

    Raises:
        ValueError: an array of another type, or a number that JSON cannot hold.
    """
    for name, array in arrays.items():
        if array.dtype.name not in KINDS:
            raise ValueError(
                f"The array {name!r} is {array.dtype}; a component takes {', '.join(KINDS)}."
            )
    front = _front(header | browser_words() | {"arrays": _places(arrays)})
    # Offsets are counted behind the header, so that its own length does not change them.
    parts = [front, *(_padded(np.ascontiguousarray(a).tobytes()) for a in arrays.values())]
    return b"".join(parts)


def both_palettes() -> dict[str, dict[str, Any]]:
    """The colours that pictures on a canvas need, for light pages and for dark ones."""
    return {"light": _colours(LIGHT), "dark": _colours(DARK)}


def _colours(palette: Palette) -> dict[str, Any]:
    heads = (*OKABE_ITO[:-1], palette.ink)  # black would not be seen on a dark page
    return vars(palette) | {"heads": heads, "ramps": ramps(palette is DARK)}


def _places(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    found, start = {}, 0
    for name, array in arrays.items():
        found[name] = {"dtype": array.dtype.name, "shape": list(array.shape), "offset": start}
        start += -(-array.nbytes // 8) * 8
    return found


def _front(header: dict[str, Any]) -> bytes:
    words = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return _padded(struct.pack("<II", MAGIC, len(words)) + words)


def _padded(raw: bytes) -> bytes:
    return raw + b"\0" * (-len(raw) % 8)
