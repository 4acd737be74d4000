"""Pairs whose target side a model wrote: each sentence once, resumed, read back by a recipe."""

from __future__ import annotations

import click.testing
import pytest

import transformer_viz as tv
from training import teacher
from training.corpus import read_pairs

SENTENCES = ["I love my dog.", "Where is the train station?", "Good morning."]


@pytest.fixture
def data(tmp_path):
    lines = [*SENTENCES, SENTENCES[0], "x" * (teacher.LONGEST + 1), ""]
    text = "".join(f"{line}\tsomebody's translation\n" for line in lines)
    (tmp_path / "one.tsv").write_text(text)
    (tmp_path / "two.tsv").write_text(f"{SENTENCES[1]}\tanother's\n")
    return tmp_path


def test_each_sentence_once_none_too_long_and_a_lacking_file_is_named(data):
    found = teacher.sources([data / "one.tsv", data / "two.tsv"])
    assert sorted(found) == sorted(SENTENCES)
    assert found == teacher.sources([data / "one.tsv", data / "two.tsv"])
    words = ["en-de-small", "--data", str(data), "--out", str(data / "x"), "--file", "no.tsv"]
    result = click.testing.CliRunner().invoke(teacher.main, words)
    assert result.exit_code == 2 and "no.tsv" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.shipped
def test_the_pairs_are_the_greedy_translations(data):
    """The witness runs each sentence alone; a stopped run goes on behind its last whole line."""
    out = data / "taught.tsv"
    words = ["en-de-small", "--data", str(data), "--out", str(out)]
    words += ["--file", "one.tsv", "--file", "two.tsv", "--device", "cpu"]
    result = click.testing.CliRunner().invoke(teacher.main, words)
    assert result.exit_code == 0 and "3 pairs" in result.output
    model = tv.load("en-de-small", device="cpu")
    alone = {s: " ".join(tv.translate(model, s, beam=1)[0].text.split()) for s in SENTENCES}
    pairs = read_pairs(out, 0, 1)
    assert dict(pairs) == alone and len(pairs) == len(alone)

    whole = out.read_text().splitlines()
    out.write_text("Good morning.\tkept\n" + whole[0][:7])
    assert teacher.teach(model, SENTENCES, out) == 3
    assert dict(read_pairs(out, 0, 1)) == alone | {"Good morning.": "kept"}
