"""What stands around the weights is taken off and told; parts of a checkpoint are one again."""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
from collections import Counter, OrderedDict
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from transformer_viz.checkpoints import CheckpointError, load
from transformer_viz.checkpoints.files.reading import (
    CheckpointMissing,
    Weights,
    digest,
    file_size,
    read_config,
    read_weights,
    refuse_non_finite,
    shapes_of,
)
from transformer_viz.checkpoints.files.unwrapping import unwrap

from .test_loader import BOTH, ramp_model

TENSORS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.bias": torch.arange(5.0)}


def same(found: dict[str, Tensor], wanted: dict[str, Tensor] = TENSORS) -> bool:
    return found.keys() == wanted.keys() and all(torch.equal(found[n], wanted[n]) for n in wanted)


def read(folder: Path, content: Any, **words: Any) -> Weights:
    """Save the content with torch.save and read it."""
    torch.save(content, folder / "w.pt")
    return read_weights(folder / "w.pt", **words)


def prefixed(*prefixes: str) -> dict[str, Tensor]:
    return {"".join(prefixes) + name: tensor for name, tensor in TENSORS.items()}


AVERAGED = {name: tensor + 1 for name, tensor in TENSORS.items()}
HYPER = {"pytorch-lightning_version": "2.5", "hyper_parameters": {"heads": 3}}


def field(name: str, tensors: dict[str, Tensor] = TENSORS) -> dict[str, Tensor]:
    return {f"{name}.{inner}": tensor for inner, tensor in tensors.items()}


def lightning(*parts: dict[str, Tensor]) -> dict[str, Any]:
    return {"state_dict": {name: t for part in parts for name, t in part.items()}} | HYPER


ONE, STATE = torch.ones(3), "'state_dict'"
#: By case: a file's content, and what is said of it, a part of each note.
WRAPPED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "bare": (TENSORS, ()),
    "ordered": (OrderedDict(TENSORS), ()),
    "model": ({"model": TENSORS, "epoch": 3}, ("under 'model'",)),
    "model_state_dict": ({"model_state_dict": TENSORS}, ("under 'model_state_dict'",)),
    "net": ({"net": prefixed("module.")}, ("under 'net'", "'module.'")),
    "twice": ({"model": {"state_dict": TENSORS}}, ("under 'model'", "under 'state_dict'")),
    "words beside": ({"model": {"heads": 3}, "state_dict": TENSORS}, ("under 'state_dict'",)),
    "only an average": ({"ema": TENSORS, "model": None}, ("under 'ema'",)),
    "parallel": (prefixed("module."), ("'module.'",)),
    "compiled": (prefixed("_orig_mod."), ("'_orig_mod.'",)),
    "both": (prefixed("_orig_mod.", "module."), ("'_orig_mod.'", "'module.'")),
    "both the other way": (prefixed("module.", "_orig_mod."), ("'module.'", "'_orig_mod.'")),
    "Lightning": (lightning(prefixed("model.")), (STATE, "'model.'")),
    "compiled in Lightning": (lightning(prefixed("net.", "_orig_mod.")),
                              (STATE, "'net.'", "'_orig_mod.'")),
    "a loss": (lightning(TENSORS, {"criterion.weight": ONE}), (STATE, "criterion (1)")),
    "two losses": (lightning(field("model"), {"loss_fn.weight": ONE, "pos_weight": ONE}),
                   (STATE, "loss_fn (1), pos_weight (1)", "'model.'")),
    "metrics": (lightning(field("net"), {"val_acc.tp": ONE, "train_confmat.confmat": ONE}),
                (STATE, "val_acc (1), train_confmat (1)", "'net.'")),
    "a teacher": (lightning(field("model"), field("teacher", AVERAGED)),
                  (STATE, "teacher (2)", "'model.'")),
    "sharded": (
        lightning({"a._fsdp_wrapped_module._checkpoint_wrapped_module.weight": TENSORS["a.weight"],
                   "_orig_mod.b.bias": TENSORS["b.bias"]}),
        (STATE, "'_orig_mod.'", "'_checkpoint_wrapped_module.'", "'_fsdp_wrapped_module.'")),
    "parallel inside": (lightning(field("model.module")), (STATE, "'model.'", "'module.'")),
    "counted": (lightning({"n_averaged": torch.tensor(2)}, field("module")),
                (STATE, "n_averaged", "'module.")),
}  # fmt: skip
#: The same with a running average beside the weights.
WITH_AVERAGE: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a field": (lightning(field("model"), field("ema", AVERAGED)), (STATE, "'ema.'", "'model.'")),
    "with counters": (
        lightning(field("model"), field("ema.module", AVERAGED), {"ema.decay": torch.tensor(0.9)}),
        (STATE, "'ema.'", "'model.'")),
    "without dots": (
        lightning(field("model"), {"model_ema.num_updates": torch.tensor(3)},
                  {f"model_ema.{name.replace('.', '')}": w for name, w in AVERAGED.items()}),
        (STATE, "'model_ema.'", "'model.'")),
    "beside bare weights": (lightning(TENSORS, field("ema", AVERAGED)), (STATE, "'ema.'")),
    "a container": ({"state_dict": TENSORS, "state_dict_ema": AVERAGED},
                    (STATE, "running average")),
}  # fmt: skip


