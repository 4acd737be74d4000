"""`transformer-viz rank`: the library's own table, in words and as a file, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import transformer_viz as tv
from transformer_viz.checkpoints.common.bundled import PRETRAINED
from transformer_viz.cli.rank import METHODS
from transformer_viz.core.interventions import Intervention, MeanHead
from transformer_viz.corpus.sentence_file import sentences
from transformer_viz.inference.ablation.stand_ins import METHODS as KNOWN

from .test_cli import answer, refusal, write_text

PAIRS = [("The cat sat.", "Die Katze saß."), ("A dog barks.", "Ein Hund bellt.")]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    return write_text(tmp_path / "pairs.tsv", "".join(f"{a}\t{b}\n" for a, b in PAIRS))


@pytest.mark.shipped
def test_the_table_is_the_librarys(pairs: str, tmp_path: Path):
    out = tmp_path / "heads.csv"
    said = answer("rank", "en-de-small", pairs, "--method", "zero", "--out", str(out))
    ranking = tv.rank(tv.load("en-de-small", device="cpu"), PAIRS, method="zero")
    table = pd.read_csv(out)
    assert list(table.columns) == list(ranking.table.columns)
    assert table["effect"].to_numpy() == pytest.approx(ranking.table["effect"].to_numpy())
    best = ranking.table.iloc[0]
    shown = said.splitlines()
    assert f"{best['stack']} {best['block']} L{best['layer']} H{best['head']}" in shown[1]
    assert f"{best['effect']:.4f}" in shown[1]
    assert all(note in said for note in ranking.notes)
    assert shown[-1] == f"{out}: {len(table)} heads"


def test_what_is_refused(pairs: str, tmp_path: Path):
    path = tmp_path / "text.txt"
    for content, said in (
        (b"", "is empty; give one sentence a line"),
        (b"\n  \n\t\n", "is empty; give one sentence a line"),
        (b"\xff\xfe\x00", "is no text in UTF-8 (line 1)"),
        (b"A dog.\nna\xefve\n", "is no text in UTF-8 (line 2)"),
        (b"PK\0\0", "is no text: it holds zero bytes"),
        (b"a\tb\tc\n", "Line 1 of"),
        (b"a cat\nthe dog\t\n", "Line 2 of"),
    ):
        path.write_bytes(content)
        assert said in refusal("rank", "en-de-small", str(path))
    path.write_bytes("\ufeffA dog.\r\n\r\nA cat.\tEine Katze.\r\n".encode())
    assert sentences(str(path)) == ["A dog.", ("A cat.", "Eine Katze.")]  # the mark is no letter
    for words, said in (
        (("en-de-small", "nothing.txt"), "is not there"),
        (("en-de-small", str(tmp_path)), "is a folder"),
        (("no-model", pairs), "no checkpoint"),
        (("en-de-small", pairs, "--method", "median"), "'median' is not one of"),
        (("en-de-small", pairs, "--out", str(tmp_path / "no" / "a.csv")), "There is no folder"),
    ):
        assert said in refusal("rank", *words)
    assert METHODS == KNOWN  # the library's


@pytest.mark.shipped
def test_means_are_stored_for_edits(pairs: str, tmp_path: Path):
    folder = tmp_path / "copy"
    shutil.copytree(PRETRAINED / "en-de-small", folder, ignore=shutil.ignore_patterns("means-*"))
    said = answer("rank", str(folder), pairs, "--keep-means")
    (stored,) = folder.glob("means-*.safetensors")
    name = stored.stem.removeprefix("means-")
    assert f'"mean": "{name}"' in said and str(stored) in said
    edit = MeanHead(mean=name, stack="decoder", block="cross", layer=1, head=0)
    model = tv.load(str(folder), device="cpu")
    clean, mean = (
        tv.trace(model, *PAIRS[0], intervention=Intervention(edits), check=False)
        for edits in ((), (edit,))
    )
    assert clean.logits is not None and mean.logits is not None
    assert abs(clean.logits - mean.logits).max() > 1e-3
    refused = refusal("rank", str(folder), pairs, "--keep-means", "--method", "zero")
    assert "stores the means of --method mean" in refused
