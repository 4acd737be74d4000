"""Checkpoints that are unsafe, damaged, or of another model are refused with the reason."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from transformer_viz.checkpoints import CheckpointError, load
from transformer_viz.checkpoints.reading import CheckpointMissing, read_weights
from transformer_viz.model import Transformer

from .test_checkpoints import BOTH, ramp_model


def altered(module: Transformer, **changes) -> dict:
    """The module's weights with some replaced, added, or (None) left out; __ in names is a dot."""
    state = dict(module.state_dict()) | {k.replace("__", "."): v for k, v in changes.items()}
    return {name: value for name, value in state.items() if value is not None}


BAD_WEIGHTS = {
    "missing": ({"decoder__norm__bias": None}, r"lacks the weight decoder\.norm\.bias"),
    "renamed": (
        {"decoder__norm__bias": None, "decoder__norm__biass": torch.zeros(12)},
        r"lacks .*decoder\.norm\.bias \(the nearest name is decoder\.norm\.biass\)",
    ),
    "unknown": ({"extra__weight": torch.zeros(3)}, r"weight extra\.weight that this model does"),
    "shape": ({"decoder__norm__bias": torch.zeros(13)}, r"is \[13\] in w\.pt, .*makes it \[12\]"),
    "nan": (
        {"decoder__norm__bias": torch.full((12,), torch.nan)},
        r"decoder\.norm\.bias in w\.pt has 12 values that are NaN",
    ),
    "infinite": ({"decoder__norm__bias": torch.full((12,), -torch.inf)}, "NaN or infinite"),
    "overgrown": (
        {"decoder__norm__bias": torch.zeros(1).expand(12)},
        r"decoder\.norm\.bias in w\.pt claims 48 bytes and has 4",
    ),
    "sparse": ({"decoder__norm__bias": torch.zeros(12).to_sparse()}, "only plain tensors"),
    "empty": ({"decoder__norm__bias": torch.zeros(12, device="meta")}, "only plain tensors"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_weights_that_do_not_fit_are_named(case, tmp_path):
    changes, message = BAD_WEIGHTS[case]
    torch.save(altered(ramp_model(), **changes), tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path / "w.pt", device="cpu", **BOTH)


def test_a_tie_that_the_file_does_not_hold_is_refused(tmp_path):
    torch.save(ramp_model().state_dict(), tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match="holds two different matrices; override tied="):
        load(tmp_path / "w.pt", device="cpu", **BOTH, tied="all")


BAD_WORDS = {
    "unknown word": ({"hedas": 3}, "Unknown configuration word 'hedas'"),
    "kind of value": ({"heads": "3"}, "heads needs a whole number from 0; got '3'"),
    "truth": ({"gated": 1}, "gated needs true or false; got 1"),
    "negative": ({"d_ff": -1}, "d_ff needs a whole number from 0"),
    "choice": ({"norm": "sideways"}, "norm='sideways' is not supported"),
    "division": ({"heads": 0}, "heads"),
    "does not divide": ({"heads": 5}, "cannot be split"),
    "other size": ({"d_model": 24}, r"is \[17, 12\] in w\.pt, but the config makes it \[17, 24\]"),
    "huge table": ({"max_positions": 10**12}, "a position table of 12,000,000,000,000 numbers"),
    "endless matrix": ({"d_ff": 10**13}, "asks for more memory than there is"),
    "endless layers": ({"decoder_layers": 10**12}, "asks for 1000000000002 layers, but w.pt holds"),
}


@pytest.mark.parametrize("case", BAD_WORDS)
def test_words_that_do_not_fit_are_named(case, tmp_path):
    words, message = BAD_WORDS[case]
    torch.save(ramp_model().state_dict(), tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path / "w.pt", device="cpu", **(BOTH | words))
    (tmp_path / "config.json").write_text(json.dumps(BOTH | words))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path / "w.pt", device="cpu")


def test_words_that_nobody_gave_are_asked_for(tmp_path):
    torch.save(ramp_model().state_dict(), tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=r"lacks 'd_model'.*give the words as overrides"):
        load(tmp_path / "w.pt", device="cpu")


@pytest.mark.parametrize("content", ["{", "[1]", "\xff", "[" * 100_000])
def test_a_config_that_is_no_config_is_refused(content, tmp_path):
    torch.save(ramp_model().state_dict(), tmp_path / "w.pt")
    (tmp_path / "config.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load(tmp_path / "w.pt", device="cpu")


class Bomb:
    """What runs code when a pickle is opened carelessly."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('it ran')",))


def deflated(path: Path) -> None:
    """A file of torch.save squeezed: 1 MB of zeros in a few kB."""
    torch.save({"a": torch.zeros(2**18)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def torn(path: Path) -> None:
    """A tensor that lost half of its bytes."""
    torch.save({"a": torch.zeros(64)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content[:128] if name.endswith("data/0") else content)


def script(path: Path) -> None:
    """The outline of a TorchScript file: torch.jit itself is on its way out."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", b"")
        archive.writestr("net/constants.pkl", b"")
        archive.writestr("net/code/__torch__.py", "x = 1")


BAD_FILES = {
    "w.pt": {
        "module": (lambda p: torch.save(nn.Linear(2, 2), p), r"holds Python objects \(torch\.nn"),
        "old module": (
            lambda p: torch.save(nn.Linear(2, 2), p, _use_new_zipfile_serialization=False),
            r"holds Python objects .*torch\.save\(model\.state_dict\(\), 'weights\.pt'\)",
        ),
        "code": (lambda p: torch.save({"a": Bomb()}, p), r"holds Python objects \(builtins\.exec"),
        "script": (script, r"holds a program \(TorchScript"),
        "deflated": (deflated, r"unpack to more than its own size \(w/.* is compressed"),
        "torn": (torn, "cannot be read as weights: record size"),
        "list": (lambda p: torch.save([1], p), "holds no named tensors but list"),
        "numbers": (lambda p: torch.save({"a": 1}, p), "holds no named tensors but dict"),
        "strange": (
            lambda p: torch.save({"a.b": torch.zeros(2)}, p),
            r"layout of w\.pt is not known; its first weight is a\.b",
        ),
        "garbage": (lambda p: p.write_bytes(b"garbage" * 9), "it is no file of torch.save"),
        "half a zip": (lambda p: p.write_bytes(b"PK\x03\x04" * 9), "damaged zip file"),
        "empty": (lambda p: p.write_bytes(b""), "has 0 bytes"),
    },
    "w.safetensors": {
        "garbage": (lambda p: p.write_bytes(b"garbage" * 9), "not a sound safetensors file"),
        "empty": (lambda p: p.write_bytes(b""), "has 0 bytes"),
        "long header": (lambda p: p.write_bytes(b"\xff" * 9), "header too large"),
    },
    "w.txt": {"text": (lambda p: p.write_text("hello"), r"no weights file by its name; .*\.pt")},
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n in BAD_FILES for c in BAD_FILES[n]])
def test_files_that_are_no_safe_weights_are_refused_with_the_reason(name, case, tmp_path):
    write, message = BAD_FILES[name][case]
    write(tmp_path / name)
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path / name, device="cpu", **BOTH)


def test_files_larger_than_the_limit_are_not_opened(tmp_path, monkeypatch):
    torch.save(ramp_model().state_dict(), tmp_path / "w.pt")
    monkeypatch.setattr("transformer_viz.checkpoints.reading.MAX_FILE", 1000)
    with pytest.raises(CheckpointError, match="a weights file has between 1 and 1,000"):
        read_weights(tmp_path / "w.pt")
    with pytest.raises(CheckpointMissing, match=r"no weights file v\.pt"):
        read_weights(tmp_path / "v.pt")
