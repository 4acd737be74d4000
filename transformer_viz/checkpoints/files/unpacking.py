"""Uploaded files: a zip of a folder, several files, or a path on the server.

No input is trusted: sizes are counted while files are written, names are cleaned, and anything but
plain files and folders is refused. Needs no torch.
"""

from __future__ import annotations

import os
import shutil
import stat
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

from .errors import CheckpointError, CheckpointMissing, require_disk
from .zips import damaged, members, spelled

MAX_TOTAL = 4 * 2**30  # bytes that a zip may unpack to
MAX_RATIO = 100  # times its own size, beyond the first MAX_FREE bytes
MAX_FREE = 16 * 2**20
MAX_MEMBERS = 2000
MAX_DEPTH = 8  # nested folders
MAX_NAME = 200  # bytes of a file's name
PIECE = 2**20  # bytes that are written at once
JUNK = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")  # of file managers


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an uploaded zip of a folder, or of one weights file.

    Args:
        archive: The zip file.
        into: A folder that is empty or does not exist; after an error it is empty.

    Returns:
        ``into``, or the file if the zip holds only one. A single top folder is left out of the
            names.

    Raises:
        CheckpointError: The zip is invalid, or has members that are encrypted, links, devices, too
            many, too large, or named so that they would be written elsewhere. States which.
    """
    if not zipfile.is_zipfile(archive):
        raise CheckpointError(
            f"{archive.name} is no zip file; pack the folder as a zip, or give its files."
        )
    _refuse_filled(into)
    wanted = _plan(archive)
    into.mkdir(parents=True, exist_ok=True)
    try:
        _write(archive, wanted, into)
    except CheckpointError:
        _empty(into)
        raise
    except Exception as error:  # the errors of damaged zips have no common base class
        _empty(into)
        require_disk(error)
        raise damaged(archive, error) from error
    return into if len(wanted) > 1 else into / next(iter(wanted))


def place_files(files: Iterable[tuple[str, IO[bytes]]], into: Path) -> Path:
    """Write uploaded files into one folder: weights, ``config.json``, a vocabulary.

    Args:
        files: Name and open content of each file; only the last part of a name is used.
        into: A folder that is empty or does not exist; after an error it is empty.

    Returns:
        ``into``, or the file if there is only one.

    Raises:
        CheckpointError: There are no files, a name is invalid, or two names are equal.
    """
    _refuse_filled(into)
    into.mkdir(parents=True, exist_ok=True)
    places: dict[str, Path] = {}
    try:
        for name, content in files:
            parts = _parts(name, "The upload")
            place = into / parts[-1]
            if _same(parts[-1]) in places:
                raise CheckpointError(f"Two files are called {parts[-1]}; give each of them once.")
            places[_same(parts[-1])] = place
            with place.open("xb") as file:
                shutil.copyfileobj(content, file, PIECE)
    except Exception as error:
        _empty(into)
        require_disk(error)
        raise
    if not places:
        raise CheckpointError("No file came; give a weights file, and its config.json beside it.")
    return into if len(places) > 1 else next(iter(places.values()))


def allowed(path: str | os.PathLike[str], roots: Sequence[Path]) -> Path:
    """Return a path on the server if it is below one of the folders that the operator allows.

    Links are resolved first, also those beside the weights. A relative path is searched in each of
    the folders. Errors name the folders, but not their location on the server.

    Raises:
        CheckpointError: The path is outside of the folders.
        CheckpointMissing: The path is inside, but does not exist.
    """
    tops = [Path(root).resolve() for root in roots]
    named = ", ".join(f"the folder {top.name!r}" for top in tops) or "no folder at all"
    inside = [place for place in _places(path, tops) if _below(place, tops)]
    if not inside:
        raise CheckpointError(
            f"{_shown(path)} is outside of what may be opened here; give a path below {named}."
        )
    found = next((place for place in inside if place.is_file() or place.is_dir()), None)
    if found is None:
        raise CheckpointMissing(f"There is no folder or file {_shown(path)} below {named}.")
    folder = found if found.is_dir() else found.parent
    for beside in folder.iterdir():
        if beside.is_symlink() and beside.is_file() and not _below(beside, tops):
            raise CheckpointError(
                f"{beside.name} in {folder.name} is a link out of what may be opened here; put the "
                f"file itself below {named}."
            )
    return found


def _places(path: str | os.PathLike[str], tops: list[Path]) -> list[Path]:
    """Return the possible targets of a path, links resolved; empty for an invalid path."""
    try:
        return [(top / path).resolve() for top in tops]
    except (ValueError, OSError, RuntimeError):  # a null character, too long, links in a circle
        return []


def _below(place: Path, tops: list[Path]) -> bool:
    try:
        real = place.resolve()
        return any(real.is_relative_to(top) for top in tops)
    except (OSError, RuntimeError):
        return False


def _shown(path: str | os.PathLike[str]) -> str:
    """Return a path for an error message: on one line and shortened."""
    text = ascii(os.fspath(path))[1:-1] if not str(path).isprintable() else str(path)
    return repr(text if len(text) <= 200 else text[:200] + "…")


def _refuse_filled(into: Path) -> None:
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise CheckpointError(
            f"{into.name} is not empty; files are unpacked to a place of their own."
        )


def _plan(archive: Path) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """Return the target of each member; the sizes that the zip claims are checked first."""
    found = members(archive)
    if any(member.filename.endswith("/data.pkl") for member in found):
        raise CheckpointError(
            f"{archive.name} is a file of torch.save and no packed folder; let its name end in .pt."
        )
    if len(found) > MAX_MEMBERS:
        raise CheckpointError(
            f"{archive.name} holds {len(found):,} files, and {MAX_MEMBERS:,} are the most; pack "
            "the weights, config.json and the vocabulary only."
        )
    plan: dict[PurePosixPath, zipfile.ZipInfo] = {}
    for member in found:
        parts = _parts(spelled(member), archive.name)
        if any(part in JUNK or part.startswith("._") for part in parts):
            continue
        _check_member(member, archive)
        if not member.is_dir():
            place = PurePosixPath(*parts)
            if place in plan:
                _twice(archive, place)
            plan[place] = member
    _check_clashes(plan, archive)
    if not plan:
        raise CheckpointError(f"{archive.name} holds no files; pack the folder of a checkpoint.")
    _check_total(sum(member.file_size for member in plan.values()), archive)
    tops = {place.parts[0] for place in plan}
    if len(tops) == 1 and all(len(place.parts) > 1 for place in plan):
        plan = {PurePosixPath(*place.parts[1:]): member for place, member in plan.items()}
    return plan


def _check_clashes(plan: Iterable[PurePosixPath], archive: Path) -> None:
    """Refuse equal names, as some file systems compare them, and files named like folders."""
    folders = {_same(str(parent)) for place in plan for parent in place.parents}
    taken: set[str] = set()
    for place in plan:
        name = _same(str(place))
        if name in taken or name in folders:
            _twice(archive, place)
        taken.add(name)


def _twice(archive: Path, place: PurePosixPath) -> NoReturn:
    raise CheckpointError(f"{archive.name} holds {place} twice; pack each file once.")


def _check_member(member: zipfile.ZipInfo, archive: Path) -> None:
    """Refuse a member that is not a plain file or folder."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a link" if kind == stat.S_IFLNK else "no plain file"
        raise CheckpointError(
            f"{member.filename!r} in {archive.name} is {what}; pack the files themselves."
        )
    if member.flag_bits & 1:
        raise CheckpointError(
            f"{member.filename!r} in {archive.name} is encrypted; pack it without a password."
        )
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CheckpointError(
            f"{member.filename!r} in {archive.name} is compressed in an unusual way; pack it as an "
            "ordinary zip (stored or deflated)."
        )