def test_what_stands_around_the_weights_is_taken_off_and_told(tmp_path: Path) -> None:
    """Of several models the trained one is read, and the others are named."""
    for case, (content, notes) in (WRAPPED | WITH_AVERAGE).items():
        weights = read(tmp_path, content)
        assert same(weights.tensors), (case, weights.tensors.keys())
        assert len(weights.unwrapped) == len(notes), (case, weights.unwrapped)
        for part, said in zip(notes, weights.unwrapped, strict=True):
            assert part in said, case
        if case in WITH_AVERAGE:
            assert same(read_weights(tmp_path / "w.pt", averaged=True).tensors, AVERAGED), case
    with pytest.raises(CheckpointError, match="holds no running average"):
        read(tmp_path, TENSORS, averaged=True)
    content = TENSORS | {"criterion.empty_weight": torch.ones(2), "c.module.weight": torch.ones(1)}
    # A library that knows its model gets the losses too.
    assert same(read(tmp_path, content, other_networks=True).tensors, content)
    for none in ([TENSORS], {"a": 1}):
        assert unwrap(none) == ({}, {}, ())


def test_a_prefix_stays_where_one_name_lacks_it_or_where_layouts_need_it(tmp_path: Path) -> None:
    mixed = prefixed("module.") | {"other": torch.ones(2)}
    for content in (mixed, prefixed("model."), prefixed("transformer."), {"state_dict": mixed}):
        assert same(read(tmp_path, content).tensors, content.get("state_dict", content))


