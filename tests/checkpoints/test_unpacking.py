"""What visitors bring arrives as they packed it, and opens."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch

from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.files.unpacking import allowed, place_files, unpack

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


@pytest.mark.parametrize("case", PACKED)
def test_a_packed_folder_arrives_without_the_one_around_it(case: str, tmp_path: Path) -> None:
    members, around = PACKED[case]
    (tmp_path / "up.zip").write_bytes(zipped(members))
    place = unpack(tmp_path / "up.zip", tmp_path / "new" / "place")
    assert place == tmp_path / "new" / "place"
    junk = ("__MACOSX", ".DS_Store", "._")
    assert files_of(place) == {
        name.removeprefix(around).replace("\\", "/"): content
        for name, content in members.items()
        if not name.endswith("/") and not any(part in name for part in junk)
    }


def test_a_file_packed_alone_is_what_opens(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "w.pt")
    with zipfile.ZipFile(tmp_path / "up.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "w.pt", "some/where/w.pt")
    place = unpack(tmp_path / "up.zip", tmp_path / "place")
    assert place.name == "w.pt"
    assert place.read_bytes() == (tmp_path / "w.pt").read_bytes()


def test_a_packed_checkpoint_opens(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine")
    with zipfile.ZipFile(tmp_path / "up.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.iterdir():
            archive.write(path, f"mine/{path.name}")
    model = load(unpack(tmp_path / "up.zip", tmp_path / "place"), device="cpu")
    assert model.hash == load(folder, device="cpu").hash


def test_files_brought_side_by_side_open(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine")
    brought = [(f"mine/{path.name}", path.open("rb")) for path in folder.iterdir()]
    model = load(place_files(brought, tmp_path / "place"), device="cpu")
    assert model.hash == load(folder, device="cpu").hash
    for _, file in brought:
        file.close()
    alone = place_files([("sub\\w.pt", io.BytesIO(b"w"))], tmp_path / "alone")
    assert alone == tmp_path / "alone" / "w.pt"


def test_an_empty_place_may_be_there_already(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    assert place_files([("w.pt", io.BytesIO(b"w"))], tmp_path / "place").read_bytes() == b"w"


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
