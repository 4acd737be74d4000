"""Wrong ids and broken answers give one sentence each: docs/tables/hub-answers.csv."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest

import transformer_viz as tv
from tests.support.cases import each
from tests.support.hub_fixtures import hub_at
from tests.support.hub_server import Hub
from tests.support.measured_tables import read_table
from transformer_viz.checkpoints.files.errors import CheckpointError, CheckpointMissing

HERE = "transformer_viz.checkpoints.hub"
CLIENT = "huggingface_hub.constants"
#: Rows of the table that test_fetched.py holds.
ELSEWHERE = {
    "too little room",
    "the process is killed in the middle",
    "the connection breaks twice",
}
Files = dict[str, bytes]
Prepare = Callable[[Hub, Files], Any]


@dataclass(frozen=True)
class Case:
    """How the Hub and the client are, for a row of the table; it says what is typed and read."""

    hub: Prepare = lambda hub, files: hub.add("tiny/model", files)
    missing: bool = False  # there is nothing, rather than something that is refused
    words: tuple[tuple[str, Any], ...] = ()
    patches: tuple[tuple[str, Any], ...] = ()


def put(**changes: bytes | None) -> Prepare:
    """Give the model ``tiny/model`` with some files changed, or taken out."""
    named = {name.replace("__", "."): content for name, content in changes.items()}

    def add(hub: Hub, files: Files) -> None:
        whole = {**files, **named}
        hub.add("tiny/model", {name: b for name, b in whole.items() if b is not None})

    return add


def only(*names: str) -> Prepare:
    """Give the model's config, and empty weights of these names."""
    return lambda hub, files: hub.add(
        "tiny/model", {"config.json": files["config.json"]} | dict.fromkeys(names, b"x")
    )


def faulty(**faults: Any) -> Prepare:
    def add(hub: Hub, files: Files) -> None:
        hub.add("tiny/model", files)
        for name, value in faults.items():
            setattr(hub, name, value)

    return add


def nothing(hub: Hub, files: Files) -> None:
    """Leave the Hub empty."""


def disk(number: int) -> Case:
    """A disk that refuses what is written."""
    return Case(
        patches=((f"{HERE}.transfer.Partial.append", Mock(side_effect=OSError(number, "no"))),)
    )


def config(text: bytes) -> Case:
    return Case(put(config__json=text))


CASES = {
    "letters that no id has": Case(nothing, missing=True),
    "one word that is not in the box": Case(nothing, missing=True),
    "no such id": Case(nothing, missing=True),
    "private, and no token": Case(
        lambda hub, files: hub.add("tiny/model", files, token="secret"), missing=True),
    "no such revision": Case(missing=True),
    "gated": Case(lambda hub, files: hub.add("tiny/model", files, gated=True)),
    "a data set": Case(lambda hub, files: hub.datasets.add("tiny/rows"), missing=True),
    "code of its own": config(b'{"model_type": "mine", "auto_map": {"AutoModel": "m.Mine"}}'),
    "an architecture without attention": config(b'{"model_type": "mamba"}'),
    "an architecture that nobody knows": config(b'{"model_type": "bert9"}'),
    "weights of a few bits that cannot be computed with": config(
        b'{"model_type": "gpt2", "quantization_config": {"quant_method": "gptq"}}'),
    "a config that is none": config(b"<html>"),
    "no weights": Case(put(model__safetensors=None), missing=True),
    "only pickles": Case(only("pytorch_model.bin")),
    "only GGUF": Case(only("model-q4.gguf"), missing=True),
    "only ONNX": Case(only("onnx/model.onnx"), missing=True),
    "only TensorFlow": Case(only("tf_model.h5"), missing=True),
    "only Flax": Case(only("flax_model.msgpack"), missing=True),
    "weights in folders": Case(only("a/model.safetensors", "b/model.safetensors"), missing=True),
    "a part of the weights is missing": Case(
        only("model.safetensors.index.json", "model-00001-of-00003.safetensors",
             "model-00002-of-00003.safetensors")),
    "a pipeline of diffusers": Case(put(model_index__json=b"{}")),
    "an adapter without its model": Case(
        put(config__json=None, model__safetensors=None, adapter_config__json=b"{}",
            adapter_model__safetensors=b"x")),
    "the Hub is out of order": Case(faulty(status=500)),
    "too many requests": Case(faulty(status=429)),
    "a hotel's sign-in page answers": Case(faulty(garbage=True)),
    "no answer in time": Case(
        faulty(delay=1.0), patches=((f"{HERE}.repository.PATIENCE", 0.4),)),
    "the connection breaks at every attempt": Case(faulty(break_after=[0] * 9)),
    "bytes are changed on the way": Case(faulty(spoil=lambda content: b"?" + content[1:])),
    "a file that is shorter than the Hub names": Case(faulty(spoil=lambda content: content[:99])),
    "no such word": Case(words=(("revision", "../x"),)),
    "no network": Case(patches=((f"{CLIENT}.ENDPOINT", "http://127.0.0.1:9"),)),
    "kept offline, and not in the cache": Case(patches=((f"{CLIENT}.HF_HUB_OFFLINE", True),)),
    "the disk becomes full meanwhile": disk(errno.ENOSPC),
    "a cache that cannot be written": disk(errno.EROFS),
}  # fmt: skip


@pytest.fixture
def files(folder) -> Files:
    return {path.name: path.read_bytes() for path in folder("gpt2").iterdir()}


def rows() -> dict[str, tuple[list[str], str]]:
    """Return what is typed and what is read, by the first cell of each row of the table."""
    return {
        row["what is wrong"]: (re.findall("`([^`=]+)`", row["typed"]), row["read"])
        for row in read_table("hub-answers")
    }


@pytest.mark.slow
def test_what_is_read(files, tmp_path_factory, monkeypatch):
    """Each row of the table is a case; three dots are more of the sentence."""
    page = rows()
    assert set(CASES) | ELSEWHERE == set(page)

    def check(about: str) -> None:
        case, (names, read) = CASES[about], page[about]
        assert names
        for typed in names:
            place = tmp_path_factory.mktemp("case")
            with monkeypatch.context() as patch, hub_at(place, patch) as hub:
                case.hub(hub, files)
                for name, value in case.patches:
                    patch.setattr(name, value)
                with pytest.raises(CheckpointError) as caught:
                    tv.load(typed, device="cpu", **dict(case.words))
            said = str(caught.value)
            parts = read.replace(repr(names[0]), repr(typed)).split("…")
            assert re.fullmatch(".*".join(re.escape(part.strip()) for part in parts), said), said
            assert isinstance(caught.value, CheckpointMissing) == case.missing
            assert "\n" not in said and "127.0.0.1" not in said

    each(((about, about) for about in CASES), check)


def test_a_private_model_with_its_token(hub, files, monkeypatch):
    hub.add("tiny/model", files, token="secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert tv.load("tiny/model", device="cpu").name == "tiny/model"  # and no token to strangers
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(CheckpointError, match="check the spelling"):
        tv.load("tiny/model@v2")
