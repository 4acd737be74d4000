"""What breaks around the app is said, and takes nothing else with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.page_content import html, told
from tests.support.widgets import ok
from transformer_viz.app.heads import sentences
from transformer_viz.app.pages import heads
from transformer_viz.app.session import view_options
from transformer_viz.checkpoints.files import upload_rooms
from transformer_viz.preprocessing.tokenizers import processor

Visit = Callable[..., AppTest]


@pytest.mark.app
@pytest.mark.shipped
def test_broken_measures_beside_a_model_are_measured_anew(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broken in ("config.json", "log.csv", "weights.safetensors"):
        monkeypatch.setattr(sentences, "HEADS", broken)
        monkeypatch.setattr(heads, "HEADS", broken)
        app = ok(visit("heads", text="The cat sat.", model="en-de-small"), broken)
        assert f"cannot be read ({broken})" in told(app)
        assert "One sentence" in html(app), broken


def test_a_server_without_a_temporary_folder_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
    upload_rooms.folder.cache_clear()
    upload_rooms.sweep()  # at the start of the server, which starts all the same
    with pytest.raises(OSError, match=r"no folder for files that visitors bring .*TMPDIR"):
        upload_rooms.folder()


FULL = """
import resource, signal, sys
import transformer_viz as tv
trace = tv.Trace.load(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
for path in sys.argv[1:]:
    try:
        trace.save(path)
    except OSError as error:
        print(error)
"""


@pytest.mark.process
@pytest.mark.shipped
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of a file's size")
def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path: Path) -> None:
    import transformer_viz as tv

    old, new = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    tv.trace(tv.load("en-de-small", device="cpu"), "The cat sat.", check=False).save(old)
    before = old.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, old, new], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("could not be written") == 2, done.stdout + done.stderr
    assert old.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["old.safetensors"]


def test_half_a_vocabulary_is_refused_without_the_words_of_its_library() -> None:
    from transformer_viz.checkpoints.common.bundled import PRETRAINED

    content = (PRETRAINED / "en-de" / "vocabulary.model").read_bytes()[:5000]
    with pytest.raises(ValueError, match="cut off or of another kind") as caught:
        processor(content)
    assert "INTERNAL" not in str(caught.value) and ".cc" not in str(caught.value)


HOMELESS = """
import sys
import transformer_viz as tv
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.query import Question, whole_layer

engine = Engine("en-de-small")
answer = engine.clean(Question("en-de-small", "The dog sleeps."), whole_layer("cross", 0))
print(answer.trace.attention("cross", 0).shape, answer.text)
"""


@pytest.mark.process
@pytest.mark.shipped
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is where not even root may write")
def test_a_home_that_may_not_be_written_is_not_missed(tmp_path: Path) -> None:
    kept = {word: text for word, text in os.environ.items() if not word.startswith(("XDG_", "HF_"))}
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS],
        env=kept | {"HOME": "/proc", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Hund" in done.stdout and not done.stderr, done.stdout + done.stderr


def test_a_clock_that_goes_back_gives_a_visit_no_older_number(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a visit the clock is asked once; what it says later changes nothing."""
    now = [1_800_000_000 * 10**9]
    monkeypatch.setattr(view_options.time, "time_ns", lambda: now[0])
    app = visit(text="The cat sat.", model="en-de-small")
    first = app.session_state["_frame_number"]
    for jump in (3600, -7200):
        now[0] += jump * 10**9
        app.run()
        assert not app.exception and app.session_state["_frame_number"] == first


@pytest.mark.process
@pytest.mark.shipped
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal that holds a process")
def test_a_server_that_slept_amid_a_run_goes_on() -> None:
    from benchmarks.memory import server_of
    from benchmarks.pupil import Pupil
    from tests.support.browser import running_app

    with running_app() as url:
        pupil, server = Pupil(url), server_of(url)
        pupil.open({"text": "The cat sat."})
        # Soon: on a quiet machine the whole run is over after 0.2 s.
        held = threading.Timer(0.05, os.kill, (server, signal.SIGSTOP))
        again = threading.Timer(3, os.kill, (server, signal.SIGCONT))
        held.start()
        again.start()
        try:
            assert pupil.type(" ".join(map(str, range(7919, 90_000, 7919)))) > 2
        finally:
            again.join()
        pupil.type("The dog sleeps.")
        pupil.end()
    assert "text=The+dog+sleeps." in pupil.query and not pupil.seen.alerts, pupil.query
