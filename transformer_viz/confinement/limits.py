"""What a process of this kind may use and touch, and how it gives up the rest.

Each step is one-way: what the process runs afterwards cannot take it back.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import landlock, system_calls

FILES = 512  # that may be open at once
OWN_ONLY = 0o077
#: What a process can be held to: reading and writing of files; no other process started, watched or
#: stopped; listed system calls only.
ENFORCED = ("memory", "processor", "files", "network", "programs", "calls")
NICER = 5  # steps behind the server: about a quarter of a core that both want


@dataclass(frozen=True)
class Limits:
    """Bounds of one process.

    Attributes:
        seconds: of processor time, more than it has used at the start.
        memory: bytes, more than it has at the start.
        folder: the only one that it may write to.
        readable: what it may read besides Python's own files.
        disk: bytes that its files may take together; left out, as many as ``memory``.
    """

    seconds: int
    memory: int
    folder: str
    readable: tuple[str, ...] = ()
    disk: int | None = None

    @property
    def most_on_disk(self) -> int:
        """Bytes that its files may take together."""
        return self.memory if self.disk is None else self.disk


def confine(limits: Limits, listed: bool = True) -> list[str]:
    """Give up everything else; the platform decides what of it is enforced.

    Args:
        limits: what remains.
        listed: allow listed system calls only; else refuse some, see `system_calls`.

    Returns:
        Words of `ENFORCED`.
    """
    os.umask(OWN_ONLY)
    done = _bounded(limits)
    system_calls.forgo_privileges()
    if landlock.restrict(_libraries() + list(limits.readable), [limits.folder]):
        done.append("files")
    if system_calls.restrict(listed):
        done += ["network", "programs", *(["calls"] if listed else [])]
    return done


def _bounded(limits: Limits) -> list[str]:
    """Limits of memory and processor, where the platform has them."""
    if sys.platform == "win32":
        return []
    import resource

    os.nice(NICER)

    def most(name: str, value: int) -> bool:
        number = getattr(resource, name, None)
        if number is None:
            return False
        try:
            hard = resource.getrlimit(number)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (most, most))
        except (ValueError, OSError):
            return False
        return True

    most("RLIMIT_CORE", 0)
    most("RLIMIT_NOFILE", FILES)
    most("RLIMIT_FSIZE", limits.most_on_disk)
    done = [word for word, name, value in (
        ("processor", "RLIMIT_CPU", limits.seconds + _processor_seconds()),
        ("memory", "RLIMIT_AS", limits.memory + _mapped()),
    ) if most(name, value)]  # fmt: skip
    return [word for word in done if word != "memory" or sys.platform != "darwin"]


def _processor_seconds() -> int:
    """Seconds of processor that this process has used."""
    return int(sum(os.times()[:2])) + 1


def _mapped() -> int:
    """Bytes that are mapped already."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _libraries() -> list[str]:
    """Where Python, its packages and the system's libraries stand.

    A folder on the path that is none of packages (a clone, or where the server was started) opens
    with nothing but this package.
    """
    package = Path(__file__).parents[1]
    roots = [sys.prefix, sys.base_prefix, str(package), *map(os.path.realpath, (sys.executable,))]
    packages = [place for place in sys.path if place.rstrip("/").endswith(("-packages", ".zip"))]
    system = ["/usr", "/lib", "/lib64", "/bin", "/opt", "/nix", "/etc/ld.so.cache"]
    devices = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/sys/devices/system"]
    itself = ["/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/etc/localtime"]
    return [*roots, *packages, *system, *devices, *itself]
