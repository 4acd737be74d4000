"""Landlock of Linux (5.13 and newer): restricts the files a process can reach. Needs no privileges.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on all architectures
VERSION, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ODD = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12  # create devices, sockets, pipes and links
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BASIC = (1 << 13) - 1  # all file rights of the first version
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # others: folders
TCP = 3  # bind and connect, from version 4
ABROAD = 3  # abstract sockets and signals of processes outside, from version 6


def restrict(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Restrict this process to these files and folders permanently; return True if in force."""
    version = supported()
    if version < 1:
        return False
    rights = BASIC
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        rights |= right if version >= since else 0
    wanted = struct.pack("=QQQ", rights, TCP if version >= 4 else 0, ABROAD if version >= 6 else 0)
    rules = _call(CREATE_RULESET, wanted, len(wanted), 0)
    if rules < 0:
        return False
    try:
        for place in readable:
            _allow(rules, place, READ_FILE | READ_DIR)
        for place in writable:
            _allow(rules, place, rights & ~(EXECUTE | IOCTL_DEV | ODD))
        return _call(RESTRICT_SELF, rules, 0) == 0
    finally:
        os.close(rules)


def supported() -> int:
    """Return the Landlock version of this kernel; 0 for none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, _call(CREATE_RULESET, None, 0, VERSION))


def _allow(rules: int, place: str, rights: int) -> None:
    """Add a rule for a path, if it exists."""
    try:
        handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(place):
            rights &= OF_FILES
        _call(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)


def _call(number: int, *given: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in given]
    return int(libc.syscall(ctypes.c_long(number), *wide))
