"""System calls that a confined process may make on Linux, with their numbers on each architecture.

Recorded while tests open checkpoints and run tokenizers (``python -m tests.confinement.record``),
plus equivalents used by other C libraries. All other calls return an error.
"""

from __future__ import annotations

from typing import NamedTuple

THREAD = 0x10000  # CLONE_THREAD
#: Flags of clone that glibc and musl use for threads; no new process, no namespace.
THREAD_FLAGS = 0x7D0F00
OTHERS_CLOCK = 1 << 31  # bit of a clock id for the CPU time of another process

#: Allowed with any arguments: name, number on x86-64, number on ARM64 (0 where there is none).
ANY = """
read 0 63, write 1 64, close 3 57, fstat 5 80, newfstatat 262 79, lseek 8 62, mmap 9 222,
mprotect 10 226, munmap 11 215, brk 12 214, mremap 25 216, madvise 28 233, futex 202 98,
openat 257 56, open 2 0, stat 4 0, lstat 6 0, access 21 0, faccessat 269 48, statx 332 291,
readlink 89 0, readlinkat 267 78, getdents64 217 61, getcwd 79 17, statfs 137 43, fstatfs 138 44,
recvfrom 45 207, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, fadvise64 221 223,
rename 82 0, renameat 264 38, renameat2 316 276, mkdir 83 0, mkdirat 258 34, rmdir 84 0,
unlink 87 0, unlinkat 263 35, ftruncate 77 46, fsync 74 82, fdatasync 75 83, umask 95 166,
chdir 80 49, fchdir 81 50, dup 32 23, dup2 33 0, dup3 292 24, poll 7 0, ppoll 271 73, select 23 0,
pselect6 270 72, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
sigaltstack 131 132, restart_syscall 219 128, exit 60 93, exit_group 231 94, sched_yield 24 124,
set_robust_list 273 99, set_tid_address 218 96, rseq 334 293, getrandom 318 278, nanosleep 35 101,
gettimeofday 96 169, time 201 0, times 100 153, getrusage 98 165, getrlimit 97 163, sysinfo 99 179,
uname 63 160, getcpu 309 168, getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174,
geteuid 107 175, getgid 104 176, getegid 108 177
"""


class Check(NamedTuple):
    """Condition on one argument.

    ``values`` are the only ones allowed; None among them is this process. With ``without`` no bit
    of a mask may be set, with ``having`` a bit must be. An ``empty`` pointer must be null.
    """

    argument: int
    values: tuple[int | None, ...] = ()
    without: int = 0
    having: int = 0
    empty: bool = False


OWN = (None,)
#: Allowed with these arguments only: numbers as above.
CHECKED: dict[str, tuple[int, int, tuple[Check, ...]]] = {
    "clone": (56, 220, (Check(0, without=~THREAD_FLAGS & 0xFFFFFFFF), Check(0, having=THREAD))),
    "kill": (62, 129, (Check(0, OWN),)),
    "tkill": (200, 130, (Check(0, OWN),)),
    "tgkill": (234, 131, (Check(0, OWN),)),
    "prlimit64": (302, 261, (Check(0, (0, None)), Check(2, empty=True))),  # read only
    "sched_getaffinity": (204, 123, (Check(0, (0, None)),)),
    "clock_gettime": (228, 113, (Check(0, without=OTHERS_CLOCK),)),
    "clock_getres": (229, 114, (Check(0, without=OTHERS_CLOCK),)),
    "clock_nanosleep": (230, 115, (Check(0, without=OTHERS_CLOCK),)),
    "sendto": (44, 206, (Check(4, empty=True),)),  # only on a connected socket
    "membarrier": (324, 283, (Check(0, (0, 8, 16)),)),  # query, private expedited, its registration
    # PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_SET_VMA
    "prctl": (157, 167, (Check(0, (15, 16, 21, 23, 39, 0x53564D41)),)),
    # TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
    "ioctl": (16, 29, (Check(1, (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),)),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: no owner, signal or lease
    "fcntl": (72, 25, (Check(1, (0, 1, 2, 3, 4, 1030)),)),
}


def allowed(machine: int) -> tuple[list[int], dict[int, tuple[Check, ...]]]:
    """Return the numbers allowed with any arguments, and the conditions of the others.

    Args:
        machine: 0 for x86-64, 1 for ARM64.
    """
    rows = [row.split() for row in ANY.split(",")]
    free = [int(row[1 + machine]) for row in rows if row[0] == "read" or int(row[1 + machine])]
    return free, {(x86, arm)[machine]: checks for x86, arm, checks in CHECKED.values()}
