"""Tables of contents that readers take for different ones, or that are slow to look through."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

from .case import Case, header, written, zipped

END, LINE = b"PK\x05\x06", 46  # of a table of contents; bytes of one of its lines before the name


def crowded(name: str) -> Callable[[Path, Path], Path]:
    """A maker of JSON with 150,000 words of which only the last stands in it twice."""

    def make(folder: Path, canary: Path) -> Path:
        words = ",".join(f'"{n:x}":1' for n in (*range(150_000), 149_999))
        if name.endswith(".json"):
            (folder / name).write_text(f"{{{words}}}")
            return folder / name
        return written(header(f"{{{words}}}"), name)(folder, canary)

    return make


def parted(content: bytes) -> tuple[bytes, bytearray, int]:
    """The records of a zip, its table of contents, and how many lines that has."""
    at = content.rfind(END)
    (count,) = struct.unpack_from("<H", content, at + 10)
    size, offset = struct.unpack_from("<II", content, at + 12)
    return content[:offset], bytearray(content[offset : offset + size]), count


def elsewhere(folder: Path, canary: Path) -> Path:
    """A zip with two tables: a harmless one before its end, where Python looks, and one where the
    end says that it is, where torch looks, whose pickle unpacks to 40 MB."""
    made = io.BytesIO()
    torch.save({"a": torch.zeros(2)}, made)
    with zipfile.ZipFile(made) as archive:
        plain = {name: archive.read(name) for name in archive.namelist()}
    pickle = next(name for name in plain if name.endswith("/data.pkl"))
    bomb, squeezed, count = parted(zipped(plain | {pickle: plain[pickle] + bytes(40 * 2**20)}))
    good, table, _ = parted(zipped(plain, zipfile.ZIP_STORED))
    assert len(squeezed) == len(table)
    at = 0
    while at < len(table):  # Python adds how far the table is from where it should be
        lengths = struct.unpack_from("<HHH", table, at + 28)
        (offset,) = struct.unpack_from("<I", table, at + 42)
        moved = offset + len(bomb) + len(squeezed) - (len(squeezed) + len(good))
        struct.pack_into("<I", table, at + 42, moved)
        at += LINE + sum(lengths)
    end = END + struct.pack("<HHHHIIH", 0, 0, count, count, len(table), len(bomb), 0)
    (folder / "w.pt").write_bytes(bomb + squeezed + good + table + end)
    return folder / "w.pt"


TABLES = [
    Case("a table elsewhere", elsewhere, "table of contents is not where it says", heavy=True),
    Case("a long header", crowded("w.safetensors"), "the word '249ef' stands in it", heavy=True),
    Case("a long index", crowded("w.index.json"), "the word '249ef' stands in it", heavy=True),
]
