"""The page Checkpoint shows a dropped trace file as its report, and says what proves it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.checkpoint import stored_run
from transformer_viz.app.session.keys import private

from ...support.page_content import go, html, told
from .test_checkpoint import PAGE, drop

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]


@pytest.fixture
def given(tmp_path: Path) -> bytes:
    """The bytes of a trace file of given weights."""
    path = tmp_path / "run.safetensors"
    tv.from_attentions(np.full((2, 3, 5, 5), 0.2), ["<b>", "ä", "c", "d", "e"]).save(path)
    return path.read_bytes()


def test_a_trace_file_opens_as_its_report(visit: Visit, given: bytes) -> None:
    app = drop(go(visit(), PAGE), run__safetensors=given)
    assert not app.exception
    seen = html(app)
    assert "run.safetensors" in seen
    assert "nothing proves that it used them" in seen and 'data-status="green"' not in seen
    frame = app.session_state[type(private).__dict__["stored_run"].key]
    assert frame.page == tv.views.report(tv.Trace.load(_kept(given)))
    assert "&lt;b&gt;" in frame.page and "<b>" not in frame.page  # nothing in a file is run
    app = app.button(key="leave-run").click().run()
    assert "run.safetensors" not in html(app) and not app.exception


def _kept(content: bytes) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".safetensors", delete=False) as file:
        file.write(content)
    return file.name


def test_a_damaged_trace_file_is_told_in_a_sentence(visit: Visit, given: bytes) -> None:
    spoilt = given.replace(b'\\"format\\": 1', b'\\"format\\": 9')
    assert spoilt != given
    app = drop(go(visit(), PAGE), run__safetensors=spoilt)
    assert "has trace format 9" in told(app) and not app.exception


def test_weights_are_no_trace_file(given: bytes) -> None:
    import safetensors.numpy

    plain = safetensors.numpy.save({"weight": np.ones(3, np.float32)})
    assert stored_run.dropped("model.safetensors", io.BytesIO(plain)) is None
    assert stored_run.dropped("model.pt", io.BytesIO(given)) is None
    found = stored_run.dropped("run.safetensors", io.BytesIO(given))
    assert found is not None and {one.status for one in found.findings} == {"amber"}
