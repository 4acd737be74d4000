"""Zips and files that visitors bring, and paths they type, that lead elsewhere or grow."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformer_viz.checkpoints.files.unpacking import allowed, place_files, unpack

from .case import zipped

GOOD = {"m/config.json": b"{}", "m/w.pt": b"weights"}


@dataclass(frozen=True)
class Upload:
    """What ``bring`` does below a folder with ``into`` for its place, and how it is refused."""

    name: str
    bring: Callable[[Path, Path], Path]
    message: str


def zip_of(content: bytes | Callable[[], bytes]) -> Callable[[Path, Path], Path]:
    def bring(folder: Path, into: Path) -> Path:
        (folder / "up.zip").write_bytes(content() if callable(content) else content)
        return unpack(folder / "up.zip", into)

    return bring


def named(*names: str) -> Callable[[Path, Path], Path]:
    return zip_of(lambda: zipped(dict.fromkeys(names, b"x") | GOOD))


def placed(*names: str) -> Callable[[Path, Path], Path]:
    return lambda folder, into: place_files(((n, io.BytesIO(b"x")) for n in names), into)


def typed(path: str) -> Callable[[Path, Path], Path]:
    """A path below an allowed folder ``in`` that has a neighbour ``out``."""

    def bring(folder: Path, into: Path) -> Path:
        for name in ("in", "out"):
            (folder / name).mkdir()
            (folder / name / "w.pt").write_bytes(b"x")
        (folder / "in" / "link.pt").symlink_to(folder / "out" / "w.pt")
        (folder / "in" / "far").symlink_to(folder / "out")
        (folder / "in" / "loop").symlink_to(folder / "in" / "loop")
        return allowed(path.replace("TOP", str(folder)), [folder / "in"])

    return bring


def marked(mode: int) -> bytes:
    """A zip with a member of this kind (a link, a device ...)."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("m/w.pt")
        info.external_attr = (mode | 0o777) << 16
        archive.writestr(info, b"/etc/passwd")
        archive.writestr("m/config.json", b"{}")
    return out.getvalue()


def bomb() -> bytes:
    return zipped({"m/w.pt": bytes(2**26), "m/config.json": b"{}"})


def lying_bomb() -> bytes:
    """64 MB that call themselves 9 bytes, in the table and at the member."""
    content = bytearray(bomb())
    for sign, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", content, content.find(sign) + at, 9)
    return bytes(content)


def encrypted() -> bytes:
    content = bytearray(zipped(GOOD))
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(sign) + at] |= 1
    return bytes(content)


def damaged() -> bytes:
    content = bytearray(zipped({"m/w.pt": os.urandom(999), "m/c": b""}, zipfile.ZIP_STORED))
    content[100] ^= 255
    return bytes(content)


def torch_zip() -> bytes:
    return zipped({"w/data.pkl": b"", "w/data/0": b""}, zipfile.ZIP_STORED)


def filled(folder: Path, into: Path) -> Path:
    """A place that is not empty: it is left as it is."""
    (folder / "other").mkdir()
    (folder / "other" / "mine").write_bytes(b"x")
    (folder / "up.zip").write_bytes(zipped(GOOD))
    return unpack(folder / "up.zip", folder / "other")


STRANGE = r"has a file named .*; names must be plain"
UPLOADS = [
    Upload("a way up", named("../evil"), STRANGE),
    Upload("a way up in the middle", named("m/../../evil"), STRANGE),
    Upload("a way up of Windows", named("m\\..\\..\\evil"), STRANGE),
    Upload("a path from the top", named("/etc/evil"), STRANGE),
    Upload("a drive", named("C:\\evil"), STRANGE),
    Upload("a second stream", named("m/w.pt:evil"), STRANGE),
    Upload("a control character", named("m/e\nvil"), STRANGE),
    Upload("letters turned round", named("m/\u202elive.pt"), STRANGE),
    Upload("a name of spaces", named("m/ /evil"), STRANGE),
    Upload("a name of 300 letters", named("m/" + "x" * 300), "longer than 200 bytes"),
    Upload("folders without end", named("a/" * 50 + "x"), STRANGE),
    Upload("the same name twice", named("m/W.PT"), r"holds m/w\.pt twice"),
    Upload("the same name in two spellings", named("m/u\u0308", "m/\u00fc"), "twice"),
    Upload("a file that is a folder", named("m/w.pt/evil"), "twice"),
    Upload("a link", zip_of(marked(stat.S_IFLNK)), "is a link; pack the files themselves"),
    Upload("a device in a zip", zip_of(marked(stat.S_IFBLK)), "is no plain file"),
    Upload("a pipe in a zip", zip_of(marked(stat.S_IFIFO)), "is no plain file"),
    Upload("a zip bomb", zip_of(bomb), r"unpack to more than 23,\d{3},\d{3} bytes"),
    Upload("a bomb that lies", zip_of(lying_bomb), "damaged zip file|unpack to more"),
    Upload("a password", zip_of(encrypted), "is encrypted; pack it without a password"),
    Upload("bzip2 in a zip", zip_of(zipped(GOOD, zipfile.ZIP_BZIP2)), "in an unusual way"),
    Upload("LZMA in a zip", zip_of(zipped(GOOD, zipfile.ZIP_LZMA)), "in an unusual way"),
    Upload("a damaged zip", zip_of(damaged), "damaged zip file: Bad CRC-32"),
    Upload("too many files", named(*map(str, range(2500))), "holds 2,502 files"),
    Upload("an empty zip", zip_of(zipped({})), "holds no files"),
    Upload("junk alone", zip_of(zipped({"__MACOSX/._w.pt": b"x"})), "holds no files"),
    Upload("weights for a zip", zip_of(torch_zip), r"let its name end in \.pt"),
    Upload("no zip at all", zip_of(b"Rar!" + bytes(99)), "is no zip file"),
    Upload("a place that is taken", filled, "is not empty"),
    Upload("no files", placed(), "No file came"),
    Upload("a file twice", placed("w.pt", "sub/W.pt"), r"Two files are called W\.pt"),
    Upload("a file called up", placed("w.pt", ".."), STRANGE),
    Upload("a file called nothing", placed(""), STRANGE),
    Upload("a path outside", typed("TOP/out/w.pt"), "is outside of what may be opened here"),
    Upload("a path that leads up", typed("../out/w.pt"), "is outside of what may be opened here"),
    Upload("a link outside", typed("link.pt"), "is outside of what may be opened here"),
    Upload("a folder linked outside", typed("far/w.pt"), "is outside of what may be opened here"),
    Upload("a path of the system", typed("/etc/passwd"), "is outside of what may be opened here"),
    Upload("a home", typed("~/w.pt"), "There is no folder or file '~/w.pt' below the folder 'in'"),
    Upload("a path with a null", typed("w\0.pt"), "is outside of what may be opened here"),
    Upload("a path in a circle", typed("loop"), "is outside of|no folder or file"),
    Upload("a path that is not there", typed("none.pt"), "There is no folder or file 'none.pt'"),
    Upload("a folder with a link outside", typed("."), r"link\.pt in in is a link out of"),
    Upload("a neighbour with a link outside", typed("w.pt"), r"link\.pt in in is a link out of"),
]
