"""An atlas folder is the same however it is made, and foreign parts are refused by name (P36)."""

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
    for number in shards or ():
        Scanner(plan, str(corpus(folder)), str(target), model)(number)
    return target


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("corpus"), "whole")


def same(a: Path, b: Path) -> None:
    for file in FILES:
        assert (a / file).read_bytes() == (b / file).read_bytes(), file


@pytest.mark.shipped
def test_the_folder_has_the_files_of_the_contract(whole):
    names = {path.relative_to(whole).as_posix() for path in whole.rglob("*") if path.is_file()}
    parts = {f"{kind}/part-{n:05d}.parquet" for kind in ("parts", "examples") for n in range(5)}
    assert names == {*FILES, *parts}
    plan = json.loads((whole / "plan.json").read_text(encoding="utf-8"))
    hashes = {"model_hash", "tokenizer_hash", "corpus_hash"}
    assert hashes | {"metric_set", "seed", "dtype", "shards"} <= set(plan)
    assert [shard["count"] for shard in plan["shards"]] == [5, 5, 5, 5, 3]
    sums = pq.read_table(whole / ATLAS)
    columns = {"stack", "block", "layer", "head", "metric", "n", "sum", "m2", "bins"}
    assert columns <= set(sums.column_names)
    assert len(sums["bins"][0]) == 256
    layers = {tuple(row.values()) for row in sums.select(["stack", "block", "layer"]).to_pylist()}
    assert pq.ParquetFile(whole / ATLAS).num_row_groups == len(layers)


@pytest.mark.shipped
def test_two_workers_and_a_stopped_run_make_the_same(whole, tmp_path, monkeypatch):
    # Streamlit's test runner leaves the app as the main module, which new processes would run
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    same(whole, made(tmp_path, "two", workers=2))
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
def test_a_killed_program_and_a_second_start(tmp_path):
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


def harms(folder: Path) -> list[tuple[Callable[[], object], str]]:
    """Return faults of a folder of parts, each with the words of its refusal."""
    part = [folder / "parts" / f"part-{n:05d}.parquet" for n in range(5)]
    changed = replace(read_plan(folder), seed=9).to_json()
    lone, twice = folder / "examples" / part[4].name, part[1].with_name("part-00001 (copy).parquet")
    return [
        (lambda: part[2].write_bytes(part[2].read_bytes()[:-100]), "part-00002.parquet is half-wr"),
        (part[3].unlink, "lacks part-00003.parquet; the same command"),
        (lambda: shutil.copy(part[1], twice), r"part-00001( \(copy\))?.parquet (is|and)"),
        (lambda: shutil.copy(part[1], part[2]),
         "part-00002.parquet and part-00001.parquet are both the part of shard 1"),
        (lambda: part[0].with_name("notes.txt").write_text("mine"),
         "notes.txt is half-written or no part"),
        (lambda: (folder / "plan.json").write_text(changed),
         "part-00000.parquet is a part of another atlas: it bears the plan [0-9a-f]{12}"),
        (lone.unlink, "part-00004.parquet has no examples beside it"),
    ]  # fmt: skip


@pytest.mark.shipped
def test_parts_that_do_not_belong_are_refused_by_name(whole, tmp_path):
    for number in range(7):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        harm, message = harms(folder)[number]
        harm()
        with pytest.raises(ValueError, match=message):
            merge(folder, read_plan(folder))


@pytest.mark.shipped
def test_folders_and_weights_of_something_else_are_refused(whole, tmp_path):
    copied = tmp_path / "copy"
    shutil.copytree(whole, copied)
    plan = read_plan(copied)
    with pytest.raises(ValueError, match="are not those of the plan"):
        Scanner(plan, "pairs.tsv", str(copied), "en-lm")
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
def test_the_table_is_that_of_metrics_and_heads_have_histograms_and_examples(whole):
    """`copying` is asked of all, as the corpus is small."""
    atlas, model = open_atlas(whole), tv.load("en-de-small", device="cpu")
    wanted = tv.metrics(model, PAIRS)
    assert list(atlas.table.columns) == list(wanted.columns)
    for column in wanted.columns[4:]:
        if not column.endswith(("_low", "_high")):
            a, b = (t[column].to_numpy(float) for t in (atlas.table, wanted))
            assert np.allclose(a, b, atol=1e-6, rtol=0, equal_nan=True), column
    assert atlas.card["read"] == atlas.card["sentences"] == 23 and atlas.card["refused"] == 0
    assert atlas.card["rows"] == max(wanted[name].max() for name in wanted if "_rows" in name)
    assert len(tv.roles(atlas.table)) == len(wanted)
    head = atlas.heads[5]
    counts, edges = atlas.histogram(head, "entropy")
    traces = [tv.trace(model, a, b, check=False) for a, b in PAIRS]
    alone = [tv.metrics(one)["entropy"][5] for one in traces]
    assert counts.sum() == 23
    assert counts.tolist() == np.histogram(alone, bins=edges)[0].tolist()
    found = atlas.examples(head, "entropy")
    top = [one.score for one in found if one.kind == "top"]
    assert top == pytest.approx(sorted(alone)[-3:][::-1], abs=1e-6)
    assert len(found) > len(top)
    for one in found:
        assert (one.text, one.target) == PAIRS[one.sentence]
        weights = traces[one.sentence].attention("encoder", layer=head[2])[head[3]]
        assert np.abs(one.weights - weights).max() <= 0.5 / 255 + 1e-6
    with pytest.raises(LookupError, match="no head"):
        atlas.histogram(("encoder", "self", 99, 0), "entropy")
    with pytest.raises(LookupError, match="no measure 'beauty'"):
        atlas.histogram(head, "beauty")


def test_a_file_is_read_line_by_line(tmp_path):
    """Lines say where they begin, so that a shard is read without those before it."""
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
def test_a_plan_has_nothing_of_the_machine(tmp_path):
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
