"""What is sent to the browser, and what comes back: bytes, chips, joined scripts."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from tests.support.component_stage import decoded
from transformer_viz.components import Chip, ChipRow, Picked, bundle, picked, tokens_data
from transformer_viz.components.blob import both_palettes, pack

ROWS = (
    ChipRow("source", (Chip("a", column=0), Chip("<b>", column=1, gone=True, mark=True))),
    ChipRow("target", (Chip("c", row=0, on=True, lights=("produced:0", "target:1")),)),
)


def test_a_blob_holds_its_words_and_arrays() -> None:
    arrays = {
        "a": np.arange(7, dtype=np.uint8),
        "b": np.array([[1.5, -2], [0, 3e38]], np.float32),
        "c": np.array([], np.int32),
        "d": np.array([65535], np.uint16),
    }
    header, found = decoded(pack({"words": "Straße ▁x", "n": 1}, **arrays))
    assert (header["words"], header["n"]) == ("Straße ▁x", 1)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and (found[name] == array).all()
        assert header["arrays"][name]["offset"] % 8 == 0


def test_a_blob_says_what_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="'a' is float64; a component takes uint8"):
        pack({}, a=np.zeros(3))
    with pytest.raises(ValueError):
        pack({"n": float("nan")})


def test_both_palettes_are_there_with_eight_heads_each() -> None:
    for palette in both_palettes().values():
        assert len(set(palette["heads"])) == 8
        assert palette["heads"][-1] == palette["ink"]


def test_chips_come_as_plain_json() -> None:
    data = tokens_data(ROWS, dark=True, chart="map")
    assert json.loads(json.dumps(data)) == data
    assert data["rows"][0]["chips"][1] == {
        "text": "<b>",
        "row": None,
        "column": None,
        "on": False,
        "gone": True,
        "mark": True,
        "dead": False,
    }
    assert data["rows"][1]["chips"][0]["row"] == "produced:0"
    assert (data["dark"], data["chart"]) == (True, {"key": "map", "rows": None, "columns": None})


def test_a_click_means_the_chip_that_was_drawn() -> None:
    forged = {"side": "source", "token": 1, "row": 99, "column": 99}
    assert picked(ROWS, forged) == Picked("source", 1, None, 1)
    assert picked(ROWS, {"side": "target", "token": 0}) == Picked("target", 0, 0, None)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "source",
        [1],
        {},
        {"side": "sideways", "token": 0},
        {"side": "source", "token": 2},
        {"side": "source", "token": -1},
        {"side": "source", "token": float("nan")},
        {"side": "source", "token": "1"},
        {"side": ["source"], "token": 1},
    ],
)
def test_a_click_that_means_nothing_is_let_go(value: object) -> None:
    assert picked(ROWS, value) is None


def test_scripts_reach_for_nothing_outside() -> None:
    assert len(bundle.scripts()) > 60
    for name in bundle.scripts():
        words = bundle.text(name).replace("http://www.w3.org/2000/svg", "")  # no address: a name
        assert "http://" not in words and "https://" not in words and "eval(" not in words, name
        imports = re.findall(r"^import[^;]*;", words, re.MULTILINE)
        assert all(bundle.IMPORT.fullmatch(line + "\n") for line in imports), (name, imports)


@pytest.mark.parametrize("name", ["pictures.js", "panels.js"])
def test_a_joined_script_has_each_part_once(name: str) -> None:
    joined = bundle.bundle(name)
    assert joined.count("export default") == 1 and joined.count("const module_shared_blob =") == 1
    assert not re.search(r"^import |^export (?!default)", joined, re.MULTILINE)


def test_modules_in_a_circle_are_named(tmp_path, monkeypatch) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.js").write_text(f'import {{ x }} from "./{other}.js";\n')
    monkeypatch.setattr(bundle, "HERE", tmp_path)
    with pytest.raises(ValueError, match=r"a\.js → b\.js → a\.js"):
        bundle.bundle("a.js")
