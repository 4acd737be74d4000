"""`transformer-viz atlas`: the folder, what it says, and what is refused in a sentence."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from transformer_viz.corpus.folder import open_atlas

from .test_cli import answer, refusal

PAIRS = [("The cat sat.", "Die Katze saß."), ("A dog barks.", "Ein Hund bellt.")]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    return str(path)


@pytest.mark.shipped
def test_a_folder_is_made_once(pairs: str, tmp_path: Path) -> None:
    words = ("atlas", "en-de-small", pairs, "--out", str(tmp_path / "out"), "--device", "cpu")
    said = answer(*words)
    assert "out: 2 sentences; 1 of 1 parts made now" in said
    atlas = open_atlas(tmp_path / "out")
    assert atlas.card["read"] == 2 and atlas.ready
    assert "0 of 1 parts made now" in answer(*words)
    assert "seed differ" in refusal(*words, "--seed", "1")
    one = tmp_path / "one.txt"
    one.write_text("The cat sat on the mat.")
    said = answer("atlas", "en-lm", str(one), "--out", str(tmp_path / "one"), "--device", "cpu")
    assert "one: 1 sentences" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; give one sentence a line"),
        (b"\xff\xfe\x00", "is no text in UTF-8 (line 1)"),
        (b"PK\0\0", "is no text: it holds zero bytes"),
        (b"a tale\nb\tc\td\n", "Line 2 of"),
        (b"x" * 1_000_001, "more than 1,000,000 bytes; give one sentence a line"),
    ],
)
@pytest.mark.shipped
def test_a_file_that_holds_no_sentences(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    out = tmp_path / "out"
    assert said in refusal("atlas", "en-de-small", str(path), "--out", str(out))
    assert not out.exists()


@pytest.mark.shipped
def test_what_else_is_refused(pairs: str, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    assert "is not there" in refusal("atlas", "en-de-small", "nothing.txt", *out)
    assert "no checkpoint" in refusal("atlas", "no-model", pairs, *out)
    assert "has two columns" in refusal("atlas", "en-mlm", pairs, *out)
    assert "takes image" in refusal("atlas", "digits", pairs, *out)
    assert "add --engine ray" in refusal("atlas", "en-lm", pairs, *out, "--address", "auto")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    there = str(tmp_path / "mine")
    assert "holds no atlas" in refusal("atlas", "en-lm", pairs, "--out", there)


@pytest.mark.shipped
def test_ray_is_asked_for_by_name_alone(pairs: str, tmp_path: Path) -> None:
    """Where Ray is not installed, a sentence says how to get it; the rest needs none."""
    if importlib.util.find_spec("ray") is None:
        out = str(tmp_path / "out")
        said = refusal("atlas", "en-de-small", pairs, "--out", out, "--engine", "ray")
        assert "pip install 'transformer_viz[cluster]'" in said
