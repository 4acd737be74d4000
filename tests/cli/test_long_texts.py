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


def test_a_text_longer_than_its_positions_says_how_long_it_may_be(writer: str, tmp_path: Path):
    said = refusal("trace", writer, "--ids", "5 " * 30, "--out", str(tmp_path / "x.safetensors"))
    assert "has 30 tokens and this model reads at most 29; shorten the text." in said
