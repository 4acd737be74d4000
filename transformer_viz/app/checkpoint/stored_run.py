"""Uploaded trace file, shown as its report."""

from __future__ import annotations

import base64
import shutil
import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import streamlit as st

from ... import settings
from ...checkpoints.files import upload_rooms
from ...core.errors import visible
from ...core.guesses import guesses_in
from ...core.trace import Trace
from ...i18n import say
from ..session.keys import private
from ..shell.guess_mark import guess_mark
from ..ui import layout
from . import facts

if TYPE_CHECKING:
    from ...inference.findings import Finding

HEIGHT = 1150  # pixels of the report, which scrolls inside
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class StoredRun:
    """Report of an uploaded trace file.

    Attributes:
        name: File name.
        said: Description of the run.
        manifest: Manifest of the run.
        findings: Findings of its capture report.
        page: HTML of the report.
    """

    name: str
    said: str
    manifest: dict[str, Any]
    findings: tuple[Finding, ...]
    page: str


def dropped(name: str, content: IO[bytes]) -> StoredRun | None:
    """Return the run of an uploaded file; None if it is no trace file.

    Raises:
        ValueError: The trace file is damaged, or too large for this server.
        OSError: The file cannot be written to the disk.
    """
    if not name.lower().endswith(SUFFIX):
        return None
    size = content.seek(0, 2)
    content.seek(0)
    folder = Path(tempfile.mkdtemp(dir=upload_rooms.folder()))
    try:
        upload_rooms.require_space(folder, size)
        path = folder / f"run{SUFFIX}"
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        if not Trace.is_file(path):
            return None
        return _told(name, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        content.seek(0)


def _told(name: str, path: Path) -> StoredRun:
    from ...inference.findings import Finding
    from ...opening import report_apart
    from ...views.export.stored_report import stored_report

    shown = visible(name)
    if settings.APART.on:
        told = report_apart(path, shown, f"{stored_report.__module__}:{stored_report.__name__}")
    else:
        told = stored_report(Trace.load(path))
    try:
        found = [
            Finding(str(one["sentence"]), str(one["status"]), tuple(map(str, one["details"])))
            for one in told["findings"]
        ]
        manifest = told["manifest"]
        if not isinstance(manifest, dict):
            raise TypeError
        return StoredRun(shown, str(told["said"]), manifest, tuple(found), str(told["page"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"What was read of {shown} is incomplete; open it again.") from error


def draw(run: StoredRun) -> None:
    """Draw the report of the run, its findings, and a button back to the model."""
    layout.heading(escape(run.name), what="stored-run")
    layout.quiet(escape(run.said))
    guess_mark(run.manifest)
    columns = st.columns([1, 1, 3])
    with columns[0]:
        if st.button(say("Back to the model"), key="leave-run"):
            del private.stored_run
            st.rerun()
    with columns[1]:
        st.download_button(
            say("one page"), run.page.encode("utf-8"), "report.html", "text/html", key="run-page"
        )
    facts.trust(run.findings, guesses_in(run.manifest))
    # As a data URI the page has no origin, so nothing in an untrusted file can reach the app.
    letters = base64.b64encode(run.page.encode("utf-8")).decode("ascii")
    st.iframe(f"data:text/html;charset=utf-8;base64,{letters}", height=HEIGHT)
