"""Blob of bytes for a browser component: a JSON header followed by arrays.

``u32`` MAGIC, ``u32`` length of the header, the header (JSON, utf-8), and the arrays, each at a
multiple of 8 bytes; numbers are little-endian. The header's ``arrays`` gives each array's
``dtype``, ``shape`` and ``offset`` after the padded header. ``browser/blob.js`` reads it.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from ..core.palette import DARK, LIGHT, OKABE_ITO, Palette, ramps
from .js_texts import browser_words

MAGIC = 0x31425654  # "TVB1" in the file
KINDS = ("uint8", "uint16", "int16", "int32", "float32")


def pack(header: dict[str, Any], **arrays: np.ndarray) -> bytes:
    """Return a header and arrays as one blob.

    Args:
        header: Plain JSON values; the keys ``arrays`` and ``texts`` are set here.
        arrays: uint8, uint16, int16, int32 or float32, of any shape.

    Raises:
        ValueError: An array of another type, or a number that JSON cannot hold.
    """
    for name, array in arrays.items():
        if array.dtype.name not in KINDS:
            raise ValueError(
                f"The array {name!r} is {array.dtype}; a component takes {', '.join(KINDS)}."
            )
    front = _front(header | browser_words() | {"arrays": _places(arrays)})
    # Offsets start after the header, so that its length does not change them.
    parts = [front, *(_padded(np.ascontiguousarray(a).tobytes()) for a in arrays.values())]
    return b"".join(parts)


def both_palettes() -> dict[str, dict[str, Any]]:
    """Return the colours of canvas pictures, for light pages and for dark ones."""
    return {"light": _colours(LIGHT), "dark": _colours(DARK)}


def _colours(palette: Palette) -> dict[str, Any]:
    heads = (*OKABE_ITO[:-1], palette.ink)  # black is invisible on a dark page
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
