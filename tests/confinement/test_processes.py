"""What a confined process can do, what becomes of one that misbehaves, and that nothing is left."""

from __future__ import annotations

import errno
import io
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transformer_viz.confinement.channel import BadMessageError, Channel
from transformer_viz.confinement.disk import remove_tree
from transformer_viz.confinement.limits import NICER, Limits
from transformer_viz.confinement.processes import Child, Nursery, StoppedError, ending, environment

from .jobs import JOBS, NEEDY, NOTHING

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems hold a process to less"),
]
TELL, ATTEMPT, MISBEHAVE, TRY_CALLS, FILL = JOBS
MEGA = 1_000_000


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_KEY", "hunter2")
        patch.syspath_prepend(str(Path(__file__).parents[2]))
        made = Nursery(NOTHING, NOTHING, *JOBS)
        made.warm()
        yield made
    made._leave()


@pytest.fixture
def begin(nursery: Nursery, tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Begins children with half a gigabyte and five seconds of processor."""
    begun: list[Child] = []
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "readable").write_text("weights")

    def make(job: str, seconds: int = 5, memory: int = 500 * MEGA) -> Child:
        limits = Limits(seconds, memory, str(own), (str(tmp_path / "model"),))
        begun.append(Child(nursery, job, limits))
        return begun[-1]

    yield make
    for child in begun:
        child.close()
        assert gone(child._number)


def gone(process: int, seconds: float = 5) -> bool:
    """Whether a process, its entry in the table included, is there no more."""
    end = time.monotonic() + seconds
    while Path(f"/proc/{process}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    return not Path(f"/proc/{process}").exists()


def test_a_message_goes_and_comes_and_no_secret_with_it(begin: Callable[..., Child]) -> None:
    child = begin(TELL)
    answer = child.ask({"text": "Über 🙂 \ud800"}, 20)
    assert answer["text"] == "Über 🙂 \ud800"
    assert "SECRET_KEY" not in answer["environment"] and "SECRET_KEY" not in environment()
    assert answer["process"] not in (os.getpid(), child._nursery.process)
    assert Path(answer["environment"]["TMPDIR"]).name == "own"
    behind = os.getpriority(os.PRIO_PROCESS, answer["process"])
    assert behind >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICER)  # visitors go first


def test_what_is_said_to_be_enforced_is(begin: Callable[..., Child], tmp_path: Path) -> None:
    secret = tmp_path / "secret" / "key"
    secret.parent.mkdir()
    secret.write_text("hunter2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = begin(ATTEMPT)
        worked = child.ask(
            {
                "readable": str(tmp_path / "model" / "readable"),
                "secret": str(secret),
                "elsewhere": str(tmp_path / "elsewhere"),
                "port": server.getsockname()[1],
                "process": os.getpid(),
            },
            20,
        )["worked"]
    assert worked["read its own"] and worked["write at home"]
    forbidden = {
        "files": ("read another's", "list another's", "write elsewhere", "write where it reads",
                  "remove", "environment", "memory"),
        "network": ("connect", "send"),
        "programs": ("fork", "program", "kill", "watch"),
    }  # fmt: skip
    assert {"memory", "processor"} <= set(child.enforced)
    for word, trials in forbidden.items():
        if word in child.enforced:
            assert not [trial for trial in trials if worked[trial]]
    assert (tmp_path / "model" / "readable").read_text() == "weights"


REFUSALS = {errno.EPERM, errno.ENOSYS, errno.ENOTTY}


def test_calls_that_are_not_listed_return_an_error(
    begin: Callable[..., Child], tmp_path: Path
) -> None:
    """Limits and turns of others, metadata of files, other ways to programs: and it lives on."""
    outside = tmp_path / "model" / "readable"
    outside.chmod(0o640)
    before, files = outside.stat(), resource.getrlimit(resource.RLIMIT_NOFILE)
    child = begin(TRY_CALLS)
    asked = {"server": os.getpid(), "outside": str(outside)}
    errors = child.ask(asked, 20)["errors"]
    assert "calls" in child.enforced and len(errors) > 8
    allowed = {name: error for name, error in errors.items() if error not in REFUSALS}
    assert not allowed, allowed
    after = outside.stat()
    for name in ("st_mode", "st_mtime_ns", "st_uid", "st_nlink", "st_size"):
        assert getattr(after, name) == getattr(before, name), name
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == files
    assert child.ask(asked, 20)["errors"] == errors  # none ended it


def test_a_python_that_needs_other_calls_is_held_to_the_shorter_list(tmp_path: Path) -> None:
    nursery = Nursery(NEEDY, NOTHING, ATTEMPT)
    try:
        child = Child(nursery, ATTEMPT, Limits(5, 500 * MEGA, str(tmp_path)))
        asked = {"readable": "", "secret": "", "elsewhere": "", "port": 9, "process": os.getpid()}
        worked = child.ask(asked, 60)["worked"]
        child.close()
    finally:
        nursery._leave()
    assert "programs" in child.enforced and "calls" not in child.enforced
    assert not any(worked[trial] for trial in ("connect", "send", "fork", "program", "kill"))


def test_a_late_greeting_is_never_read_as_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that starts slower than it may is ended; the next child has one of its own."""
    nursery = Nursery(NOTHING, NOTHING, *JOBS)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("transformer_viz.confinement.processes.STARTING", 0.001)
            nursery.warm()
            assert nursery.process is None
        child = Child(nursery, TELL, Limits(5, 500 * MEGA, str(tmp_path)))
        assert child.ask({"text": "here"}, 20)["text"] == "here"
        child.close()
    finally:
        nursery._leave()


def test_what_is_written_is_bounded_and_removed(nursery: Nursery, tmp_path: Path) -> None:
    for way in ("files", "removed files", "empty files", "folders in folders"):
        own = tmp_path / way.replace(" ", "-")
        own.mkdir()
        child = Child(nursery, FILL, Limits(20, 500 * MEGA, str(own), (), 50 * MEGA))
        with pytest.raises(StoppedError, match="wrote too much") as error:
            child.ask({"way": way}, 20)
        child.close()
        assert error.value.full and not error.value.late, way
        remove_tree(own)
        assert not own.exists(), way
    child = Child(nursery, FILL, Limits(20, 500 * MEGA, str(tmp_path), (), 50 * MEGA))
    with pytest.raises(StoppedError, match="ended"):
        child.ask({"way": "one file"}, 20)  # a terabyte, though sparse
    child.close()
    assert (tmp_path / "large").stat().st_size == 0


def stop_child(child: Child, seconds: float = 20, **words: object) -> StoppedError:
    """Return the error that a child ends with that misbehaves as told."""
    with pytest.raises(StoppedError) as error:
        child.ask(words, seconds)
    assert gone(child._number), words
    return error.value


def test_one_that_dies_leaves_or_babbles_is_not_believed(begin: Callable[..., Child]) -> None:
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL):
        died = stop_child(begin(MISBEHAVE), how="die", signal=int(number))
        assert not died.late and ending(died.status) == number.name
    assert "code 7" in str(stop_child(begin(MISBEHAVE), how="leave"))
    for how in ("flood", "babble"):
        stop_child(begin(MISBEHAVE), how=how)


