"""`transformer-viz atlas`: the folder, what it says, and what is refused in a sentence."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from transformer_viz.corpus.folder import open_atlas

from .test_cli import answer, refusal, write_text

PAIRS = [("The cat sat.", "Die Katze saß."), ("A dog barks.", "Ein Hund bellt.")]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    return write_text(tmp_path / "pairs.tsv", "".join(f"{a}\t{b}\n" for a, b in PAIRS))


@pytest.mark.shipped
def test_a_folder_is_made_once(pairs: str, tmp_path: Path):
    words = ("atlas", "en-de-small", pairs, "--out", str(tmp_path / "out"), "--device", "cpu")
    said = answer(*words)
    assert "out: 2 sentences; 1 of 1 parts made now" in said
    atlas = open_atlas(tmp_path / "out")
    assert atlas.card["read"] == 2 and atlas.ready
    assert "0 of 1 parts made now" in answer(*words)
    assert "seed differ" in refusal(*words, "--seed", "1")
    one = write_text(tmp_path / "one.txt", "The cat sat on the mat.")
    said = answer("atlas", "en-lm", one, "--out", str(tmp_path / "one"), "--device", "cpu")
    assert "one: 1 sentences" in said


@pytest.mark.shipped
def test_what_is_refused(pairs: str, tmp_path: Path):
    path, out = tmp_path / "text.txt", ("--out", str(tmp_path / "out"))
    for content, said in (
        (b"", "is empty; give one sentence a line"),
        (b"\xff\xfe\x00", "is no text in UTF-8 (line 1)"),
        (b"PK\0\0", "is no text: it holds zero bytes"),
        (b"a tale\nb\tc\td\n", "Line 2 of"),
        (b"x" * 1_000_001, "more than 1,000,000 bytes; give one sentence a line"),
    ):
        path.write_bytes(content)
        assert said in refusal("atlas", "en-de-small", str(path), *out)
        assert not (tmp_path / "out").exists(), said
    for words, said in (
        (("en-de-small", "nothing.txt"), "is not there"),
        (("no-model", pairs), "no checkpoint"),
        (("en-mlm", pairs), "has two columns"),
        (("digits", pairs), "takes image"),
        (("en-lm", pairs, "--address", "auto"), "add --engine ray"),
    ):
        assert said in refusal("atlas", *words, *out)
    (tmp_path / "mine").mkdir()
    write_text(tmp_path / "mine" / "letter", "dear")
    there = str(tmp_path / "mine")
    assert "holds no atlas" in refusal("atlas", "en-lm", pairs, "--out", there)
    if importlib.util.find_spec("ray") is None:  # a sentence says how to get it
        said = refusal("atlas", "en-de-small", pairs, *out, "--engine", "ray")
        assert "pip install 'transformer_viz[cluster]'" in said
