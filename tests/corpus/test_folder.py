"""A folder is the same whoever makes it, and refuses by name what does not belong there: P36."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

import transformer_viz as tv
from tests.support.paths import ROOT
from transformer_viz.corpus.engines import run
from transformer_viz.corpus.folder import open_atlas
from transformer_viz.corpus.merging import ATLAS, CHOSEN, merge
from transformer_viz.corpus.parts import finished
from transformer_viz.corpus.plan import Plan, make_plan, read_plan, settle_plan
from transformer_viz.corpus.sentence_file import lines, sentences
from transformer_viz.corpus.worker import Scanner

MODEL = "en-de-small"
SIZE = 5
WORDS = ["cat", "dog", "old man", "small child", "teacher", "bird", "friend"]
PAIRS = [
    (f"The {one} sees the {other} in the garden.", f"Das ist {number} im Garten und im Haus.")
    for number, (one, other) in enumerate((a, b) for a in WORDS[:4] for b in WORDS)
][:23]
FILES = (ATLAS, CHOSEN, "plan.json")


def corpus(folder: Path) -> Path:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    return path


def made(folder: Path, out: str, workers: int = 1, shards: list[int] | None = None) -> Path:
    """An atlas, or some parts of one."""
    model = tv.load("en-de-small", device="cpu")
    plan = make_plan(model, corpus(folder), size=SIZE)
    target = folder / out
    settle_plan(plan, target)
    if shards is None:
        run(plan, corpus(folder), target, model, path=MODEL, workers=workers)
    else:
        scanner = Scanner(plan, str(corpus(folder)), str(target), model)
        for number in shards:
            scanner(number)
    return target


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("corpus"), "whole")


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def same(a: Path, b: Path) -> None:
    for file in FILES:
        assert (a / file).read_bytes() == (b / file).read_bytes(), file


@pytest.mark.shipped
def test_the_folder_has_the_files_of_the_contract(whole: Path) -> None:
    names = {path.relative_to(whole).as_posix() for path in whole.rglob("*") if path.is_file()}
    parts = {f"{kind}/part-{n:05d}.parquet" for kind in ("parts", "examples") for n in range(5)}
    assert names == {*FILES, *parts}
    plan = json.loads((whole / "plan.json").read_text(encoding="utf-8"))
    wanted = {
        "model_hash",
        "tokenizer_hash",
        "corpus_hash",
        "metric_set",
        "seed",
        "dtype",
        "shards",
    }
    assert wanted <= set(plan)
    assert [shard["count"] for shard in plan["shards"]] == [5, 5, 5, 5, 3]
    sums = pq.read_table(whole / ATLAS)
    assert {"stack", "block", "layer", "head", "metric", "n", "sum", "m2", "bins"} <= set(
        sums.column_names
    )
    assert len(sums["bins"][0]) == 256
    layers = {tuple(row.values()) for row in sums.select(["stack", "block", "layer"]).to_pylist()}
    assert pq.ParquetFile(whole / ATLAS).num_row_groups == len(layers)


@pytest.mark.shipped
def test_two_workers_make_the_same(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamlit's test runner leaves the app as the main module, which new processes would run."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    same(whole, made(tmp_path, "two", workers=2))


@pytest.mark.shipped
def test_a_stopped_run_goes_on_with_what_lacks(whole: Path, tmp_path: Path) -> None:
    half = made(tmp_path, "half", shards=[3, 1])
    before = {path: path.stat().st_mtime_ns for path in half.rglob("part-*.parquet")}
    atlas = open_atlas(half)
    assert atlas.progress == (10, 23) and not atlas.ready
    with pytest.raises(ValueError, match="not finished: 10 of 23 sentences"):
        _ = atlas.table
    (half / "parts" / "part-00000.parquet.123.tmp").write_bytes(b"half of it")  # a killed writer's
    again = made(tmp_path, "half")
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    same(whole, again)
    assert open_atlas(again).progress == (23, 23)


@pytest.mark.shipped
@pytest.mark.process
def test_a_killed_program_and_a_second_start(tmp_path: Path) -> None:
    """SIGKILL while it works: finished parts are kept, and the end is the same."""
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{a} {n}.\n" for n in range(100) for a, _ in PAIRS), encoding="utf-8")
    model = tv.load("en-lm", device="cpu")
    plan = make_plan(model, path, size=100)
    ends = []
    for name in ("killed", "straight"):
        out = tmp_path / name
        settle_plan(plan, out)
        if name == "killed":
            code = (
                "from pathlib import Path; import transformer_viz as tv\n"
                "from transformer_viz.corpus.engines import run\n"
                "from transformer_viz.corpus.plan import read_plan\n"
                f"out = Path({str(out)!r}); model = tv.load('en-lm', device='cpu')\n"
                f"run(read_plan(out), {str(path)!r}, out, model)\n"
            )
            work = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
            end = time.monotonic() + 60
            while len(list((out / "parts").glob("part-*.parquet"))) < 3:
                assert time.monotonic() < end and work.poll() is None
                time.sleep(0.01)
            os.kill(work.pid, signal.SIGKILL)
            work.wait()
            assert 3 <= len(finished(out, plan)) < len(plan.shards)
        run(plan, path, out, model)
        ends.append(out)
    same(*ends)


def halve(folder: Path) -> str:
    path = folder / "parts" / "part-00002.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    return r"part-00002.parquet is half-written"


def lose(folder: Path) -> str:
    (folder / "parts" / "part-00003.parquet").unlink()
    return r"lacks part-00003.parquet; the same command"


def twice(folder: Path) -> str:
    parts = folder / "parts"
    shutil.copy(parts / "part-00001.parquet", parts / "part-00001 (copy).parquet")
    return r"part-00001( \(copy\))?.parquet (is|and)"


def exchange(folder: Path) -> str:
    parts = folder / "parts"
    shutil.copy(parts / "part-00001.parquet", parts / "part-00002.parquet")
    return r"part-00002.parquet and part-00001.parquet are both the part of shard 1"


def strange(folder: Path) -> str:
    (folder / "parts" / "notes.txt").write_text("mine")
    return r"notes.txt is half-written or no part"


def foreign(folder: Path) -> str:
    plan = read_plan(folder)
    (folder / "plan.json").write_text(replace(plan, seed=9).to_json(), encoding="utf-8")
    return r"part-00000.parquet is a part of another atlas: it bears the plan [0-9a-f]{12}"


def bare(folder: Path) -> str:
    (folder / "examples" / "part-00004.parquet").unlink()
    return r"part-00004.parquet has no examples beside it"


@pytest.mark.shipped
@pytest.mark.parametrize("harm", [halve, lose, twice, exchange, strange, foreign, bare])
def test_what_does_not_belong_is_refused_by_name(harm: Callable[[Path], str], copied: Path) -> None:
    said = harm(copied)
    with pytest.raises(ValueError, match=said):
        merge(copied, read_plan(copied))


@pytest.mark.shipped
def test_a_folder_of_something_else_is_not_touched(copied: Path, tmp_path: Path) -> None:
    plan = read_plan(copied)
    with pytest.raises(ValueError, match=r"something else: corpus_hash, seed differ"):
        settle_plan(replace(plan, seed=4, corpus_hash="0"), copied)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="is there and holds no atlas"):
        settle_plan(plan, tmp_path / "mine")
    (copied / "plan.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"plan\.json is no plan of an atlas, or only half"):
        open_atlas(copied)
    with pytest.raises(ValueError, match="holds no atlas of a corpus"):
        open_atlas(tmp_path / "mine")


@pytest.mark.shipped
def test_a_worker_with_other_weights_refuses(copied: Path) -> None:
    plan = read_plan(copied)
    with pytest.raises(ValueError, match="are not those of the plan"):
        Scanner(plan, "pairs.tsv", str(copied), "en-lm")


@pytest.mark.shipped
def test_the_table_is_that_of_metrics(whole: Path) -> None:
    """`copying` is asked of all, as the corpus is small."""
    atlas = open_atlas(whole)
    witness = tv.metrics(tv.load("en-de-small", device="cpu"), PAIRS)
    assert list(atlas.table.columns) == list(witness.columns)
    for column in witness.columns[4:]:
        if not column.endswith(("_low", "_high")):
            a, b = (t[column].to_numpy(float) for t in (atlas.table, witness))
            assert np.allclose(a, b, atol=1e-6, rtol=0, equal_nan=True), column
    assert atlas.card["read"] == atlas.card["sentences"] == 23 and atlas.card["refused"] == 0
    assert atlas.card["rows"] == max(witness[name].max() for name in witness if "_rows" in name)
    assert len(tv.roles(atlas.table)) == len(witness)


@pytest.mark.shipped
def test_histograms_and_examples_of_a_head(whole: Path) -> None:
    atlas = open_atlas(whole)
    model = tv.load("en-de-small", device="cpu")
    head = atlas.heads[5]
    counts, edges = atlas.histogram(head, "entropy")
    alone = [tv.metrics(tv.trace(model, a, b, check=False))["entropy"][5] for a, b in PAIRS]
    assert counts.sum() == 23
    assert counts.tolist() == np.histogram(alone, bins=edges)[0].tolist()
    found = atlas.examples(head, "entropy")
    top = [one for one in found if one.kind == "top"]
    assert [one.score for one in top] == pytest.approx(sorted(alone)[-3:][::-1], abs=1e-6)
    for one in found:
        assert (one.text, one.target) == PAIRS[one.sentence]
        weights = tv.trace(model, one.text, one.target, check=False).attention(
            "encoder", layer=head[2]
        )[head[3]]
        assert np.abs(one.weights - weights).max() <= 0.5 / 255 + 1e-6
    assert len(found) > len(top)
    with pytest.raises(LookupError, match="no head"):
        atlas.histogram(("encoder", "self", 99, 0), "entropy")
    with pytest.raises(LookupError, match="no measure 'beauty'"):
        atlas.histogram(head, "beauty")


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    """Lines say where they begin, so that a shard is read without what stands before it."""
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffÄpfel.\r\n\r\nA cat.\tEine Katze.\r\n  \nEnd".encode())
    found = list(lines(path))
    assert [line.item for line in found] == ["Äpfel.", ("A cat.", "Eine Katze."), "End"]
    assert [line.number for line in found] == [1, 3, 5]
    raw = path.read_bytes()
    assert raw[found[1].start :].startswith(b"A cat.") and raw[found[2].start :] == b"End"
    assert sentences(path) == [line.item for line in found]
    path.write_bytes(b"word " * 300_000)
    with pytest.raises(ValueError, match=r"Line 1 of .* more than 1,000,000 bytes"):
        sentences(path)


@pytest.mark.shipped
def test_a_plan_has_nothing_of_the_machine(tmp_path: Path) -> None:
    model = tv.load("en-de-small", device="cpu")
    plans: list[Plan] = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        plans.append(make_plan(model, corpus(tmp_path / name), size=SIZE))
    assert plans[0] == plans[1] and plans[0].hash == plans[1].hash
    assert str(tmp_path) not in plans[0].to_json()
    numbers = [n for shard in plans[0].shards for n, _ in plans[0].items(shard, corpus(tmp_path))]
    assert numbers == list(range(23))
    with pytest.raises(ValueError, match="has two columns and the model 'en-mlm' has no decoder"):
        make_plan(tv.load("en-mlm", device="cpu"), corpus(tmp_path))
    with pytest.raises(ValueError, match="takes image"):
        make_plan(tv.load("digits", device="cpu"), corpus(tmp_path))
