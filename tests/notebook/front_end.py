"""A browser that is none: it sends a widget messages, and reads the frames that come back."""

from __future__ import annotations

import json
import struct
from typing import Any

from transformer_viz.notebook.explorer import Explorer


class FrontEnd:
    """One view of a widget; every message is numbered, as `requests.js` does it."""

    def __init__(self, widget: Explorer, view: str = "a view") -> None:
        self.widget, self.view, self.asked = widget, view, 0

    def wish(self, *wishes: tuple[str, Any]) -> dict[str, Any]:
        """Send wishes as one message; gives the header of the frame that answers."""
        self.asked += 1
        sent = json.loads(json.dumps([list(one) for one in wishes]))
        self.message({"ask": self.asked, "view": self.view, "wishes": sent})
        return self.header

    def message(self, content: Any) -> None:
        """Send anything as a custom message of the widget's comm."""
        data = {"method": "custom", "content": content}
        self.widget._handle_msg({"content": {"data": data}, "buffers": []})

    @property
    def header(self) -> dict[str, Any]:
        """The words of the newest frame."""
        return header(self.widget._frame)

    def part(self, name: str) -> dict[str, Any]:
        """The words of one picture of the newest frame."""
        raw, place = self.widget._frame, self.header["arrays"][name]
        start = -(-(8 + struct.unpack_from("<II", raw)[1]) // 8) * 8 + place["offset"]
        return header(raw[start : start + place["shape"][0]])


def header(blob: bytes) -> dict[str, Any]:
    """The words of a blob."""
    _, length = struct.unpack_from("<II", blob)
    found: dict[str, Any] = json.loads(blob[8 : 8 + length])
    return found


def step(value: str, seq: int) -> dict[str, Any]:
    """What a slider says of a move."""
    return {"value": value, "seq": seq, "stroke": seq}
