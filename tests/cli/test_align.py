"""`transformer-viz align`: the library's own links, as text and as files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import transformer_viz as tv
from transformer_viz.inference.alignment.corpus import align_corpus
from transformer_viz.metrics.alignment.error_rate import gold_of

from .test_cli import answer, refusal

PAIRS = [("The cat is old .", "Die Katze ist alt ."), ("A dog barks .", "Ein Hund bellt .")]
GOLD = ["1-1 2-2 3-3 4-4 5p5", "1-1 2-2 3-3"]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    return str(path)


@pytest.fixture
def gold(tmp_path: Path) -> str:
    path = tmp_path / "gold.txt"
    path.write_text("\n".join(GOLD) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.shipped
def test_links_and_errors_are_the_librarys(pairs: str, gold: str, tmp_path: Path) -> None:
    out = tmp_path / "links.pharaoh"
    words = ("--shift", "in", "--gold", gold, "--gold-from", "1", "--out", str(out))
    said = answer("align", "en-de-small", pairs, *words)
    known = [gold_of(line, first=1) for line in GOLD]
    found = align_corpus(tv.load("en-de-small", device="cpu"), PAIRS, "in", gold=known)
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


@pytest.mark.shipped
def test_one_head_to_the_screen(pairs: str) -> None:
    words = ("--layer", "1", "--head", "0", "--symmetric", "union")
    said = answer("align", "en-de-small", pairs, *words)
    model = tv.load("en-de-small", device="cpu")
    wanted = [
        tv.align(tv.trace(model, *pair), layer=1, head=0, symmetric="union").pharaoh()
        for pair in PAIRS
    ]
    assert "".join(wanted) in said


@pytest.mark.shipped
def test_a_model_that_cannot_align(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("A cat .\n", encoding="utf-8")
    assert "this model has none: its maps are decoder" in refusal("align", "en-lm", str(path))


def test_what_is_refused(pairs: str, gold: str, tmp_path: Path) -> None:
    def asked(*words: str) -> str:
        return refusal("align", "en-de-small", pairs, *words)

    assert "Head 1 of which layer?" in asked("--head", "1")
    assert "There is no file 'none.txt'" in asked("--gold", "none.txt")
    short = tmp_path / "short.txt"
    short.write_text("0-0\n", encoding="utf-8")
    assert "has 1 lines and there are 2 sentences" in asked("--gold", str(short))
    odd = tmp_path / "odd.txt"
    odd.write_text("0-0\n0:0\n", encoding="utf-8")
    assert f"Line 2 of {odd}: A gold link is written 3-4" in asked("--gold", str(odd))
    raw = tmp_path / "raw.txt"
    raw.write_bytes(b"\xff\xfe\x00")
    assert "is no text in UTF-8" in asked("--gold", str(raw))
    assert "There is no folder" in asked("--out", "nowhere/links.pharaoh")
    gap = tmp_path / "gap.tsv"
    gap.write_text("A cat .\n\nA dog .\n", encoding="utf-8")
    assert "Line 2 of" in refusal("align", "en-de-small", str(gap))
    assert "is blank" in refusal("align", "en-de-small", str(gap))
