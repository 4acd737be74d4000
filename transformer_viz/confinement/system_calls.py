"""System call filter of a process (seccomp of Linux).

The filter allows listed calls only (:mod:`.allowed_calls`). If Python does not work under that
list, a shorter filter refuses the calls below instead: no new connections, no other programs or
processes, no signal to other processes. Refused calls return an error and never kill.

https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

from .allowed_calls import CHECKED, Check, allowed

SET_DEATH_SIGNAL, SET_SECCOMP, SET_NO_NEW_PRIVILEGES = 1, 22, 38  # of prctl
FILTER = 2
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of the packet filter
NUMBER, MACHINE, FIRST = 0, 4, 16  # offsets in struct seccomp_data
WORD = 4  # bytes; arguments have two words, the lower one first
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
X32 = 0x40000000
IOCTL = CHECKED["ioctl"][:2]  # refused like an unknown request of a device
SHARED = 424  # first number that is the same on all architectures: calls since Linux 5.1

#: Calls that the shorter filter refuses on every architecture; newer calls share their number.
NEW = {"clone3": 435, "pidfd_open": 434, "pidfd_send_signal": 424, "pidfd_getfd": 438,
       "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430}  # fmt: skip
#: Numbers of the other calls by architecture, and its audit identifier.
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
    """Set "no new privileges" for this process, a precondition of filters."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, 9, 0, 0, 0)


def restrict(listed: bool = True) -> bool:
    """Set the filter for this process, permanently.

    Args:
        listed: True to allow listed calls only; else refuse only the calls above.

    Returns:
        True if the filter is in force.
    """
    names = list(MACHINES)
    if not sys.platform.startswith("linux") or struct.calcsize("P") != 8:
        return False  # a 32-bit Python uses other numbers
    if platform.machine() not in names:
        return False
    machine = names.index(platform.machine())
    steps = _allowing(machine) if listed else _refusing(machine)
    program = b"".join(_start(machine) + steps)
    held = ctypes.create_string_buffer(program, len(program))
    given = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(SET_SECCOMP, FILTER, ctypes.c_char_p(given), 0, 0)) == 0


def _start(machine: int) -> list[bytes]:
    """Return steps that refuse calls of another ABI, and load the number of the call."""
    steps = [
        _step(LOAD, MACHINE),
        _step(EQUAL, list(MACHINES.values())[machine][0], 1, 0),
        _refused(),
        _step(LOAD, NUMBER),
    ]
    if machine == 0:  # x32, a second set of numbers
        steps += [_step(AT_LEAST, X32, 0, 1), _refused()]
    return steps


def _allowing(machine: int) -> list[bytes]:
    """Return steps that allow listed calls.

    Newer calls return ENOSYS, so that libraries use older ones.
    """
    free, checked = allowed(machine)
    steps = [step for number in free for step in (_step(EQUAL, number, 0, 1), _allowed())]
    for number, checks in checked.items():
        error = errno.ENOTTY if number in IOCTL else errno.EPERM
        body = [step for check in checks for step in _checked(check, error)] + [_allowed()]
        steps += [_step(EQUAL, number, 0, len(body)), *body]
    return [*steps, _step(AT_LEAST, SHARED, 0, 1), _refused(errno.ENOSYS), _refused()]


def _checked(check: Check, error: int) -> list[bytes]:
    """Return steps that refuse a call whose argument violates a condition, or else continue."""
    place = FIRST + 2 * WORD * check.argument
    load, refused = _step(LOAD, place), _refused(error)
    if check.empty:
        high = _step(LOAD, place + WORD)
        return [load, _step(EQUAL, 0, 1, 0), refused, high, _step(EQUAL, 0, 1, 0), refused]
    if check.without:
        return [load, _step(ANY_BIT, check.without, 0, 1), refused]
    if check.having:
        return [load, _step(ANY_BIT, check.having, 1, 0), refused]
    values = [os.getpid() if value is None else value for value in check.values]
    left = range(len(values), 0, -1)
    found = [_step(EQUAL, value, more, 0) for value, more in zip(values, left, strict=True)]
    return [load, *found, refused]


def _refusing(machine: int) -> list[bytes]:
    """Return steps that refuse the calls above, and allow all others."""
    numbers = list(MACHINES.values())[machine][1]
    steps = []
    for name, number in (NEW | numbers).items():
        # without clone3 libraries use clone, whose flags can be checked here
        if name not in ("clone", "tgkill"):
            answer = errno.ENOSYS if name == "clone3" else errno.EPERM
            steps += [_step(EQUAL, number, 0, 1), _refused(answer)]
    for name in ("clone", "tgkill"):
        checks = CHECKED[name][2]
        body = [step for check in checks for step in _checked(check, errno.EPERM)] + [_allowed()]
        steps += [_step(EQUAL, numbers[name], 0, len(body)), *body]
    return [*steps, _allowed()]


def _allowed() -> bytes:
    return _step(RETURN, ALLOW)


def _refused(error: int = errno.EPERM) -> bytes:
    return _step(RETURN, REFUSE | error)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return one instruction, with the number of instructions to skip in either case."""
    return struct.pack("=HBBI", code, yes, no, value)
