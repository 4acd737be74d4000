"""Long texts on the command line: tiles are kept, and what was not proved is not called so."""

from __future__ import annotations

from pathlib import Path

import pytest

import transformer_viz as tv

from .test_cli import answer, checkpoint_folder, refusal

IDS = "5 6 7 3 9 11 4"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cli") / "writer"
    return str(checkpoint_folder(folder, decoder_layers=2, target_vocab=19))


def test_tiles_of_a_long_text_are_stored_and_no_proof_is_claimed(writer, tmp_path, monkeypatch):
    out = str(tmp_path / "run.safetensors")
    said = answer("trace", writer, "--ids", IDS, "--keep", "tiles", "--out", out)
    assert said.endswith("2 layers; tiles in the place of matrices; capture report green\n")
    monkeypatch.setattr("transformer_viz.inference.tracing.LONG", 6)
    long = str(tmp_path / "long.safetensors")
    said = answer("trace", writer, "--ids", IDS, "--out", long)
    assert said.endswith("in the place of matrices; the capture of so long a text was not proved\n")
    whole = tv.trace(tv.load(writer), [int(n) for n in IDS.split()], keep=("weights",))
    for file in (out, long):
        found = tv.Trace.load(file)
        assert found.manifest["keep"] == ["tiles"] and not found.attentions
        tile = found.tile("decoder", 1, 0, slice(2, 7), slice(0, 5))
        assert abs(tile - whole.attention("decoder", 1)[0, 2:, :5]).max() <= 2e-6


def test_a_text_longer_than_its_positions_says_what_that_means(writer: str, tmp_path: Path):
    fixed = {"decoder_layers": 1, "target_vocab": 19, "positions": "learned"}
    learned = str(checkpoint_folder(tmp_path / "learned", **fixed))
    said = refusal("trace", learned, "--ids", "5 " * 30, "--out", str(tmp_path / "x.safetensors"))
    assert "has 30 tokens and this model reads at most 29; shorten the text." in said
    # sines go on, and both commands say what that means
    run, page = str(tmp_path / "run.safetensors"), tmp_path / "page.html"
    known = "Its positions are sines, which go on beyond the 29 tokens that it was made for"
    assert known in answer("trace", writer, "--ids", "5 6 7 " * 11, "--out", run)
    assert len(tv.Trace.load(run).source) == 33
    said = answer("report", writer, "--ids", "5 6 7 " * 11, "--out", str(page))
    assert "capture report green" in said
    assert known in page.read_text()


def test_a_report_of_a_long_text_holds_the_heads_that_were_chosen(writer, tmp_path, monkeypatch):
    runs = "inference.tracing", "inference.long_texts.choice"
    for place in (*runs, "metrics.attention.map_cells"):
        monkeypatch.setattr(f"transformer_viz.{place}.LONG", 6)
    out = tmp_path / "page.html"
    said = answer("report", writer, "--ids", IDS, "--heads", "L1H0", "--out", str(out))
    assert said.startswith(f"{out}: 0.") and "MB" in said
    content = out.read_text()
    assert content.count('id="tv-part-') and "It holds the cells of 1 of" in content
    for words, why in (
        (("--heads", "L9H0"), "There is no layer 9; this run has layers 0 to 1."),
        (("--heads", "one"), "counted from 0, like --heads \"1.3 L0H2 cross.1.0\"; got 'one'."),
        (("--layers", "2-1"), "--layers takes numbers from 0"),
        (("--max-mb", "0"), "A page may have up to 500 MB; got max_mb=0."),
    ):
        assert why in refusal("report", writer, "--ids", IDS, *words, "--out", str(out))


def test_a_report_of_a_short_text_takes_the_same_choice(writer, tmp_path):
    out = tmp_path / "page.html"
    said = answer("report", writer, "--ids", IDS, "--layers", "0", "--out", str(out))
    assert said.startswith(f"{out}: 0.")
    assert "It holds the exact weights of" in out.read_text()
    said = refusal("report", writer, "--ids", IDS, "--precision", "int16", "--out", str(out))
    assert "precision is of" in said