def test_memory_time_and_processor_end_at_their_limits(begin: Callable[..., Child]) -> None:
    assert 300 <= begin(MISBEHAVE).ask({"how": "eat"}, 30)["eaten"] <= 500
    start = time.monotonic()
    slept = stop_child(begin(MISBEHAVE), 1, how="sleep")
    assert slept.late and slept.status == -signal.SIGKILL and time.monotonic() - start < 10
    burnt = stop_child(begin(MISBEHAVE, seconds=1), 60, how="burn")
    assert not burnt.late and ending(burnt.status) in ("SIGXCPU", "SIGKILL")


def test_a_killed_nursery_is_started_again(begin: Callable[..., Child], nursery: Nursery) -> None:
    first = begin(TELL)
    assert first.ask({}, 20)
    before = nursery.process
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert begin(TELL).ask({"again": 1}, 60)["again"] == 1
    assert nursery.process != before and gone(first._number)  # a child ends with it


def test_a_nursery_ends_with_its_server_and_its_children_with_it(
    begin: Callable[..., Child], nursery: Nursery
) -> None:
    """Without an error, also where the server is gone before its answer comes."""
    for asked in (False, True):
        child = begin(TELL)
        assert child.ask({}, 20)
        kept, server = nursery._process, nursery._socket
        assert kept is not None and server is not None
        if asked:
            os.kill(kept.pid, signal.SIGSTOP)
            server.send(b'{"do": "end", "process": 0}')
        server.close()  # as the system does it for a server that is killed
        os.kill(kept.pid, signal.SIGCONT)
        assert kept.wait(20) == 0 and gone(child._number), asked
        nursery._leave()


def test_a_server_with_many_connections_has_children_too(
    begin: Callable[..., Child], nursery: Nursery
) -> None:
    """The nursery inherits its socket with its number, and `select` knows none over 1023."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, before[1]), before[1]))
    nursery._leave()
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert begin(TELL).ask({"again": 1}, 60)["again"] == 1
    finally:
        for one in many:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        nursery._leave()


def test_only_messages_are_read(tmp_path: Path) -> None:
    for content, error in (
        (b"", EOFError),
        (b"\0" * 4, EOFError),
        ((9).to_bytes(8, "big") + b"{}", EOFError),
        ((2**40).to_bytes(8, "big"), BadMessageError),
        ((2).to_bytes(8, "big") + b"[]", BadMessageError),
        ((2).to_bytes(8, "big") + b"\xff\xff", BadMessageError),
        ((10**5).to_bytes(8, "big") + b"[" * 10**5, BadMessageError),
    ):
        channel = Channel(io.BytesIO(content), io.BytesIO())
        with pytest.raises(error):
            channel.receive()
            pytest.fail(repr(content[:20]))
