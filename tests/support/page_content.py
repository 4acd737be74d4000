"""What a visitor sees, read out of Streamlit's test runner."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from tests.support.component_stage import decoded

OURS = ("atlas", "head-view", "outcome", "guesses")  # the keys of our pictures


def html(app: AppTest) -> str:
    """All small pieces of HTML on the page, one after the other."""
    pieces = [piece.proto.body for piece in app.get("html")]
    panels = [one.proto for one in app.get("bidi_component")]
    named = [one.bytes for one in panels if one.component_name.endswith("panels")]
    return "\n".join([*pieces, *(str(decoded(blob)[0]["html"]) for blob in named)])


def said(app: AppTest, what: str) -> str:
    """The piece of HTML that holds a marked place."""
    return next(body for body in html(app).split("\n") if f'data-what="{what}"' in body)


def go(app: AppTest, page: str) -> AppTest:
    """Open another page by its address, as a click into the navigation does.

    `AppTest.switch_page` knows pages by their file only; ours are functions.
    """
    pages = app._registered_pages.items()
    app._page_hash = next(key for key, words in pages if words["url_pathname"] == page)
    return app.run()


def spec(chart: Any) -> dict[str, Any]:
    figure: dict[str, Any] = json.loads(chart.proto.spec)
    return figure


def chart(app: AppTest, key: str) -> dict[str, Any]:
    """The figure of that key."""
    return next(spec(one) for one in app.get("plotly_chart") if one.proto.id.endswith(key))


def array(data: Any) -> np.ndarray:
    """Numbers as plotly sends them: a list, or base64 with type and shape."""
    if not isinstance(data, dict):
        return np.array(data, dtype=float)
    flat = np.frombuffer(base64.b64decode(data["bdata"]), dtype=np.dtype(data["dtype"]))
    shape = [int(n) for n in str(data.get("shape", len(flat))).split(",")]
    return flat.reshape(shape)


def charts(app: AppTest) -> dict[str, dict[str, Any]]:
    """All figures on the page by their key."""
    return {
        one.proto.id.partition("-")[2].partition("-")[2]: spec(one)
        for one in app.get("plotly_chart")
    }


def heatmap(figure: dict[str, Any]) -> np.ndarray:
    """The numbers of the first heatmap of a figure."""
    return array(next(trace["z"] for trace in figure["data"] if trace["type"] == "heatmap"))


def component(app: AppTest, name: str) -> Any:
    """The message to a browser component, by the part that it shows (``atlas``, ``head`` ...)."""
    found = [one.proto for one in app.get("bidi_component")]
    return next(proto for proto in found if shown_part(proto) == name)


def shown_part(message: Any) -> str:
    """Which part a browser component shows."""
    data = decoded(message.bytes)[0] if message.bytes else json.loads(message.json)
    return str(data["part"])


def part(app: AppTest, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A picture of our own (``atlas``, ``head``) as its header and its arrays."""
    return decoded(component(app, name).bytes)


def weights(app: AppTest) -> np.ndarray:
    """The cells of the opened head, ``[row, column]``, as they are sent."""
    return part(app, "head")[1]["weights"]


def tiles(app: AppTest) -> np.ndarray:
    """The small pictures of the first block, ``[layer, head, row, column]``."""
    return part(app, "atlas")[1]["tiles0"]


def panel(app: AppTest, key: str) -> str:
    """The HTML of the panel of that key."""
    found = [one.proto for one in app.get("bidi_component")]
    blob = next(proto.bytes for proto in found if proto.id.endswith(f"-{key}"))
    return str(decoded(blob)[0]["html"])


def drawn(app: AppTest) -> dict[str, Any]:
    """All pictures on the page by their key: figures, and what our own are sent."""
    ours = [one.proto for one in app.get("bidi_component")]
    keys = {one.id.partition("-")[2].partition("-")[2]: one.bytes for one in ours if one.bytes}
    return charts(app) | {key: unnumbered(data) for key, data in keys.items() if key in OURS}


def unnumbered(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a picture is sent, without the number of the step, which two visits count apart."""
    header, arrays = decoded(data)
    return header | {"seq": 0}, {name: array.tobytes() for name, array in arrays.items()}


def chips(app: AppTest) -> list[dict[str, Any]]:
    """The rows of chips."""
    rows: list[dict[str, Any]] = json.loads(component(app, "tokens").json)["rows"]
    return rows


def told(app: AppTest) -> str:
    """Everything that the page says in a box: errors, warnings, hints."""
    boxes = [*app.error, *app.warning, *app.info, *app.caption]
    return "\n".join(str(box.value).replace("\\", "") for box in boxes)


def address(app: AppTest) -> dict[str, str]:
    """The link as it stands, one text a key."""
    return {k: v[0] if isinstance(v, list) else v for k, v in app.query_params.items()}
