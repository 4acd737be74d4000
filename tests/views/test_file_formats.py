"""Taking things along from the command line and from the app."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import safetensors

from tests.cli.test_cli import SIZES, answer, checkpoint_folder, refusal
from tests.views.conftest import make_trace
from tests.views.test_html_report import packed
from transformer_viz.app.cards import downloads
from transformer_viz.core.trace import Trace
from transformer_viz.views.export.file_formats import FORMATS, exported
from transformer_viz.views.paper import fonts


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(checkpoint_folder(tmp_path_factory.mktemp("take") / "tiny", **SIZES))


@pytest.fixture(scope="module")
def runs(checkpoint: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A clean run and a changed one, held to the same words."""
    folder = tmp_path_factory.mktemp("runs")
    files = str(folder / "clean.safetensors"), str(folder / "warm.safetensors")
    words = ["trace", checkpoint, "--ids", "5 6 7 3", "--target-ids", "2 8 9", "--keep", "scores"]
    answer(*words, "--out", files[0])
    warm = '{"edits": [{"kind": "temperature", "value": 3.0}]}'
    answer(*words, "--out", files[1], "--intervention", warm)
    return files


PLACE = ("--block", "cross", "--layer", "1", "--head", "0")


@pytest.mark.slow
def test_export_writes_what_it_says(runs: tuple[str, str], tmp_path: Path) -> None:
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "csv": b"from"}
    for kind, start in starts.items():
        out = tmp_path / kind / f"figure.{kind}"
        out.parent.mkdir()
        told = answer("export", runs[0], "--format", kind, *PLACE, "--out", str(out))
        assert out.read_bytes().startswith(start)
        assert told.strip() == f"{out}: {out.stat().st_size:,} bytes"
        assert list(out.parent.iterdir()) == [out]
    again = tmp_path / "again.safetensors"
    answer("export", runs[0], "--format", "safetensors", "--out", str(again))
    assert again.read_bytes() == Path(runs[0]).read_bytes()
    with safetensors.safe_open(again, framework="numpy") as found:
        assert "attention.cross.1" in set(found.keys())


def test_export_of_numbers_and_pictures_takes_its_options(
    runs: tuple[str, str], tmp_path: Path
) -> None:
    out, trace = tmp_path / "weights.npz", Trace.load(runs[1])
    words = ("--format", "npz", *PLACE, "--before", runs[0], "--out", str(out))
    answer("export", runs[1], *words)
    with np.load(out, allow_pickle=False) as found:
        assert np.array_equal(found["weights"], trace.attention("cross", layer=1)[0])
        assert np.array_equal(found["before"], Trace.load(runs[0]).attention("cross", layer=1)[0])
        about = json.loads(str(found["manifest"]))
    assert "temperature" in about["run"]["intervention"]
    out = tmp_path / "figure.svg"
    look = ("--dark", "--width", "90", "--no-special", "--before", runs[0])
    answer("export", runs[1], "--format", "svg", *PLACE, *look, "--out", str(out))
    text = out.read_text()
    assert 'width="255.118' in text  # 90 mm in points
    assert "#1b1f25" in text and "Special tokens are hidden" in text
    assert "change since the other run" in text
    words = ("--format", "svg", "--picture", "atlas", "--block", "decoder")
    answer("export", runs[0], *words, "--out", str(out))
    assert "Decoder self-attention, all heads" in out.read_text()


def test_export_refuses_in_a_sentence(runs: tuple[str, str], tmp_path: Path) -> None:
    for words, said in (
        ("--format svg --layer 1 --head 0", "name one with --block"),
        ("--format csv --block cross", "--layer and --head"),
        ("--format csv --block cross --picture atlas", "--layer and --head"),
        ("--format svg --block cross --layer 1 --head 9", "heads 0 to 1"),
        ("--format svg --block nope --layer 1 --head 0", "--block is one of"),
        ("--format gif --block cross --layer 1 --head 0", "gif"),
        ("--format svg --block cross --layer 1 --head 0 --width 3", "millimetres"),
    ):
        assert said in refusal("export", runs[0], *words.split(), "--out", str(tmp_path / "f"))
        assert not list(tmp_path.iterdir())
    words = ("--format", "csv", *PLACE, "--out")
    assert "no file 'nothing'" in refusal("export", "nothing", *words, str(tmp_path / "f"))
    assert "no folder" in refusal("export", runs[0], *words, str(tmp_path / "a" / "f"))
    assert "is a folder" in refusal("export", runs[0], *words, str(tmp_path))
    trace = Trace.load(runs[0])
    marks = replace(trace, source=replace(trace.source, special=[True] * len(trace.source)))
    with pytest.raises(ValueError, match="nothing to draw"):  # a map without columns
        exported(marks, "svg", "map", ("cross", 1, 0), special=False)


