"""What is sent to the browser and what comes back: bytes, chips, searches, scripts, a font."""

from __future__ import annotations

import io
import json
import re
import subprocess

import numpy as np
import pytest
from fontTools.ttLib import TTFont

from tests.support.component_stage import decoded
from tests.support.paths import ROOT
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.components import Chip, ChipRow, Picked, bundle, picked, tokens_data
from transformer_viz.components.blob import both_palettes, pack
from transformer_viz.components.play import PlayLook, play_data
from transformer_viz.inference.search_recorder import record

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
        assert found[name].dtype == array.dtype and (found[name] == array).all(), name
        assert header["arrays"][name]["offset"] % 8 == 0, name
    with pytest.raises(ValueError, match="'a' is float64; a component takes uint8"):
        pack({}, a=np.zeros(3))
    with pytest.raises(ValueError):
        pack({"n": float("nan")})
    for palette in both_palettes().values():
        assert len(set(palette["heads"])) == 8 and palette["heads"][-1] == palette["ink"]


def test_chips_are_sent_as_json_and_a_click_names_one() -> None:
    data = tokens_data(ROWS, dark=True, chart="map")
    assert json.loads(json.dumps(data)) == data
    off = dict.fromkeys(("on", "dead"), False) | dict.fromkeys(("row", "column"))
    assert data["rows"][0]["chips"][1] == off | {"text": "<b>", "gone": True, "mark": True}
    assert data["rows"][1]["chips"][0]["row"] == "produced:0"
    assert (data["dark"], data["chart"]) == (True, {"key": "map", "rows": None, "columns": None})
    forged = {"side": "source", "token": 1, "row": 99, "column": 99}
    assert picked(ROWS, forged) == Picked("source", 1, None, 1)
    assert picked(ROWS, {"side": "target", "token": 0}) == Picked("target", 0, 0, None)
    source = [{"side": "source", "token": token} for token in (2, -1, float("nan"), "1")]
    others = [{"side": "sideways", "token": 0}, {"side": ["source"], "token": 1}]
    for value in (None, "source", [1], {}, *source, *others):
        assert picked(ROWS, value) is None, value


def test_scripts_load_nothing_from_outside_and_are_joined_once() -> None:
    assert len(bundle.scripts()) > 60
    for name in bundle.scripts():
        words = bundle.text(name).replace("http://www.w3.org/2000/svg", "")  # no address: a name
        assert "http://" not in words and "https://" not in words and "eval(" not in words, name
        imports = re.findall(r"^import[^;]*;", words, re.MULTILINE)
        assert all(bundle.IMPORT.fullmatch(line + "\n") for line in imports), (name, imports)
    for name in ("pictures.js", "panels.js"):
        joined = bundle.bundle(name)
        assert joined.count("export default") == 1, name
        assert joined.count("const module_shared_blob =") == 1, name
        assert not re.search(r"^import |^export (?!default)", joined, re.MULTILINE), name


def test_modules_in_a_circle_are_named(tmp_path, monkeypatch) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.js").write_text(f'import {{ x }} from "./{other}.js";\n')
    monkeypatch.setattr(bundle, "HERE", tmp_path)
    with pytest.raises(ValueError, match=r"a\.js → b\.js → a\.js"):
        bundle.bundle("a.js")


def test_a_search_is_sent_with_its_arrays(tiny_model: Model) -> None:
    source, pieces = [5, 9, 31, 7, 3], [f"w{n}" for n in range(41)]
    words = [f"s{n}" for n in source]
    for way, options in (
        ("greedy", {}),
        ("sample", {"sample": 0.8, "seed": 2}),
        ("beam", {"beam": 3}),
    ):
        search = record(tiny_model, source, max_tokens=6, **options)
        header, arrays = decoded(play_data(search, pieces, words, PlayLook(layer=1), about="a"))
        names = header["names"]
        assert [names[n] for n in arrays["tokens"]] == [pieces[n] for n in search.tokens], way
        shown = [[names[n] for n in row] for row in arrays["top"]]
        assert shown == [[pieces[n] for n in row] for row in search.top_tokens], way
        for name in ("steps", "parents", "ranks", "fates", "owners", "keys"):
            assert np.array_equal(arrays[name], getattr(search, name)), (way, name)
        for name in ("logs", "totals", "scores", "chances", "top_logs", "top_chances"):
            wanted = getattr(search, name).astype(np.float32)
            assert np.array_equal(arrays[name], wanted, equal_nan=True), (way, name)
        assert np.array_equal(arrays["rows"], search.rows[1]), way

        look = PlayLook(head=1, pooled=False, played=3)
        header, _ = decoded(play_data(search, pieces, words, look, about="a", before="x"))
        assert header["way"] == way and (header["drawing"] is None) == (way != "sample")
        assert header["best"] == list(search.best) and header["written"] == list(search.texts)
        assert (header["chosen"], header["played"]) == (search.best[0], 3), way
        assert (header["layer"], header["head"], header["pooled"]) == (0, 1, False), way
        assert (header["words"], header["before"]) == (words, "x"), way
        assert header["names"] == sorted(header["names"], key=pieces.index), way
        with pytest.raises(LookupError, match="There are layers 0 to 1; got 2"):
            play_data(search, pieces, words, PlayLook(layer=2), about="a")
        with pytest.raises(LookupError, match=r"This search weighed \d+ texts"):
            play_data(search, pieces, words, PlayLook(chosen=10**6), about="a")
    # One layer's rows and four-byte numbers: 14 bytes a candidate, the rows, and the header.
    search = record(tiny_model, source, 4, max_tokens=12)
    passes, candidates = len(search.owners), len(search.steps)
    numbers = 4 * (candidates * 8 + passes * (2 + 30)) + candidates + search.rows[0].nbytes
    assert len(play_data(search, pieces, words, about="a")) < numbers + 6000


@pytest.mark.process
def test_a_code_point_is_a_frame_with_the_strokes_of_its_digits() -> None:
    """Read by a library that knows nothing of how the font was made."""
    counts = (6, 2, 5, 5, 4, 5, 6, 3, 7, 6, 6, 5, 4, 5, 5, 4)  # of a display of seven strokes
    strokes, codes = dict(zip("0123456789abcdef", counts, strict=True)), [0x4E2D, 0x6587]
    codes += [0xAC00, 0x1F916]
    path = (bundle.HERE / "letters" / "code_point_font.js").as_uri()
    script = (
        f"const {{ codePointFont }} = await import({json.dumps(path)});"
        f"process.stdout.write(Buffer.from(codePointFont({codes})));"
    )
    command = ["./.ci/node", "node", "--input-type=module", "-e", script]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=300)
    font = TTFont(io.BytesIO(made.stdout), checkChecksums=2)
    assert sorted(font.getBestCmap()) == codes
    for code, name in font.getBestCmap().items():
        glyph = font["glyf"][name]
        digits = f"{code:x}" if code <= 0xFFFF else f"{code:06x}"
        assert glyph.numberOfContours == 2 + sum(strokes[digit] for digit in digits), digits
        glyph.recalcBounds(font["glyf"])
        assert (glyph.xMin, glyph.yMin, glyph.xMax, glyph.yMax) == (40, -110, 960, 810), digits
        assert font["hmtx"][name] == (1000, 40), digits
