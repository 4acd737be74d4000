"""Step inside in Streamlit's own test runner: what is chosen, what follows, and the link."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz.core.interventions import Intervention, Temperature

from ...support.model_kinds import NAMES
from ...support.page_content import address, go, part, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
WARM = Intervention((Temperature(value=4.0),)).to_json()


def opened(app: AppTest) -> str:
    """The name of the open station."""
    header, _ = part(app, "inside")
    return str(header["stations"][header["step"]]["name"])


def quiet(app: AppTest) -> None:
    assert not app.exception and not app.error and not app.warning, told(app)


def test_the_chain_of_the_chosen_head_is_shown(visit: Visit) -> None:
    app = visit("step-inside")
    quiet(app)
    header, arrays = part(app, "inside")
    assert header["step"] == 0 and header["sum"] is None and header["problem"] == ""
    assert [s["name"] for s in header["stations"]][:2] == [
        "embedding.embedding",
        "position.embedding",
    ]
    assert arrays["weights"].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("block", ["encoder", "decoder", "cross"])
def test_block_layer_head_and_word_are_chosen(visit: Visit, block: str) -> None:
    app = visit("step-inside")
    app.button_group(key="block").set_value(block)
    app.run()
    app.selectbox(key="layer").set_value(1)
    app.selectbox(key="head").set_value(1)
    app.selectbox(key="token").set_value(2)
    app.run()
    quiet(app)
    header, _ = part(app, "inside")
    assert header["label"].endswith("L1 H1") and header["token"] == 2
    assert header["row"] == header["rows"]["labels"][2]
    link = address(app)
    assert (link["layer"], link["head"], link["token"]) == ("1", "1", "2")


def test_the_link_opens_station_and_number(visit: Visit) -> None:
    app = visit("step-inside", block="encoder", step="4", number="score.self/out/2")
    quiet(app)
    header, arrays = part(app, "inside")
    assert opened(app) == "score.self"
    assert header["sum"]["address"] == "score.self/out/2"
    total = float(arrays["sum_a"].astype(np.float64) @ arrays["sum_b"])
    assert total == pytest.approx(arrays["score.self/out"][2], rel=1e-5, abs=1e-6)
    link = address(app)
    assert (link["step"], link["number"]) == ("4", "score.self/out/2")


def test_they_survive_going_to_every_page_and_back(visit: Visit) -> None:
    app = visit("step-inside", block="encoder", step="4", number="score.self/out/2")
    before = address(app)
    for page in ("positions", "norms", "about", "step-inside"):
        go(app, page)
        assert not app.exception
    assert before.items() <= address(app).items() and opened(app) == "score.self"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"step": "99"}, "There is no station 99"),
        ({"step": "4", "number": "score.self/out/99"}, "no sum of this chain"),
        ({"step": "4", "number": "nonsense"}, "no sum of this chain"),
        ({"step": "6", "number": "mask.self/out/0"}, "no sum of this chain"),
        ({"token": "99"}, "There is no word 99"),
    ],
)
def test_what_is_not_there_falls_back_and_says_so(
    visit: Visit, words: dict[str, str], says: str
) -> None:
    app = visit("step-inside", block="encoder", **words)
    assert not app.exception and not app.error
    assert says in told(app)
    assert part(app, "inside")[0]["sum"] is None


def test_a_changed_cause_changes_the_chain_and_not_the_station(visit: Visit) -> None:
    app = visit("step-inside", block="encoder", step="8")
    clean = part(app, "inside")[1]["weights"]
    assert opened(app) == "softmax.self"
    app.button_group(key="head_state").set_value("uniform")
    app.run()
    quiet(app)
    header, arrays = part(app, "inside")
    assert opened(app) == "softmax.self"
    assert header["stations"][header["step"]]["title"] == "All alike"
    assert np.allclose(arrays["weights"], 1 / len(clean)) and not np.allclose(clean, 1 / len(clean))
    app.button(key="clean").click().run()
    assert np.array_equal(part(app, "inside")[1]["weights"], clean)


def test_a_temperature_from_the_link_is_in_the_chain(visit: Visit) -> None:
    clean = part(visit("step-inside", block="encoder"), "inside")[1]
    warm = part(visit("step-inside", block="encoder", edits=WARM), "inside")[1]
    np.testing.assert_allclose(
        warm["temperature.self/out"], clean["temperature.self/out"] / 4, rtol=1e-5, atol=1e-7
    )


def test_the_station_is_the_same_in_another_block(visit: Visit) -> None:
    app = visit("step-inside", block="encoder", step="8")
    for block, name in (("cross", "softmax.cross"), ("decoder", "softmax.self")):
        app.button_group(key="block").set_value(block)
        app.run()
        quiet(app)
        assert opened(app) == name
        assert address(app)["step"] == str(part(app, "inside")[0]["step"])


@pytest.mark.parametrize("block", ["encoder", "decoder", "cross"])
def test_every_station_stays_when_the_page_runs_again(visit: Visit, block: str) -> None:
    app = visit("step-inside", block=block, layer="1")
    header, _ = part(app, "inside")
    for step, station in enumerate(header["stations"]):
        app.session_state["step"] = step
        app.run()
        assert opened(app.run()) == station["name"]


def test_a_class_is_shown_large_letters(visit: Visit) -> None:
    app = visit("step-inside", present="on")
    quiet(app)
    assert part(app, "inside")[0]["present"]


def test_it_speaks_chinese(visit: Visit) -> None:
    app = visit("step-inside", lang="zh")
    quiet(app)
    assert part(app, "inside")[0]["stations"][0]["title"] == "词变成数"


LINKS = {"lm": {"text": "The cat sat."}, "mlm": {"text": "The cat sat."}, "ids": {"text": "2 5 3"}}


@pytest.mark.parametrize("model", NAMES)
def test_every_kind_of_model_has_its_chain_or_says_why(meet: Visit, model: str) -> None:
    app = meet(model, "step-inside", token="1", **LINKS.get(model, {}))
    assert not app.exception and not app.error
    header, arrays = part(app, "inside")
    first = header["stations"][0]["name"]
    assert bool(header["problem"]) == (model == "vit")
    assert first == ("score.self" if model == "vit" else "embedding.embedding")
    assert arrays["weights"].sum() == pytest.approx(1, abs=1e-5)
    given = header["stations"][0]["title"] == "The numbers that were given"
    assert given == (model == "core")
