"""Uploads arrive as they were packed, and lie below one folder of the server, within bounds."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from transformer_viz import settings
from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.files import upload_rooms
from transformer_viz.checkpoints.files.errors import DISK_FULL, CheckpointError
from transformer_viz.checkpoints.files.unpacking import allowed, place_files, unpack
from transformer_viz.checkpoints.files.upload_rooms import MEGA, PREFIX
from transformer_viz.opening.rehearsal import refusal

from .hostile.case import folder_of, state, zipped


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


PACKED = {
    "as it is": ({"config.json": b"{}", "w.pt": b"w", "deep/er/x.txt": b"x"}, ""),
    "one folder around": ({"m/config.json": b"{}", "m/w.pt": b"w"}, "m/"),
    "folders as members": ({"m/": b"", "m/w.pt": b"w", "m/a/": b"", "m/a/b": b"b"}, "m/"),
    "from Windows": ({"m\\config.json": b"{}", "m\\w.pt": b"w"}, "m\\"),
    "from here": ({"./config.json": b"{}", "./w.pt": b"w"}, "./"),
    "junk of a file manager": (
        {"m/w.pt": b"w", "m/c": b"", "__MACOSX/m/._w.pt": b"j", "m/.DS_Store": b"j", "m/._c": b""},
        "m/",
    ),
}


def test_a_packed_folder_arrives_without_the_one_around_it(tmp_path: Path) -> None:
    junk = ("__MACOSX", ".DS_Store", "._")
    for case, (members, around) in PACKED.items():
        (tmp_path / "up.zip").write_bytes(zipped(members))
        place = unpack(tmp_path / "up.zip", tmp_path / case / "place")
        assert place == tmp_path / case / "place"
        assert files_of(place) == {
            name.removeprefix(around).replace("\\", "/"): content
            for name, content in members.items()
            if not name.endswith("/") and not any(part in name for part in junk)
        }, case


def test_a_checkpoint_opens_packed_or_side_by_side(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine")
    packed, alone = tmp_path / "up.zip", tmp_path / "alone.zip"
    torch.save(state(), tmp_path / "w.pt")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.iterdir():
            archive.write(path, f"mine/{path.name}")
    with zipfile.ZipFile(alone, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "w.pt", "some/where/w.pt")
    brought = [(f"mine/{path.name}", io.BytesIO(path.read_bytes())) for path in folder.iterdir()]
    for place in (unpack(packed, tmp_path / "a"), place_files(brought, tmp_path / "b")):
        assert load(place, device="cpu").hash == load(folder, device="cpu").hash, place
    place = unpack(alone, tmp_path / "c")
    assert (place.name, place.read_bytes()) == ("w.pt", (tmp_path / "w.pt").read_bytes())
    (tmp_path / "d").mkdir()  # an empty place may be there already
    place = place_files([("sub\\w.pt", io.BytesIO(b"w"))], tmp_path / "d")
    assert (place, place.read_bytes()) == (tmp_path / "d" / "w.pt", b"w")


def test_paths_below_the_folders_are_allowed(tmp_path: Path) -> None:
    roots = [tmp_path / "first", tmp_path / "second"]
    for root in roots:
        (root / "deep").mkdir(parents=True)
        (root / "deep" / f"{root.name}.pt").write_bytes(b"x")
    (roots[0] / "link.pt").symlink_to(roots[1] / "deep" / "second.pt")
    deep = roots[1] / "deep"
    assert allowed(deep / "second.pt", roots) == deep / "second.pt"
    assert allowed("deep/second.pt", roots) == deep / "second.pt"
    assert allowed("deep/first.pt", roots) == roots[0] / "deep" / "first.pt"
    assert allowed("deep/../deep", roots) == roots[0] / "deep"
    assert allowed("link.pt", roots) == deep / "second.pt"


#: The bytes of a name in a zip, whether the zip says that they are UTF-8, and the name that arrives
#: or the reason that is given.
NAMES: tuple[tuple[bytes, bool, str], ...] = (
    ("modèle.pt".encode(), True, "modèle.pt"),
    ("modèle.pt".encode(), False, "modèle.pt"),  # as zip of Linux and macOS writes it
    ("模型.json".encode(), False, "模型.json"),
    ("modèle.pt".encode("cp437"), False, "modèle.pt"),
    ("aÿb.json".encode("latin-1"), False, "aÿb.json"),
    ("modèle.pt".encode("latin-1"), True, "letters that are not UTF-8, and says that they are"),
    (b"\xed\xa0\x80.pt", True, "letters that are not UTF-8, and says that they are"),
    ("a\u00adb.pt".encode(), True, r"a character that nobody sees \(U\+00AD\)"),
    (b"a\x07b.pt", False, "a control character"),
)


def named_in_bytes(name: bytes, says_utf_8: bool) -> bytes:
    """A zip of one file and ``config.json``, whose name is written as these bytes."""
    stand_in = "q" * len(name)
    content = bytearray(zipped({stand_in: b"w", "config.json": b"{}"}))
    content = bytearray(bytes(content).replace(stand_in.encode(), name))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + flags : at + flags + 2] = (0x800 * says_utf_8).to_bytes(2, "little")
            at = content.find(mark, at + 4)
    return bytes(content)


def test_letters_of_any_code_arrive_or_the_reason_is_true(tmp_path: Path) -> None:
    for number, (name, says_utf_8, wanted) in enumerate(NAMES):
        archive, into = tmp_path / f"{number}.zip", tmp_path / str(number)
        archive.write_bytes(named_in_bytes(name, says_utf_8))
        if wanted.endswith((".pt", ".json")):
            assert set(files_of(unpack(archive, into))) == {wanted, "config.json"}, name
        else:
            with pytest.raises(CheckpointError, match=wanted):
                unpack(archive, into)
    for file, why in (("m\udce8.pt", "are not in UTF-8"), ("a\xa0b.pt", r"nobody sees \(U\+00A0")):
        with pytest.raises(CheckpointError, match=why):
            place_files([(file, io.BytesIO(b"w"))], tmp_path / "new")


def test_a_full_disk_is_not_the_files_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "up.zip").write_bytes(zipped({"w.pt": b"w", "config.json": b"{}"}))
    for number in (errno.ENOSPC, errno.EDQUOT):

        def full(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("shutil.copyfileobj", full)
        monkeypatch.setattr("zipfile.ZipExtFile.read", full)
        for do in (
            lambda: place_files([("w.pt", io.BytesIO(b"w"))], tmp_path / "a"),
            lambda: unpack(tmp_path / "up.zip", tmp_path / "b"),
        ):
            with pytest.raises(CheckpointError, match=r"disk .* is full; the file is not at fault"):
                do()
    rust = type("SafetensorError", (Exception,), {})
    full_words = "Error while serializing: I/O error: No space left on device (os error 28)"
    assert refusal(rust(full_words))["refused"] == DISK_FULL
    assert "full" not in str(refusal(ValueError("its key is (os error 28)")))


# ---- the folder of a server ----


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    upload_rooms.folder.cache_clear()
    yield
    upload_rooms.folder.cache_clear()


@pytest.mark.process
@pytest.mark.usefixtures("elsewhere")
def test_the_folder_of_a_server_that_was_killed_is_swept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    old = tmp_path / f"{PREFIX}{ended.pid}-abc"
    living = tmp_path / f"{PREFIX}{os.getppid()}-abc"
    foreign = tmp_path / f"{PREFIX}notes"
    for place in (old, living, foreign):
        place.mkdir()
        (place / "weights").touch()
    (tmp_path / f"{PREFIX}{ended.pid}-link").symlink_to(foreign)
    own = upload_rooms.folder()
    upload_rooms.sweep()
    assert not old.exists()
    assert (living / "weights").exists() and (foreign / "weights").exists() and own.exists()
    (own / "weights").touch()  # a server that ends takes its own along
    assert upload_rooms.folder() == own
    upload_rooms.clear()
    assert not own.exists()
    upload_rooms.clear()  # and one that never had any ends as well


@pytest.mark.usefixtures("elsewhere")
def test_a_visit_and_all_visits_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.VISIT_MB.variable, "2")
    monkeypatch.setenv(settings.UPLOADS_MB.variable, "3")
    mine, other = (upload_rooms.folder() / name for name in ("mine", "other"))
    for place in (mine, other):
        place.mkdir()
    (mine / "weights").write_bytes(bytes(MEGA))
    upload_rooms.require_space(mine, MEGA)
    with pytest.raises(ValueError, match=r"One visit may keep 2 MB .* 1 MB are left .* have 2 MB"):
        upload_rooms.require_space(mine, MEGA + 1)
    (other / "weights").write_bytes(bytes(3 * MEGA // 2))
    with pytest.raises(ValueError, match=r"All visits may keep 3 MB .* 0 MB are left .* have 1 MB"):
        upload_rooms.require_space(mine, MEGA)
    for setting in (settings.VISIT_MB, settings.UPLOADS_MB):
        monkeypatch.delenv(setting.variable)
    monkeypatch.setattr(upload_rooms, "FREE", 2**62)  # a full disk is told before
    with pytest.raises(ValueError, match="disk of this server is nearly full; 0 MB are left"):
        upload_rooms.require_space(upload_rooms.folder(), 1)
