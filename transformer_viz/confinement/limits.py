"""Limits of a confined process, and the steps that enforce them.

No step can be undone by code that the process runs later.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import landlock, system_calls

FILES = 512  # maximum number of open files
OWN_ONLY = 0o077
#: Enforceable limits: memory and CPU time; files that can be read and written; no network; no other
#: process started, traced or stopped; listed system calls only.
ENFORCED = ("memory", "processor", "files", "network", "programs", "calls")
NICER = 10  # niceness above the server: about a tenth of a contended core


@dataclass(frozen=True)
class Limits:
    """Limits of one process.

    Attributes:
        seconds: CPU time in addition to that used before the start.
        memory: Bytes in addition to those used before the start.
        folder: The only writable folder.
        readable: Readable paths besides Python's own files.
        disk: Maximum total bytes of its files; by default as many as ``memory``.
    """

    seconds: int
    memory: int
    folder: str
    readable: tuple[str, ...] = ()
    disk: int | None = None

    @property
    def most_on_disk(self) -> int:
        """Maximum total bytes of its files."""
        return self.memory if self.disk is None else self.disk


def confine(limits: Limits, listed: bool = True) -> list[str]:
    """Apply the limits to this process; the platform decides which are enforced.

    Args:
        limits: The limits.
        listed: True to allow listed system calls only; else refuse some, see `system_calls`.

    Returns:
        Names from `ENFORCED`.
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
    """Set limits of memory and CPU time, if the platform has them, and return those in force."""
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
    """Return the CPU seconds that this process has used."""
    return int(sum(os.times()[:2])) + 1


def _mapped() -> int:
    """Return the bytes that are mapped already."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _libraries() -> list[str]:
    """Return the paths of Python, its packages and the system's libraries.

    A folder on the path without packages (a clone, or the start folder of the server) is left out,
    except this package in it.
    """
    package = Path(__file__).parents[1]
    roots = [sys.prefix, sys.base_prefix, str(package), *map(os.path.realpath, (sys.executable,))]
    packages = [place for place in sys.path if place.rstrip("/").endswith(("-packages", ".zip"))]
    system = ["/usr", "/lib", "/lib64", "/bin", "/opt", "/nix", "/etc/ld.so.cache"]
    devices = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/sys/devices/system"]
    itself = ["/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/etc/localtime"]
    return [*roots, *packages, *system, *devices, *itself]