def _check_total(total: int, archive: Path) -> None:
    """Refuse a total size above the limit for a zip of this size."""
    most = min(MAX_TOTAL, MAX_FREE + MAX_RATIO * archive.stat().st_size)
    if total > most:
        raise CheckpointError(
            f"{archive.name} would unpack to more than {most:,} bytes; that is no packed "
            "checkpoint. Pack the folder again, or give its files one by one."
        )


def _write(archive: Path, plan: dict[PurePosixPath, zipfile.ZipInfo], into: Path) -> None:
    """Write the members, and count the bytes independently of the sizes in the zip."""
    total = 0
    with zipfile.ZipFile(archive) as opened:
        for place, member in plan.items():
            target = into / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as source, target.open("xb") as file:
                while piece := source.read(PIECE):
                    total += len(piece)
                    _check_total(total, archive)
                    file.write(piece)


def _parts(name: str, whose: str) -> list[str]:
    """Return the parts of a file's name in one normal form; refuse names that leave the folder."""
    plain = unicodedata.normalize("NFC", name).replace("\\", "/")
    parts = [part for part in plain.removesuffix("/").split("/") if part != "."]
    why = _strange(plain, parts)
    if why:
        raise CheckpointError(
            f"{whose} has a file named {_shown(name)}; names must be plain, and {why}. Rename it."
        )
    if any(len(part.encode()) > MAX_NAME for part in parts):
        raise CheckpointError(
            f"{whose} has a file whose name is longer than {MAX_NAME} bytes; give it a shorter one."
        )
    return parts


def _strange(plain: str, parts: Sequence[str]) -> str:
    """Return the reason why a name is refused; empty if it is plain."""
    kinds = {unicodedata.category(one): one for one in plain if not one.isprintable()}
    unseen = next(iter(kinds.values()), "")
    reasons = {
        "its letters are not in UTF-8": "Cs" in kinds,
        "it holds a control character": "Cc" in kinds,
        f"it holds a character that nobody sees (U+{ord(unseen or ' '):04X})": bool(unseen),
        "it names a drive, by a colon": ":" in plain,
        "it is empty, or a part of it": not all(parts) or not parts,
        "its dots lead up": ".." in parts,
        "a part of it begins or ends with a space": any(one != one.strip() for one in parts),
        f"it has more than {MAX_DEPTH} parts": len(parts) > MAX_DEPTH,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _same(name: str) -> str:
    """Return the form in which some file systems compare names."""
    return unicodedata.normalize("NFC", name.casefold())


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
