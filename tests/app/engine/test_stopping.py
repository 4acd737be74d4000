"""A server that is told to end while searches share passes: it does, and without an error."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.browser import ROOT, free_port

pytestmark = [pytest.mark.app, pytest.mark.process]
PATIENCE = 60  # seconds in which a server begins
ENDS = 30  # seconds after which it hangs; on a quiet machine it takes one


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_amid_a_shared_search(
    shelf: Path, how: signal.Signals, tmp_path: Path
) -> None:
    ends(shelf / "tiny", how, tmp_path / "said")


def ends(model: Path, how: signal.Signals, said: Path) -> None:
    """Begin a server whose searches share passes, and tell it to end."""
    words = [sys.executable, "-m", "tests.support.stopped_server", str(model), str(free_port())]
    surroundings = os.environ | {"OMP_NUM_THREADS": "1"}
    with said.open("wb") as errors:
        server = subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, env=surroundings
        )
        try:
            assert server.stdout is not None
            begun, heard = time.monotonic(), b""
            while b"sharing\nsharing\n" not in heard or b"URL" not in heard:
                alive = time.monotonic() - begun < PATIENCE and server.poll() is None
                assert alive, said.read_text()
                if select.select([server.stdout], [], [], 1)[0]:
                    heard += os.read(server.stdout.fileno(), 65536)
            server.send_signal(how)
            server.communicate(timeout=ENDS)
        finally:
            server.kill()
            server.communicate()
    told = said.read_text()
    assert "Traceback" not in told and "Error" not in told, told
