"""Measurement, limits and removal of files that confined processes write."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Protocol

EVERY = 0.2  # seconds between two checks
MOST_FILES = 10_000  # files and folders of one process
DEEPEST = 16  # maximum depth of folders
UNKNOWN = (errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # not caused by the process
BLOCK = 512  # bytes, unit of st_blocks on all platforms


def kept(folder: Path, process: int | None = None) -> int | None:
    """Return the bytes of the disk that a process holds.

    Args:
        folder: Folder where it may write.
        process: Process id; files that it removed but has still open are counted too (Linux).

    Returns:
        None for more files than `MOST_FILES`, deeper folders than `DEEPEST`, or unreadable ones.
    """
    total, files, folders = 0, 0, [(str(folder), 0)]
    while folders:
        place, depth = folders.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        total += getattr(found, "st_blocks", -(-found.st_size // BLOCK)) * BLOCK
                        files += 1
                        if entry.is_dir(follow_symlinks=False):
                            folders.append((entry.path, depth + 1))
                    if files > MOST_FILES or depth > DEEPEST:
                        return None
        except OSError as error:
            if error.errno not in UNKNOWN:
                return None
    return total + (0 if process is None else _removed(process))


def _removed(process: int) -> int:
    """Return the bytes of removed files that a process has open."""
    total = 0
    with suppress(OSError), os.scandir(f"/proc/{process}/fd") as handles:
        for handle in handles:
            with suppress(OSError):
                found = handle.stat()
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    total += found.st_blocks * BLOCK
    return total


class Writer(Protocol):
    """A process whose disk usage is monitored."""

    def check_disk(self) -> None:
        """Stop the process if it exceeds its limit."""


class Watch:
    """Monitor of all running processes, in a thread that ends with the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writers: list[Writer] = []
        self._runs = False

    def add(self, writer: Writer) -> None:
        """Start to monitor a process."""
        with self._lock:
            self._writers.append(writer)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="disk", daemon=True).start()

    def remove(self, writer: Writer) -> None:
        """Stop to monitor a process."""
        with self._lock, suppress(ValueError):
            self._writers.remove(writer)

    def _run(self) -> None:
        while True:
            time.sleep(EVERY)
            with self._lock:
                writers = self._writers.copy()
                if not writers:
                    self._runs = False
                    return
            for writer in writers:
                with suppress(OSError, ValueError):  # continue with the others
                    writer.check_disk()


def remove_tree(folder: Path) -> None:
    """Remove a folder with all its contents, at any depth; errors are ignored.

    `shutil.rmtree` raises RecursionError at a depth of a thousand folders.
    """
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    while os.open in os.supports_dir_fd and os.path.isdir(folder) and not os.path.islink(folder):
        try:
            if not _flatten(folder):
                break
        except OSError:
            break


def _flatten(folder: Path) -> bool:
    """Remove the files in the upper two levels of a tree, and move the folders below to the first.

    Returns:
        True if the folder still exists and something was removed.
    """
    top = _opened(str(folder))
    try:
        names = os.listdir(top)
        unique = (f"{time.monotonic_ns()}-{number}" for number in count())
        for name in names:
            if not _is_folder(name, top):
                os.unlink(name, dir_fd=top)
                continue
            inner = _opened(name, top)
            try:
                for below in os.listdir(inner):
                    if _is_folder(below, inner):
                        os.close(_opened(below, inner))  # a move needs write permission
                        os.rename(below, next(unique), src_dir_fd=inner, dst_dir_fd=top)
                    else:
                        os.unlink(below, dir_fd=inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    if not names:
        os.rmdir(folder)
    return bool(names)


def _is_folder(name: str, where: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode)


def _opened(name: str, where: int | None = None) -> int:
    """Open a folder that is no link, with all permissions for its owner."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    os.chmod(name, stat.S_IRWXU, dir_fd=where)
    return os.open(name, flags, dir_fd=where)
