"""Jobs that do in a confined process what no opening of a file should: run there by name."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import platform
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformer_viz.confinement.channel import Channel

HERE = "tests.confinement.jobs"
NAMES = ("tell", "attempt", "misbehave", "try_calls", "fill")
JOBS = tuple(f"{HERE}:{name}" for name in NAMES)
NOTHING, NEEDY = f"{HERE}:nothing", f"{HERE}:needy"


def nothing() -> None:
    """Import nothing more."""


def needy() -> None:
    """Import something that needs a system call that is not listed."""
    os.sched_setaffinity(0, os.sched_getaffinity(0))


def tell(channel: Channel) -> None:
    """Say back what came, and what this process knows of the world."""
    while True:
        try:
            message = channel.receive()
        except EOFError:
            return
        channel.send(message | {"environment": dict(os.environ), "process": os.getpid()})


def attempt(channel: Channel) -> None:
    """Try one thing after the other, and say of each whether it worked."""
    asked = channel.receive()
    trials: dict[str, Any] = {
        "read its own": lambda: Path(asked["readable"]).read_text(),
        "read another's": lambda: Path(asked["secret"]).read_text(),
        "list another's": lambda: list(Path(asked["secret"]).parent.iterdir()),
        "write at home": lambda: Path("own").write_text("x"),
        "write elsewhere": lambda: Path(asked["elsewhere"]).write_text("x"),
        "write where it reads": lambda: Path(asked["readable"]).write_text("x"),
        "remove": lambda: Path(asked["readable"]).unlink(),
        "connect": lambda: socket.create_connection(("127.0.0.1", asked["port"]), 2),
        "send": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "fork": os.fork,
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "kill": lambda: os.kill(asked["process"], 0),
        "watch": lambda: _watched(asked["process"]),
        "environment": lambda: Path(f"/proc/{asked['process']}/environ").read_bytes(),
        "memory": lambda: os.open(f"/proc/{asked['process']}/mem", os.O_RDONLY),
    }
    worked = {}
    for name, trial in trials.items():
        try:
            result = trial()
            if name == "fork" and result == 0:
                os._exit(0)
            worked[name] = True
        except (OSError, subprocess.SubprocessError):
            worked[name] = False
    channel.send({"worked": worked})


def _watched(process: int) -> None:
    ctypes.set_errno(0)
    if ctypes.CDLL(None, use_errno=True).ptrace(16, process, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def misbehave(channel: Channel) -> None:
    """Do as told: eat, sleep, burn, die, leave, or answer with something else than an answer."""
    asked = channel.receive()
    how = asked["how"]
    if how == "eat":
        held = []
        try:
            while True:
                held.append(bytearray(50_000_000))
        except MemoryError:
            count = len(held)
            held.clear()
            channel.send({"eaten": 50 * count})
    elif how == "sleep":
        time.sleep(1000)
    elif how == "burn":
        while True:
            pass
    elif how == "die":
        signal.raise_signal(asked["signal"])
    elif how == "leave":
        os._exit(7)
    elif how == "flood":
        while True:
            channel._write.write(b"\xff" * 2**20)
    elif how == "babble":
        channel._write.write((5).to_bytes(8, "big") + b"{{{{{")
        channel._write.flush()


def call(number: int, *given: int | bytes | None) -> int:
    """Make a system call by its number.

    Raises:
        OSError: it returned an error.
    """
    ctypes.set_errno(0)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in given]
    result = int(libc.syscall(ctypes.c_long(number), *wide))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def trials_of_calls(server: int, outside: str) -> dict[str, Callable[[], Any]]:
    """Return what code in a confined process could try on the process that began it, and on files.

    None does harm where it is not refused.

    Numbers are those of x86-64, or of all machines from 424 on.
    """
    own, held = os.open(".", os.O_RDONLY), os.open(outside, os.O_RDONLY)
    limit, word = struct.pack("QQ", 64, 4096), outside.encode()
    zeros = bytes(128)
    new = {
        "pidfd_open": lambda: call(434, server, 0),
        "io_uring_setup": lambda: call(425, 8, zeros),
        "clone3": lambda: call(435, zeros, 88),
        "openat2": lambda: call(437, -100, word, zeros, 24),
        "landlock_create_ruleset": lambda: call(444, zeros, 16, 0),
        "memfd_secret": lambda: call(447, 0),
        "process_madvise": lambda: call(440, own, zeros, 1, 21, 0),
        "fchmodat2": lambda: call(452, -100, word, 0o666, 0),
        "a call of the future": lambda: call(999, 0),
    }
    if platform.machine() != "x86_64":
        return new
    return new | {
        "prlimit64": lambda: call(302, server, 7, limit, None),
        "prlimit64 (read)": lambda: call(302, server, 7, None, bytes(16)),
        "prlimit64 of itself": lambda: call(302, 0, 7, limit, None),
        "setrlimit": lambda: call(160, 7, limit),
        "sched_setaffinity": lambda: call(203, server, 8, b"\1" + bytes(7)),
        "sched_setaffinity of itself": lambda: call(203, 0, 8, b"\1" + bytes(7)),
        "sched_setscheduler": lambda: call(144, server, 3, bytes(4)),
        "sched_setparam": lambda: call(142, server, bytes(4)),
        "sched_setattr": lambda: call(314, server, struct.pack("I", 48) + bytes(44), 0),
        "sched_getaffinity": lambda: call(204, server, 128, bytes(128)),
        "ioprio_set": lambda: call(251, 1, server, 3 << 13),
        "setpriority": lambda: call(141, 0, server, 19),
        "kill": lambda: call(62, server, 0),
        "kill the group": lambda: call(62, 0, 0),
        "kill all": lambda: call(62, -1, 0),
        "tkill": lambda: call(200, server, 0),
        "tgkill": lambda: call(234, server, server, 0),
        "rt_sigqueueinfo": lambda: call(129, server, 10, zeros),
        "process_vm_readv": lambda: call(310, server, zeros, 1, zeros, 1, 0),
        "ptrace": lambda: call(101, 16, server, None, None),
        "kcmp": lambda: call(312, server, server, 0, 0, 0),
        "migrate_pages": lambda: call(256, server, 8, b"\1" * 8, b"\1" * 8),
        "move_pages": lambda: call(279, server, 0, None, None, None, 0),
        "setpgid": lambda: call(109, server, server),
        "processor clock of another": lambda: call(228, ~server << 3 | 2, bytes(16)),
        "signals by a file's owner": lambda: call(72, own, 8, server),
        "lease": lambda: call(72, held, 1024, 0),
        "flock": lambda: call(73, held, 2 | 4),
        "timer": lambda: call(222, 0, None, bytes(8)),
        "prctl (death signal)": lambda: call(157, 1, 0),
        "prctl (dumpable)": lambda: call(157, 4, 0),
        "prctl (subreaper)": lambda: call(157, 36, 1),
        "ioctl (flags of a file)": lambda: call(16, held, 0x40086602, bytes(8)),
        "ioctl (owner)": lambda: call(16, own, 0x8901, struct.pack("i", server)),
        "unshare": lambda: call(272, 0x10000000),
        "clone with a namespace": lambda: call(56, 0x10000000 | 17, None, None, None, None),
        "clone of a process": lambda: call(56, 17, None, None, None, None),
        "vfork": lambda: call(58),
        "setns": lambda: call(308, own, 0),
        "mount": lambda: call(165, b"none", b".", b"tmpfs", 0, None),
        "chroot": lambda: call(161, b"."),
        "bpf": lambda: call(321, 0, zeros, 48),
        "perf_event_open": lambda: call(298, zeros, 0, -1, -1, 0),
        "userfaultfd": lambda: call(323, 0),
        "keyctl": lambda: call(250, 0, -1, 1),
        "add_key": lambda: call(248, b"user", b"name", b"x", 1, -1),
        "memfd_create": lambda: call(319, b"name", 0),
        "execve": lambda: call(59, b"/bin/true", None, None),
        "execveat": lambda: call(322, held, b"", None, None, 0x1000),
        "socket": lambda: call(41, 1, 1, 0),
        "socketpair": lambda: call(53, 1, 1, 0, bytes(8)),
        "pass a file on": lambda: call(46, own, zeros, 0),
        "shmget": lambda: call(29, 7, 4096, 0o1600),
        "mq_open": lambda: call(240, b"name", 66, 0o600, None),
        "inotify_init": lambda: call(294, 0),
        "fanotify_init": lambda: call(300, 0, 0),
        "open_by_handle_at": lambda: call(304, own, zeros, 0),
        "personality": lambda: call(135, 0x0008),
        "setuid": lambda: call(105, 0),
        "setgroups": lambda: call(116, 0, None),
        "capset": lambda: call(126, zeros, zeros),
        "mlockall": lambda: call(151, 1),
        "sync": lambda: call(162),
        "syslog": lambda: call(103, 3, bytes(64), 64),
        "sethostname": lambda: call(170, b"x", -1),
        "adjtimex": lambda: call(159, bytes(208)),
        "seccomp": lambda: call(317, 0, 1, None),
        "chmod": lambda: call(90, word, 0o666),
        "fchmod": lambda: call(91, held, 0o666),
        "fchmodat": lambda: call(268, -100, word, 0o666),
        "chown": lambda: call(92, word, os.getuid(), os.getgid()),
        "fchown": lambda: call(93, held, os.getuid(), os.getgid()),
        "lchown": lambda: call(94, word, os.getuid(), os.getgid()),
        "utime": lambda: call(132, word, bytes(16)),
        "utimes": lambda: call(235, word, bytes(32)),
        "utimensat": lambda: call(280, -100, word, bytes(32), 0),
        "futimens": lambda: call(280, held, None, bytes(32), 0),
        "setxattr": lambda: call(188, word, b"user.a", b"x", 1, 0),
        "fsetxattr": lambda: call(190, held, b"user.a", b"x", 1, 0),
        "getxattr": lambda: call(191, word, b"user.a", bytes(9), 9),
        "removexattr": lambda: call(197, word, b"user.a"),
        "truncate": lambda: call(76, word, 0),
        "symlink": lambda: call(88, word, b"link"),
        "link": lambda: call(86, word, b"link"),
        "linkat of a handle": lambda: call(265, held, b"", -100, b"link", 0x1000),
        "mknod of a pipe": lambda: call(133, b"pipe", 0o010600, 0),
        "a call of x32": lambda: call(0x40000000 | 39),
        "a call of 32 bits": thirty_two_bits,
    }


def thirty_two_bits() -> None:
    """Ask for the number of this process as programs of 32 bits do (``int 0x80``)."""
    code = b"\xb8\x14\0\0\0\xcd\x80\xc3"  # mov eax, 20; int 0x80; ret
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    place = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(place)()
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def try_calls(channel: Channel) -> None:
    """Try calls one after the other, and give the error of each, 0 for one that worked."""
    while True:
        try:
            asked = channel.receive()
        except EOFError:
            return
        errors = {}
        for name, trial in trials_of_calls(asked["server"], asked["outside"]).items():
            try:
                trial()
                errors[name] = 0
            except OSError as error:
                errors[name] = error.errno or -1
        channel.send({"errors": errors})


def fill(channel: Channel) -> None:
    """Take more and more of the disk, in one of several ways, until this process is ended."""
    way = channel.receive()["way"]
    if way == "one file":
        with open("large", "wb") as file:
            file.truncate(10**12)
    for number in itertools.count():
        name = f"{number}"
        if way == "folders in folders":
            os.mkdir("d")
            os.chdir("d")
        elif way == "empty files":
            Path(name).touch()
        elif way == "removed files":
            handle = os.open(name, os.O_WRONLY | os.O_CREAT)
            os.write(handle, bytes(2**20))
            os.unlink(name)
            time.sleep(0.001 if handle < 400 else 60)
        else:
            Path(name).write_bytes(bytes(2**20))
