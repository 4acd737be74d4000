"""What our browser components say to Python, said in Streamlit's test runner.

It has no browser: the message that the browser would send is put beside the widgets' own.
"""

from __future__ import annotations

import json
from typing import Any

from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.testing.v1 import AppTest


def trigger(app: AppTest, key: str, name: str, value: Any) -> AppTest:
    """Let the component of that key say something, and run the page.

    Args:
        app: the visit.
        key: the component's key, such as ``atlas``.
        name: what it says, such as ``opened``.
        value: plain JSON.
    """
    (component,) = (
        one.proto for one in app.get("bidi_component") if one.proto.id.endswith(f"-{key}")
    )
    states = app._tree.get_widget_states()
    said = states.widgets.add()
    said.id = _make_trigger_id(component.id, "events")
    said.json_trigger_value = json.dumps([{"event": name, "value": value}])
    return app._run(states)


def slide(app: AppTest, key: str, value: str) -> AppTest:
    """Move a slider (``temperature`` or ``window``) to a value, such as ``2`` or ``off``."""
    seq = app.session_state["_frame_number"] + 1
    return trigger(app, key, "moved", {"value": value, "seq": seq, "stroke": seq})
