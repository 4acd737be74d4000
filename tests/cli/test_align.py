"""`transformer-viz align`: the library's own links, as text and as files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import transformer_viz as tv
from transformer_viz.inference.alignment.corpus import align_corpus
from transformer_viz.metrics.alignment.error_rate import gold_of

from .test_cli import answer, refusal, write_text

PAIRS = [("The cat is old .", "Die Katze ist alt ."), ("A dog barks .", "Ein Hund bellt .")]
GOLD = ["1-1 2-2 3-3 4-4 5p5", "1-1 2-2 3-3"]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    return write_text(tmp_path / "pairs.tsv", "".join(f"{a}\t{b}\n" for a, b in PAIRS))


@pytest.mark.shipped
def test_links_and_errors_are_the_librarys(pairs: str, tmp_path: Path):
    out, gold = (
        tmp_path / "links.pharaoh",
        write_text(tmp_path / "gold.txt", "\n".join(GOLD) + "\n"),
    )
    words = ("--shift", "in", "--gold", gold, "--gold-from", "1", "--out", str(out))
    said = answer("align", "en-de-small", pairs, *words)
    known, model = [gold_of(line, first=1) for line in GOLD], tv.load("en-de-small", device="cpu")
    found = align_corpus(model, PAIRS, "in", gold=known)
    assert out.read_text(encoding="utf-8") == found.pharaoh()
    assert found.errors is not None
    best = found.errors["error_rate"].min()
    assert f"\n  {best:.3f}" in said
    assert "the mean of all heads, shift in" in said
    assert all(note in said for note in found.notes)
    told = json.loads((tmp_path / "links.pharaoh.json").read_text(encoding="utf-8"))
    assert told["card"] == found.card
    assert {"model_hash", "sentences_hash", "seed", "dtype", "version", "rows"} <= set(told["card"])
    assert len(told["errors"]) == len(found.errors)
    assert min(row["error_rate"] for row in told["errors"]) == pytest.approx(best)
    # one head to the screen
    words = ("--layer", "1", "--head", "0", "--symmetric", "union")
    said = answer("align", "en-de-small", pairs, *words)
    one = {"layer": 1, "head": 0, "symmetric": "union"}
    runs = (tv.trace(model, *pair, check=False) for pair in PAIRS)
    assert "".join(tv.align(run, **one).pharaoh() for run in runs) in said


@pytest.mark.shipped
def test_what_is_refused(pairs: str, tmp_path: Path):
    text = write_text(tmp_path / "text.txt", "A cat .\n")
    assert "this model has none: its maps are decoder" in refusal("align", "en-lm", text)
    (tmp_path / "raw.txt").write_bytes(b"\xff\xfe\x00")
    odd = write_text(tmp_path / "odd.txt", "0-0\n0:0\n")
    for words, said in (
        (("--head", "1"), "Head 1 of which layer?"),
        (("--gold", "none.txt"), "There is no file 'none.txt'"),
        (
            ("--gold", write_text(tmp_path / "short.txt", "0-0\n")),
            "has 1 lines and there are 2 sentences",
        ),
        (("--gold", odd), f"Line 2 of {odd}: A gold link is written 3-4"),
        (("--gold", str(tmp_path / "raw.txt")), "is no text in UTF-8"),
        (("--out", "nowhere/links.pharaoh"), "There is no folder"),
    ):
        assert said in refusal("align", "en-de-small", pairs, *words)
    gap = refusal("align", "en-de-small", write_text(tmp_path / "gap.tsv", "A cat .\n\nA dog .\n"))
    assert "Line 2 of" in gap and "is blank" in gap
