"""Models of a Hub of this machine, fetched by the real client and opened: what came is what is."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.checkpoints.hugging_face import as_torch
from tests.support.paths import ROOT
from transformer_viz.checkpoints.files.errors import CheckpointError, CheckpointMissing
from transformer_viz.checkpoints.hub import plan as planning
from transformer_viz.checkpoints.hub.door import local
from transformer_viz.checkpoints.hub.ids import HubId
from transformer_viz.checkpoints.hub.plan import Plan, download, plan
from transformer_viz.checkpoints.hub.refusals import HubError
from transformer_viz.checkpoints.hub.snapshots import cached

BIG = HubId("tiny/big")
WEIGHTS = "model.safetensors"
Files = dict[str, bytes]


class StopHere(Exception):
    """A visitor stops."""


StopHere.__module__ = "transformer_viz.tests"


def files_of(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def big(hub, folder) -> Files:
    """The files of tiny/big, a model with weights of a megabyte that nobody opens."""
    draw = np.random.default_rng(5)
    weights = draw.integers(0, 256, 2**20, np.uint8).tobytes()
    files = files_of(folder("gpt2")) | {WEIGHTS: weights}
    hub.add(BIG.repo, files)
    return files


def fetch_plan(found: Plan) -> Path:
    """Return the folder of what was fetched."""
    return download(found, lambda done, total: None)[0]


def kind(name: str, **words: str) -> str:
    return tv.load(name, device="cpu", **words).kind


@pytest.mark.slow
def test_a_model_by_its_id_is_the_model_of_the_folder(hub, folder):
    for name in ("gpt2", "bert", "marian"):
        hub.add(f"tiny/{name}", folder(name))
        mine, theirs = tv.load(folder(name), device="cpu"), tv.load(f"tiny/{name}", device="cpu")
        assert theirs.name == f"tiny/{name}" and theirs.hash == mine.hash
        a, b = tv.trace(mine, "the cat sat"), tv.trace(theirs, "the cat sat")
        assert a.source.labels == b.source.labels, name
        for block in a.maps:
            assert np.array_equal(a.attention(block, 0), b.attention(block, 0)), (name, block)


def test_only_what_is_read_comes(hub, folder):
    beside = dict.fromkeys(("README.md", "pytorch_model.bin", "tf_model.h5", "logs/a.json"), b"x")
    files = files_of(folder("bert"))
    hub.add("tiny/bert", files | beside | {"training_args.bin": b"x", "trainer_state.json": b"{}"})
    place = plan(HubId("tiny/bert"))
    came = {file.name for file in place.files}
    assert came == set(files) and place.count == len(files)
    assert place.size == sum(map(len, files.values()))  # the witness: the files themselves
    assert {p.name for p in fetch_plan(place).iterdir()} == set(files)


def test_a_second_time_one_question_and_of_a_commit_none(hub, folder, capsys, monkeypatch):
    """The size is said before the transfer; of what is there already nothing is said."""
    repo = hub.add("tiny/gpt2", folder("gpt2"))
    tv.load("tiny/gpt2", device="cpu")
    size = sum(path.stat().st_size for path in folder("gpt2").iterdir())
    said = capsys.readouterr().err
    assert said.startswith(f"tiny/gpt2: {size / 1000:.0f} kB in ")
    assert "are free on the disk" in said and "100%" in said and "B/s" in said
    hub.asked.clear()
    tv.load("tiny/gpt2", device="cpu")
    assert [path for _, path, _ in hub.asked] == ["/api/models/tiny/gpt2"]
    hub.asked.clear()
    tv.load("tiny/gpt2", device="cpu", revision=repo.refs["main"])
    assert hub.asked == [] and capsys.readouterr().err == ""
    hub.add("tiny/bert", folder("bert"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_PROGRESS_BARS", True)
    assert (Path(local("tiny/bert", {})[0]) / WEIGHTS).is_file()
    assert capsys.readouterr().err == ""


def test_revisions_are_branches_tags_and_commits(hub, folder):
    repo = hub.add("tiny/two", folder("gpt2"))
    other = files_of(folder("bert"))
    commit = repo.commit(other, "v2", "refs/pr/1")
    assert kind("tiny/two") == "decoder-only"
    for revision in ("v2", "refs/pr/1", commit):
        assert kind("tiny/two", revision=revision) == "encoder-only", revision
        assert kind(f"tiny/two@{revision}") == "encoder-only", revision
    with pytest.raises(CheckpointError, match="and revision='v2' another; give one of them"):
        tv.load("tiny/two@main", revision="v2")
    repo.commit(other)
    assert kind("tiny/two") == "encoder-only"  # a branch that moved is fetched anew


def test_a_name_in_the_box_and_a_path_come_first(hub, folder, tmp_path, monkeypatch):
    hub.add("runs/mine", folder("bert"))
    monkeypatch.chdir(tmp_path)
    os.makedirs("runs")
    os.symlink(folder("gpt2"), "runs/mine")
    assert kind("runs/mine") == "decoder-only"
    with pytest.raises(CheckpointError, match="is for a model of the Hub"):
        tv.load("runs/mine", revision="main")
    with pytest.raises(CheckpointMissing, match="no model, folder or file"):
        tv.load(Path("not/here"))  # a path is never an id
    assert hub.asked == []


def test_weights_in_parts_and_pickles_only_where_they_are_allowed(hub, folder, tmp_path):
    from transformers import GPT2LMHeadModel

    whole = GPT2LMHeadModel.from_pretrained(folder("gpt2"))
    whole.save_pretrained(tmp_path / "parts", max_shard_size="30KB")
    count = len(list((tmp_path / "parts").glob("model-*.safetensors")))
    hub.add("tiny/parts", tmp_path / "parts")
    shutil.copytree(folder("gpt2"), tmp_path / "old")
    hub.add("tiny/old", as_torch(tmp_path / "old"))
    parameters = tv.load(folder("gpt2"), device="cpu").parameters
    assert tv.load("tiny/parts", device="cpu").parameters == parameters
    assert len(hub.weights_asked()) == count > 1
    with pytest.raises(CheckpointError, match="only pickled weights"):
        tv.load("tiny/old")
    assert len(hub.weights_asked()) == count
    assert tv.load("tiny/old", device="cpu", allow_pickle=True).parameters == parameters
    assert cached(HubId("tiny/old")) is None and cached(HubId("tiny/old"), True) is not None


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of peft's own
def test_an_adapter_brings_the_model_below(hub, folder, tmp_path):
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2LMHeadModel

    base = GPT2LMHeadModel.from_pretrained(folder("gpt2"))
    tuned = get_peft_model(base, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
    with torch.no_grad():
        for name, one in tuned.named_parameters():
            if "lora_B" in name:
                one.normal_(generator=torch.Generator().manual_seed(1))
    tuned.save_pretrained(tmp_path / "lora")
    words = json.loads((tmp_path / "lora" / "adapter_config.json").read_text())
    words["base_model_name_or_path"] = "tiny/gpt2"
    (tmp_path / "lora" / "adapter_config.json").write_text(json.dumps(words))
    hub.add("tiny/lora", tmp_path / "lora")
    hub.add("tiny/gpt2", folder("gpt2"))
    model = tv.load("tiny/lora", device="cpu")
    with torch.inference_mode():
        ids = torch.tensor([[5, 6, 7]])
        theirs = tuned.merge_and_unload()(ids).logits
        assert (model.module(ids).logits - theirs).abs().max() <= 1e-5
    found = plan(HubId("tiny/lora"))
    assert found.base is not None and "tiny/gpt2 comes with it" in found.sentence
    again = tv.load("tiny/lora", device="cpu", base="tiny/gpt2")
    assert again.parameters == model.parameters


# ---- Broken transfers ---------------------------------------------------------------------------


def test_a_connection_that_breaks_is_gone_on_with_or_begins_anew(hub, big):
    hub.add("tiny/anew", big)
    hub.break_after = [300_000, 200_000]
    assert (fetch_plan(plan(BIG)) / WEIGHTS).read_bytes() == big[WEIGHTS]
    assert hub.weights_asked()[:3] == ["", "bytes=300000-", "bytes=500000-"]
    hub.break_after, hub.ranges = [300_000], False
    done: list[int] = []
    place, _ = download(plan(HubId("tiny/anew")), lambda at, total: done.append(at))
    assert (place / WEIGHTS).read_bytes() == big[WEIGHTS]
    assert done[-1] == sum(map(len, big.values()))


def test_a_stop_keeps_what_came_and_the_next_goes_on(hub, big):
    told: list[int] = []

    def stop(done: int, total: int) -> None:
        told.append(done)
        assert total == sum(map(len, big.values()))
        if done > 600_000:
            raise StopHere

    with pytest.raises(StopHere):
        download(plan(BIG), stop)
    assert cached(BIG) is None
    half = plan(BIG)
    assert 600_000 <= half.here < half.size and half.left == half.size - half.here
    assert (fetch_plan(half) / WEIGHTS).read_bytes() == big[WEIGHTS]
    start = int(re.fullmatch(r"bytes=(\d+)-", hub.weights_asked()[-1])[1])
    assert start > 500_000
    assert told == sorted(told)


FETCH = f"""
from transformer_viz.checkpoints.hub.door import local
print(local("{BIG.repo}", {{}})[0])  # as `load` begins
"""


@pytest.mark.process
def test_a_killed_process_is_gone_on_with(hub, big, tmp_path):
    """Kill a transfer of another process in the middle, then run it again."""
    words = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    big["config.json"] = b'{"layout": "transformer_viz"}'  # of another, a library is imported
    hub.add(BIG.repo, big)
    fetch: dict = {"args": [sys.executable, "-c", FETCH], "cwd": ROOT, "env": os.environ | words}
    hub.pace = 0.1
    run = subprocess.Popen(**fetch)
    blobs = tmp_path / "home" / "hub" / "models--tiny--big" / "blobs"
    half: list[int] = []
    while not half or half[-1] < len(big[WEIGHTS]) // 4:
        with suppress(FileNotFoundError):  # a small file that has just been placed
            half = [p.stat().st_size for p in blobs.glob("*.resumed.incomplete")] or half
        assert run.poll() is None
        time.sleep(0.01)
    run.kill()
    run.wait()
    hub.pace = 0.0
    out = subprocess.run(**fetch, capture_output=True, text=True, check=True)
    assert files_of(Path(out.stdout.strip())) == big
    start = int(re.fullmatch(r"bytes=(\d+)-", hub.weights_asked()[-1])[1])
    assert len(big[WEIGHTS]) // 4 <= start < len(big[WEIGHTS])
    assert "are still to come" in out.stderr


def test_content_that_was_changed_on_the_way_is_never_opened(hub, big):
    hub.spoil = lambda content: content[:-1] + b"?"
    with pytest.raises(HubError, match="came twice with other content than the Hub names"):
        tv.load(BIG.repo)
    assert cached(BIG) is None
    hub.spoil = None
    found = plan(BIG)
    assert hashlib.sha256((fetch_plan(found) / WEIGHTS).read_bytes()).hexdigest() in {
        file.blob for file in found.files
    }


def test_a_disk_without_room_is_said_before(hub, big, monkeypatch):
    monkeypatch.setattr(planning, "free_bytes", lambda: 2**26 + 2**19)
    with pytest.raises(CheckpointError, match=r"needs 1 MB more on the disk, and 68 MB are free"):
        tv.load(BIG.repo)
    assert hub.weights_asked() == []


def test_a_cache_serves_where_the_hub_does_not(hub, folder, monkeypatch):
    from huggingface_hub import constants

    hub.add("tiny/gpt2", folder("gpt2"))
    tv.load("tiny/gpt2", device="cpu")
    faults = ((hub, "status", 500), (hub, "garbage", True), (constants, "HF_HUB_OFFLINE", True))
    for owner, name, value in faults:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            assert tv.load("tiny/gpt2", device="cpu").name == "tiny/gpt2", name


def test_the_library_at_home_does_not_stop_a_transfer(hub, folder):
    """While a model of the library is opened, the client is kept offline: we wait for that."""
    from transformer_viz.checkpoints.hugging_face.library import library

    hub.add("tiny/gpt2", folder("gpt2"))
    inside, leave = threading.Event(), threading.Event()

    def open_another() -> None:
        with library():
            inside.set()
            leave.wait(20)

    other = threading.Thread(target=open_another)
    other.start()
    inside.wait(20)
    threading.Timer(0.3, leave.set).start()
    assert tv.load("tiny/gpt2", device="cpu").name == "tiny/gpt2"
    other.join()
