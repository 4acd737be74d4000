"""Strange input, typed or opened: the exact sentences of docs/inputs.md, without a browser."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests.app.conftest import APP, TIMEOUT
from tests.support.odd_inputs import MISSING, ODD, OPENED, TYPED, Input, write_gpt
from tests.support.page_content import chips, html
from transformer_viz.app.ui.text_format import JOINER

pytestmark = [pytest.mark.app, pytest.mark.shipped]


def opened(strange: Input) -> AppTest:
    """Open the page with the link, or type the text on a page that stands."""
    app = AppTest.from_file(str(APP), default_timeout=TIMEOUT)
    app._page_hash = calc_hash(strange.page) if strange.page else ""
    for name, text in strange.link.items():
        app.query_params[name] = text
    return app.run()


def explained(app: AppTest, strange: Input) -> str:
    """Return what differs from the list; empty where nothing does."""
    boxes = [*app.error, *app.warning, *app.info]
    said = Counter(str(box.value).replace("\\", "").replace(JOINER, "").strip() for box in boxes)
    wanted = Counter(says.replace("\\", "") for says in strange.says)
    if app.exception or said != wanted:
        return f"{strange.name}: {said} instead of {wanted}"
    if strange.text is not None and app.text_input(key="text").value != strange.text:
        return f"{strange.name}: the sentence is lost"
    labels = [chip["text"] for row in chips(app) for chip in row["chips"]] if strange.reads else []
    if strange.reads and (
        strange.reads not in labels or 'data-what="translation"' not in html(app)
    ):
        return f"{strange.name}: {labels}"
    return ""


def test_what_is_typed_or_linked_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRANSFORMER_VIZ_MODEL", raising=False)
    failed = [explained(opened(strange), strange) for strange in OPENED]
    app = opened(Input("first", "the page is opened"))
    for strange in TYPED:
        app.text_input(key="text").set_value(strange.text).run()
        failed.append(explained(app, strange))
    assert not any(failed), [one for one in failed if one]


def test_a_model_that_cannot_be_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_gpt(tmp_path)
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", MISSING)
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", str(tmp_path))
    failed = [explained(opened(strange), strange) for strange in ODD]
    assert not any(failed), [one for one in failed if one]
