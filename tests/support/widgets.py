"""Widgets of a page in Streamlit's test runner: set them by key, and check that a page runs."""

from __future__ import annotations

import json
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.support.page_content import told

KINDS = (
    "button_group",
    "selectbox",
    "text_input",
    "toggle",
    "number_input",
    "multiselect",
    "slider",
    "select_slider",
    "radio",
)


def put(app: AppTest, values: dict[str, Any]) -> AppTest:
    """Set widgets by their keys, then run the page once.

    Raises:
        KeyError: no widget of the page has such a key.
    """
    for key, value in values.items():
        found = [one for kind in KINDS for one in getattr(app, kind) if one.key == key]
        if not found:
            raise KeyError(key)
        found[0].set_value(value)
    return app.run()


def click(app: AppTest, key: str) -> AppTest:
    """Click the button of that key and run the page."""
    return app.button(key=key).click().run()


def keys(app: AppTest, start: str = "") -> list[str]:
    """Return the keys of all buttons that begin so, in the order of the page."""
    return [one.key for one in app.button if one.key and one.key.startswith(start)]


def fine(app: AppTest, case: object = "") -> AppTest:
    """Return the page after a check that it shows no exception, error or warning."""
    assert not app.exception and not app.error and not app.warning, (case, told(app))
    return app


def runs(app: AppTest, case: object = "") -> AppTest:
    """Return the page after a check that it raised nothing; it may show errors."""
    assert not app.exception, (case, told(app))
    return app


def edits(app: AppTest) -> list[dict[str, Any]]:
    """Return the edits of the visit as they are stored."""
    found: list[dict[str, Any]] = json.loads(app.session_state["edits"])["edits"]
    return found


def ok(app: AppTest, case: object = "") -> AppTest:
    """Return the page after a check that it shows no exception and no error."""
    assert not app.exception and not app.error, (case, told(app))
    return app
