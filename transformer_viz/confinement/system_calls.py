"""Which calls of the system a process may still make (seccomp of Linux): no new connections, no
other programs or processes, no word to processes of others.

https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

SET_DEATH_SIGNAL, SET_SECCOMP, SET_NO_NEW_PRIVILEGES = 1, 22, 38  # of prctl
FILTER = 2
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of the packet filter
NUMBER, MACHINE, FIRST = 0, 4, 16  # where they stand in what the filter is shown
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
X32 = 0x40000000
THREAD = 0x10000  # CLONE_THREAD

#: What is refused on every machine, with the number that all newer ones share.
NEW = {"clone3": 435, "pidfd_open": 434, "pidfd_send_signal": 424, "pidfd_getfd": 438,
       "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430}  # fmt: skip
#: Numbers of the other calls by machine, and its name for itself.
MACHINES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {"socket": 41, "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "clone": 56,
         "kill": 62, "tkill": 200, "tgkill": 234, "ptrace": 101, "process_vm_readv": 310,
         "process_vm_writev": 311, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "mount": 165,
         "umount2": 166, "unshare": 272, "setns": 308, "bpf": 321, "perf_event_open": 298,
         "userfaultfd": 323, "keyctl": 250, "add_key": 248, "request_key": 249, "chroot": 161,
         "pivot_root": 155, "init_module": 175, "finit_module": 313, "kexec_load": 246,
         "setpriority": 141, "shmget": 29, "msgget": 68, "semget": 64},
    ),
    "aarch64": (
        0xC00000B7,
        {"socket": 198, "execve": 221, "execveat": 281, "clone": 220, "kill": 129, "tkill": 130,
         "tgkill": 131, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
         "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "mount": 40, "umount2": 39,
         "unshare": 97, "setns": 268, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
         "keyctl": 219, "add_key": 217, "request_key": 218, "chroot": 51, "pivot_root": 41,
         "init_module": 105, "finit_module": 273, "kexec_load": 104, "setpriority": 140,
         "shmget": 194, "msgget": 186, "semget": 190},
    ),
}  # fmt: skip


def forgo_privileges() -> None:
    """Never gain rights by a program of another owner; without that, no filter is taken."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Be killed when the process that began this one ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, 9, 0, 0, 0)


def restrict() -> bool:
    """Refuse the calls above to this process, for good; whether that is in force."""
    known = MACHINES.get(platform.machine())
    if known is None or not sys.platform.startswith("linux"):
        return False
    program = b"".join(_program(*known))
    held = ctypes.create_string_buffer(program, len(program))
    given = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(SET_SECCOMP, FILTER, ctypes.c_char_p(given), 0, 0)) == 0


def _program(machine: int, numbers: dict[str, int]) -> list[bytes]:
    """The filter: steps of eight bytes, which go down one after the other."""
    refused = REFUSE | errno.EPERM
    own = {"clone", "tgkill"}  # those that are looked at more closely
    steps = [
        _step(LOAD, MACHINE),
        _step(EQUAL, machine, 1, 0),
        _step(RETURN, KILL),
        _step(LOAD, NUMBER),
    ]
    if machine == MACHINES["x86_64"][0]:  # its second set of numbers is nobody's here
        steps += [_step(AT_LEAST, X32, 0, 1), _step(RETURN, refused)]
    for name, number in (NEW | numbers).items():
        # a library that finds no clone3 takes clone, whose flags can be read here
        answer = REFUSE | errno.ENOSYS if name == "clone3" else refused
        if name not in own:
            steps += [_step(EQUAL, number, 0, 1), _step(RETURN, answer)]
    for name, test, value in (("clone", ANY_BIT, THREAD), ("tgkill", EQUAL, os.getpid())):
        steps += [
            _step(EQUAL, numbers[name], 0, 4),
            _step(LOAD, FIRST),
            _step(test, value, 0, 1),
            _step(RETURN, ALLOW),
            _step(RETURN, refused),
        ]
    return [*steps, _step(RETURN, ALLOW)]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One step: what it does, and how many steps it leaves out in either case."""
    return struct.pack("=HBBI", code, yes, no, value)