def test_what_else_the_file_holds_is_kept(tmp_path: Path) -> None:
    extra = {
        "args": argparse.Namespace(heads=3, path=pathlib.PosixPath("a/b")),
        "vocab": Counter({"a": 2}),
        "loss": np.float64(1.5),
        "curve": np.arange(3.0),
        "optimizer": {"state": [{"step": torch.tensor(3)}], "betas": (0.9, 0.98)},
        "ordered": OrderedDict(a=1),
        "shape": torch.Size([2, 3]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "seen": {1, 2},
        "merges": {("a", "b"): 0},
        "raw": b"\x00\xff",
    }
    found = read(tmp_path, {"model": TENSORS} | extra)
    assert same(found.tensors)
    assert found.extra.keys() == extra.keys()
    for name in ("args", "vocab", "ordered", "shape", "dtype", "device", "seen", "merges", "raw"):
        assert found.extra[name] == extra[name]
    assert found.extra["loss"] == 1.5
    assert np.array_equal(found.extra["curve"], np.arange(3.0))
    assert found.extra["optimizer"]["state"][0]["step"] == 3


def test_old_files_parameters_and_tied_weights_open(tmp_path: Path) -> None:
    torch.save({"model": TENSORS}, tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    assert same(read_weights(tmp_path / "w.pt").tensors)
    whole = torch.arange(12.0)
    content = {"a": nn.Parameter(whole), "b": whole, "c": whole[2:8].reshape(2, 3).T}
    assert same(read(tmp_path, content).tensors, content)


def opened(folder: Path, content: Any, **words: Any) -> Any:
    """Save the content with torch.save and load it as a model."""
    torch.save(content, folder / "w.pt")
    return load(folder / "w.pt", device="cpu", **BOTH, **words)


def test_averages_are_read_and_said_to_be_averages(tmp_path: Path) -> None:
    trained = ramp_model().state_dict()
    for key in ("ema_model", "model_ema", "ema.shadow", "ema_model.module", "averaged_model"):
        named = field(key, trained)
        for content in (named, {"state_dict": named}):
            model = opened(tmp_path, content | {"n_averaged": torch.tensor(3)})
            first = key.partition(".")[0]
            told = f"running average (EMA) of the weights stood under '{first}.'; the file holds"
            assert any(told in note for note in model.notes), (key, model.notes)
            found = model.module.state_dict()
            assert all(torch.equal(found[name], trained[name]) for name in trained), key
    notes = opened(tmp_path, {"ema": {"shadow": trained, "decay": 0.9}}).notes
    assert any("running average" in note and "'shadow'" in note for note in notes), notes
    both = {"model": trained, "ema": {name: tensor / 2 for name, tensor in trained.items()}}
    for words, key in (({}, "model"), ({"weights": "ema"}, "ema")):
        found = opened(tmp_path, both, **words).module.state_dict()["output.weight"]
        assert torch.equal(found, both[key]["output.weight"]), key
    with pytest.raises(CheckpointError, match="weights are 'trained' or 'ema'"):
        opened(tmp_path, both, weights="best")


def in_parts(folder: Path, safe: bool = True) -> Path:
    """The tiny tensors in two parts with an index."""
    table = {}
    for number, (name, tensor) in enumerate(prefixed("module.").items()):
        part = f"part-{number}.{'safetensors' if safe else 'bin'}"
        save = safetensors.torch.save_file if safe else torch.save
        save({name: tensor}, folder / part)
        table[name] = part
    index = folder / ("model.safetensors.index.json" if safe else "pytorch_model.bin.index.json")
    index.write_text(json.dumps({"metadata": {"total_size": 44}, "weight_map": table}))
    return index


def test_parts_are_one_checkpoint_again(tmp_path: Path) -> None:
    for safe in (True, False):
        folder = tmp_path / str(safe)
        folder.mkdir()
        index = in_parts(folder, safe)
        weights = read_weights(index)
        assert same(weights.tensors), safe
        assert weights.unwrapped == ("the prefix 'module.' was taken off every name",), safe
        parts = sorted(path for path in folder.iterdir() if path != index)
        assert file_size(index) == sum(path.stat().st_size for path in parts), safe
        hashes = [hashlib.sha256(path.read_bytes()).digest() for path in parts]
        whole = index.read_bytes() + b"".join(hashes)
        assert digest(index) == hashlib.sha256(whole).hexdigest(), safe
    with pytest.raises(CheckpointMissing, match=r"no index none\.index\.json"):
        read_weights(tmp_path / "none.index.json")


def test_parts_may_be_links_in_a_snapshot_of_the_hugging_face_cache(tmp_path: Path) -> None:
    folder = tmp_path / "models--x" / "snapshots" / "f00"
    blobs = tmp_path / "models--x" / "blobs"
    folder.mkdir(parents=True)
    blobs.mkdir()
    index = in_parts(folder)
    for number, part in enumerate(sorted(folder.glob("part-*"))):
        part.rename(blobs / str(number))
        part.symlink_to(blobs / str(number))
    assert same(read_weights(index).tensors)


def test_the_content_decides_and_not_the_name(tmp_path: Path) -> None:
    safetensors.torch.save_file(TENSORS, tmp_path / "w.bin", {"format": "pt"})
    shapes = {"a.weight": ("F32", [2, 3]), "b.bias": ("F32", [5])}
    assert shapes_of(tmp_path / "w.bin") == shapes  # from the header alone
    torch.save(TENSORS, tmp_path / "w.safetensors")
    assert same(read_weights(tmp_path / "w.bin").tensors)
    with pytest.raises(CheckpointError, match=r"let its name end in \.pt"):
        read_weights(tmp_path / "w.safetensors")
    torch.save(TENSORS, tmp_path / "checkpoint-3.pth.tar")
    assert same(read_weights(tmp_path / "checkpoint-3.pth.tar").tensors)


def test_files_larger_than_the_limit_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(TENSORS, tmp_path / "w.pt")
    monkeypatch.setattr("transformer_viz.checkpoints.files.reading.MAX_FILE", 1000)
    with pytest.raises(CheckpointError, match="a weights file has between 1 and 1,000"):
        read_weights(tmp_path / "w.pt")
    with pytest.raises(CheckpointMissing, match=r"no weights file v\.pt"):
        read_weights(tmp_path / "v.pt")


def test_bad_numbers_are_counted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer_viz.checkpoints.files.finite.PIECE", 4)
    tensor = torch.ones(3, 7, dtype=torch.float16)
    refuse_non_finite("a", tensor, Path("w.pt"))
    refuse_non_finite("a", torch.ones(3, dtype=torch.int64), Path("w.pt"))
    tensor[0, 5] = tensor[2, 6] = torch.inf
    tensor[1, 1] = torch.nan
    with pytest.raises(CheckpointError, match=r"^a in w\.pt has 3 values that are NaN or infinite"):
        refuse_non_finite("a", tensor.T, Path("w.pt"))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn):
        for value in (0.0, torch.nan, torch.inf, -torch.inf):
            made = torch.zeros(2, 3).index_fill_(1, torch.tensor([1]), value).to(dtype)
            bad = int((~made.float().isfinite()).sum())
            with pytest.raises(CheckpointError, match=f"has {bad} ") if bad else nullcontext():
                refuse_non_finite("b", made, Path("w.pt"))


def test_weights_that_are_not_finite_open_when_asked(tmp_path: Path) -> None:
    state = ramp_model().state_dict()
    state["output.weight"][2, 3] = torch.nan
    model = opened(tmp_path, state, allow_nonfinite=True)
    assert model.module.state_dict()["output.weight"][2, 3].isnan()
    assert any("NaN" in note for note in model.notes)


def test_a_config_is_read_as_it_is_written(tmp_path: Path) -> None:
    words = {"a": [1, 2.5, -3, True, None, "ü"], "b": {"c": {"d": -(2**62)}}}
    (tmp_path / "config.json").write_text("\ufeff" + json.dumps(words), encoding="utf-8")
    assert read_config(tmp_path / "config.json") == words
    assert read_config(tmp_path / "none.json") == {}
