"""Uploads lie below one folder of the server; it goes with it, and has bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from transformer_viz import settings
from transformer_viz.checkpoints.files import upload_rooms
from transformer_viz.checkpoints.files.upload_rooms import MEGA, PREFIX


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    upload_rooms.folder.cache_clear()
    yield
    upload_rooms.folder.cache_clear()


@pytest.mark.process
def test_the_folder_of_a_server_that_was_killed_is_swept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    old = tmp_path / f"{PREFIX}{ended.pid}-abc"
    living = tmp_path / f"{PREFIX}{os.getppid()}-abc"
    foreign = tmp_path / f"{PREFIX}notes"
    for place in (old, living, foreign):
        place.mkdir()
        (place / "weights").touch()
    (tmp_path / f"{PREFIX}{ended.pid}-link").symlink_to(foreign)
    own = upload_rooms.folder()
    upload_rooms.sweep()
    assert not old.exists()
    assert (living / "weights").exists() and (foreign / "weights").exists() and own.exists()
    (own / "weights").touch()  # a server that ends takes its own along
    assert upload_rooms.folder() == own
    upload_rooms.clear()
    assert not own.exists()
    upload_rooms.clear()  # and one that never had any ends as well


def test_a_visit_and_all_visits_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.VISIT_MB.variable, "2")
    monkeypatch.setenv(settings.UPLOADS_MB.variable, "3")
    mine, other = (upload_rooms.folder() / name for name in ("mine", "other"))
    for place in (mine, other):
        place.mkdir()
    (mine / "weights").write_bytes(bytes(MEGA))
    upload_rooms.require_space(mine, MEGA)
    with pytest.raises(ValueError, match=r"One visit may keep 2 MB .* 1 MB are left .* have 2 MB"):
        upload_rooms.require_space(mine, MEGA + 1)
    (other / "weights").write_bytes(bytes(3 * MEGA // 2))
    with pytest.raises(ValueError, match=r"All visits may keep 3 MB .* 0 MB are left .* have 1 MB"):
        upload_rooms.require_space(mine, MEGA)
    for setting in (settings.VISIT_MB, settings.UPLOADS_MB):
        monkeypatch.delenv(setting.variable)
    monkeypatch.setattr(upload_rooms, "FREE", 2**62)  # a full disk is told before
    with pytest.raises(ValueError, match="disk of this server is nearly full; 0 MB are left"):
        upload_rooms.require_space(upload_rooms.folder(), 1)
