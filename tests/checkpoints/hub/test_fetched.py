"""Models of a Hub of this machine, fetched by the real client and opened: what came is what is."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.checkpoints.hugging_face import as_torch
from transformer_viz.checkpoints.files.errors import CheckpointError, CheckpointMissing
from transformer_viz.checkpoints.hub import plan as planning
from transformer_viz.checkpoints.hub.ids import HubId
from transformer_viz.checkpoints.hub.plan import download, plan
from transformer_viz.checkpoints.hub.refusals import HubError
from transformer_viz.checkpoints.hub.snapshots import cached


class StopHere(Exception):
    """A visitor stops."""


StopHere.__module__ = "transformer_viz.tests"


def big(folder: Path, size: int = 2**20) -> dict[str, bytes]:
    """The files of a model with weights of so many bytes, which nobody opens."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    draw = np.random.default_rng(5)
    return files | {"model.safetensors": draw.integers(0, 256, size, np.uint8).tobytes()}


@pytest.mark.parametrize("name", ["gpt2", "bert", "marian"])
def test_a_model_by_its_id_is_the_model_of_the_folder(hub, folder, name):
    hub.add(f"tiny/{name}", folder(name))
    mine, theirs = tv.load(folder(name), device="cpu"), tv.load(f"tiny/{name}", device="cpu")
    assert theirs.name == f"tiny/{name}" and theirs.hash == mine.hash
    a, b = tv.trace(mine, "the cat sat"), tv.trace(theirs, "the cat sat")
    assert a.source.labels == b.source.labels
    for block in a.maps:
        assert np.array_equal(a.attention(block, 0), b.attention(block, 0))


def test_only_what_is_read_comes(hub, folder):
    beside = dict.fromkeys(("README.md", "pytorch_model.bin", "tf_model.h5", "logs/a.json"), b"x")
    files = {p.name: p.read_bytes() for p in folder("bert").iterdir()}
    hub.add("tiny/bert", files | beside | {"training_args.bin": b"x", "trainer_state.json": b"{}"})
    place = plan(HubId("tiny/bert"))
    came = {file.name for file in place.files}
    assert came == set(files) and place.count == len(files)
    assert place.size == sum(map(len, files.values()))  # the witness: the files themselves
    folder_here, _ = download(place, lambda done, total: None)
    assert {p.name for p in folder_here.iterdir()} == set(files)


def test_a_second_time_one_question_and_of_a_commit_none(hub, folder):
    repo = hub.add("tiny/gpt2", folder("gpt2"))
    tv.load("tiny/gpt2", device="cpu")
    hub.asked.clear()
    tv.load("tiny/gpt2", device="cpu")
    assert [path for _, path, _ in hub.asked] == ["/api/models/tiny/gpt2"]
    hub.asked.clear()
    tv.load("tiny/gpt2", device="cpu", revision=repo.refs["main"])
    assert hub.asked == []


def test_revisions_are_branches_tags_and_commits(hub, folder):
    first = {p.name: p.read_bytes() for p in folder("gpt2").iterdir()}
    repo = hub.add("tiny/two", first)
    other = {p.name: p.read_bytes() for p in folder("bert").iterdir()}
    commit = repo.commit(other, "v2", "refs/pr/1")
    assert tv.load("tiny/two", device="cpu").kind == "decoder-only"
    for revision in ("v2", "refs/pr/1", commit):
        assert tv.load("tiny/two", device="cpu", revision=revision).kind == "encoder-only"
        assert tv.load(f"tiny/two@{revision}", device="cpu").kind == "encoder-only"
    with pytest.raises(CheckpointError, match="and revision='v2' another; give one of them"):
        tv.load("tiny/two@main", revision="v2")


def test_a_branch_that_moved_is_fetched_anew(hub, folder):
    repo = hub.add("tiny/two", folder("gpt2"))
    tv.load("tiny/two", device="cpu")
    repo.commit({p.name: p.read_bytes() for p in folder("bert").iterdir()})
    assert tv.load("tiny/two", device="cpu").kind == "encoder-only"


def test_a_name_in_the_box_and_a_path_come_first(hub, folder, tmp_path, monkeypatch):
    hub.add("runs/mine", folder("bert"))
    monkeypatch.chdir(tmp_path)
    os.makedirs("runs")
    os.symlink(folder("gpt2"), "runs/mine")
    assert tv.load("runs/mine", device="cpu").kind == "decoder-only"
    assert hub.asked == []
    with pytest.raises(CheckpointError, match="is for a model of the Hub"):
        tv.load("runs/mine", revision="main")
    with pytest.raises(CheckpointMissing, match="no model, folder or file"):
        tv.load(Path("not/here"))  # a path is never an id
    assert hub.asked == []