@pytest.mark.slow
def test_reports_from_the_command_line(checkpoint: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    words = ("5 6 7", "--target", "4 8 6")  # left alone it says one token over and over
    told = answer("report", checkpoint, *words, "--title", "Mine", "--out", str(out))
    assert told.startswith(f"{out}: 0.") and "capture report green" in told
    page = out.read_text(encoding="utf-8")
    assert [run["name"] for run in packed(page)[0]["runs"]] == ["Now"]
    assert "<title>Mine</title>" in page
    edit = '{"edits": [{"kind": "temperature", "value": 0.2}, {"kind": "pad", "count": 2}]}'
    answer("report", checkpoint, "5 6 7", "--intervention", edit, "--out", str(out))
    book, _ = packed(out.read_text(encoding="utf-8"))
    assert [run["name"] for run in book["runs"]] == ["Now", "Before", "Difference"]
    now, before, _ = (run["blocks"]["decoder"]["map"]["rows"]["labels"] for run in book["runs"])
    assert now == before  # the target is held


def scene(trace: Trace, monkeypatch: pytest.MonkeyPatch, **look: Any) -> Any:
    """What `take` reads of a scene, without an engine."""
    seen: dict[str, Any] = {"view": "map", "words": False, "special": True, "ramp": "ink"}
    seen |= {"overlay": ((0, 1),), "threshold": 0.0, "lang": "en"}
    seen |= {"gamma": 1.0, "top": 0, "zoom": None, "scale": "head", "compare": "now"}
    place = SimpleNamespace(map_name="cross", layer=1, head=0)
    found = SimpleNamespace(
        engine=None, question=None, kind=None, place=place, changes=(), now=trace, before=trace,
        shown=(trace, None), most=0.0, look=SimpleNamespace(**seen | look), is_long=False,
    )  # fmt: skip
    monkeypatch.setattr(downloads, "scene_at", lambda *asked, long: found)
    return found


@pytest.mark.slow
def test_buttons_make_what_the_library_makes(
    runs: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace.load(runs[0])
    seen, place = scene(trace, monkeypatch), ("cross", 1, 0)
    for kind in FORMATS:
        made = downloads.maker(seen, kind, "map")()
        assert made == exported(trace, kind, "map", place), kind
    lines = scene(trace, monkeypatch, view="lines")
    assert downloads.picture(lines) == "lines"
    overlaid = exported(trace, "svg", "lines", place, also=((0, 1),))
    assert downloads.maker(lines, "svg", "lines")() == overlaid
    evil = replace(trace, manifest=trace.manifest | {"model": "../a b/ü\n.."})
    seen = scene(evil, monkeypatch)
    for kind, what, name in (
        ("svg", "map", "a-b-ü-cross-L1-H0.svg"),
        ("pdf", "atlas", "a-b-ü-cross-all-heads.pdf"),
        ("html", "report", "a-b-ü-cross-report.html"),
    ):
        assert downloads.file_name(seen, kind, what) == name
    # Fewer lines are drawn above 0.3, and the caption says so.
    trace = make_trace()
    printed = []
    for least in (0.0, 0.3):
        seen = scene(trace, monkeypatch, view="lines", overlay=(), threshold=least)
        printed.append(downloads.maker(seen, "svg", "lines")())
    assert printed[1].count(b"<path") < printed[0].count(b"<path") and b"0.3" in printed[1]


def test_files_speak_the_language_of_their_page_and_data_english(
    runs: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, place = Trace.load(runs[0]), ("cross", 1, 0)
    seen = scene(trace, monkeypatch, lang="zh")
    for kind in ("csv", "npz", "safetensors"):
        assert downloads.maker(seen, kind, "map")() == exported(trace, kind, "map", place), kind
    page = downloads.maker(seen, "html", "report")().decode("utf-8")
    assert '<html lang="zh">' in page and "权重显示头看向哪里" in page
    book, _ = packed(page)
    assert book["texts"]["masked"] == "已掩盖" and "texts" not in book["chips"]
    svg = downloads.maker(seen, "svg", "map")().decode("utf-8")
    assert ("权重显示头看向哪里" in svg) == (fonts.readable("zh") == "zh")