def test_weights_in_parts(hub, folder, tmp_path):
    from transformers import GPT2LMHeadModel

    whole = GPT2LMHeadModel.from_pretrained(folder("gpt2"))
    whole.save_pretrained(tmp_path / "parts", max_shard_size="30KB")
    count = len(list((tmp_path / "parts").glob("model-*.safetensors")))
    assert count > 1
    hub.add("tiny/parts", tmp_path / "parts")
    assert len(hub.weights_asked()) == 0
    model = tv.load("tiny/parts", device="cpu")
    assert model.parameters == tv.load(folder("gpt2"), device="cpu").parameters
    assert len(hub.weights_asked()) == count


def test_pickles_only_where_they_are_allowed(hub, folder, tmp_path):
    import shutil

    shutil.copytree(folder("gpt2"), tmp_path / "old")
    hub.add("tiny/old", as_torch(tmp_path / "old"))
    with pytest.raises(CheckpointError, match="only pickled weights"):
        tv.load("tiny/old")
    assert hub.weights_asked() == []
    model = tv.load("tiny/old", device="cpu", allow_pickle=True)
    assert model.parameters == tv.load(folder("gpt2"), device="cpu").parameters
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


def test_a_connection_that_breaks_is_gone_on_with(hub, folder):
    files = big(folder("gpt2"))
    hub.add("tiny/big", files)
    hub.break_after = [300_000, 200_000]
    place, _ = download(plan(HubId("tiny/big")), lambda done, total: None)
    assert (place / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert hub.weights_asked()[:3] == ["", "bytes=300000-", "bytes=500000-"]


def test_a_stop_keeps_what_came_and_the_next_goes_on(hub, folder):
    files = big(folder("gpt2"))
    hub.add("tiny/big", files)
    told: list[int] = []

    def stop(done: int, total: int) -> None:
        told.append(done)
        assert total == sum(map(len, files.values()))
        if done > 600_000:
            raise StopHere

    with pytest.raises(StopHere):
        download(plan(HubId("tiny/big")), stop)
    assert cached(HubId("tiny/big")) is None
    half = plan(HubId("tiny/big"))
    assert 600_000 <= half.here < half.size and half.left == half.size - half.here
    place, _ = download(half, lambda done, total: None)
    assert (place / "model.safetensors").read_bytes() == files["model.safetensors"]
    start = int(re.fullmatch(r"bytes=(\d+)-", hub.weights_asked()[-1])[1])
    assert start > 500_000
    assert told == sorted(told)


def test_a_server_without_ranges_begins_anew(hub, folder):
    files = big(folder("gpt2"))
    hub.add("tiny/big", files)
    hub.break_after, hub.ranges = [300_000], False
    done: list[int] = []
    place, _ = download(plan(HubId("tiny/big")), lambda at, total: done.append(at))
    assert (place / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert done[-1] == sum(map(len, files.values()))


def test_content_that_was_changed_on_the_way_is_never_opened(hub, folder):
    hub.add("tiny/big", big(folder("gpt2")))
    hub.spoil = lambda content: content[:-1] + b"?"
    with pytest.raises(HubError, match="came twice with other content than the Hub names"):
        tv.load("tiny/big")
    assert cached(HubId("tiny/big")) is None
    hub.spoil = None
    found = plan(HubId("tiny/big"))
    place, _ = download(found, lambda done, total: None)
    assert hashlib.sha256((place / "model.safetensors").read_bytes()).hexdigest() in {
        file.blob for file in found.files
    }


def test_a_cache_serves_where_the_hub_does_not(hub, folder, monkeypatch):
    from huggingface_hub import constants

    hub.add("tiny/gpt2", folder("gpt2"))
    tv.load("tiny/gpt2", device="cpu")
    for fault in ({"status": 500}, {"garbage": True}):
        for name, value in fault.items():
            monkeypatch.setattr(hub, name, value)
        assert tv.load("tiny/gpt2", device="cpu").name == "tiny/gpt2"
        monkeypatch.setattr(hub, "status", 0)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert tv.load("tiny/gpt2", device="cpu").name == "tiny/gpt2"


def test_a_disk_without_room_is_said_before(hub, folder, monkeypatch):
    files = big(folder("gpt2"))
    hub.add("tiny/big", files)
    free = 2**26 + 2**19
    monkeypatch.setattr(planning, "free_bytes", lambda: free)
    with pytest.raises(CheckpointError, match=r"needs 1 MB more on the disk, and 68 MB are free"):
        tv.load("tiny/big")
    assert hub.weights_asked() == []


def test_the_size_is_said_before_and_the_progress_after(hub, folder, capsys):
    hub.add("tiny/gpt2", folder("gpt2"))
    tv.load("tiny/gpt2", device="cpu")
    size = sum(path.stat().st_size for path in folder("gpt2").iterdir())
    said = capsys.readouterr().err
    assert said.startswith(f"tiny/gpt2: {size / 1000:.0f} kB in ")
    assert "are free on the disk" in said
    tv.load("tiny/gpt2", device="cpu")
    assert capsys.readouterr().err == ""


def test_the_library_at_home_does_not_stop_a_transfer(hub, folder):
    """While a model of the library is opened, the client is kept offline: we wait for that."""
    import threading

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
