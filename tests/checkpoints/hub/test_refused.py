"""Wrong ids and broken answers: each is one sentence that says what to do. docs/hub.md shows it."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest

import transformer_viz as tv
from tests.support.each_case import each
from tests.support.hub_fixtures import hub_at
from tests.support.hub_server import Hub
from tests.support.paths import ROOT
from transformer_viz.checkpoints.files.errors import CheckpointError, CheckpointMissing
from transformer_viz.checkpoints.hub import transfer

PAGE = ROOT / "docs" / "hub.md"
Files = dict[str, bytes]


@dataclass(frozen=True)
class Case:
    """What was typed, what the Hub is like, and the sentence that was read."""

    about: str
    typed: str
    read: str
    hub: Callable[[Hub, Files], Any] = lambda hub, files: None
    words: tuple[tuple[str, Any], ...] = ()
    missing: bool = False  # there is nothing, rather than something that is refused


def put(**changes: bytes | None) -> Callable[[Hub, Files], Any]:
    """The model ``tiny/model`` with some files changed, or taken out."""
    named = {name.replace("__", "."): content for name, content in changes.items()}

    def add(hub: Hub, files: Files) -> None:
        whole = {**files, **named}
        hub.add("tiny/model", {name: b for name, b in whole.items() if b is not None})

    return add


def only(*names: str) -> Callable[[Hub, Files], Any]:
    """The model's config, and empty weights of these names."""
    return lambda hub, files: hub.add(
        "tiny/model", {"config.json": files["config.json"]} | dict.fromkeys(names, b"x")
    )


def config(text: bytes) -> Callable[[Hub, Files], Any]:
    return put(config__json=text)


def faulty(**faults: Any) -> Callable[[Hub, Files], Any]:
    def add(hub: Hub, files: Files) -> None:
        hub.add("tiny/model", files)
        for name, value in faults.items():
            setattr(hub, name, value)

    return add


BOX = "There is no model, folder or file {typed}."
FORM = (
    "Nor is it an id of the Hub, which reads owner/name or owner/name@revision, of letters, "
    "digits, '-', '_' and '.'."
)
NONE = (
    "There is no model {id} here, neither in the box nor as a path nor on the Hub; check the "
    "spelling. If it is private, give a token that may read it (hf auth login, or HF_TOKEN)."
)
ODD = [
    "../model",
    "tiny//model",
    "tiny/my model",
    "tiny/modèle",
    "tiny/model/more",
    "tiny/model@../x",
]
CASES = [
    *(Case("letters that no id has", typed, f"{BOX} … {FORM}", missing=True) for typed in ODD),
    Case(
        "one word that is not in the box", "gpt2",
        f"{BOX} … Models of the Hub are named owner/name or owner/name@revision.", missing=True,
    ),
    Case("no such id", "tiny/none", NONE, missing=True),
    Case(
        "private, and no token", "tiny/model", NONE,
        lambda hub, files: hub.add("tiny/model", files, token="secret"), missing=True,
    ),
    Case(
        "no such revision", "tiny/model@v9",
        "tiny/model has no revision 'v9' on the Hub; its page lists branches, tags and commits, "
        "and without one main is taken.", put(), missing=True,
    ),
    Case(
        "gated", "tiny/model",
        "tiny/model is gated: accept its conditions on its page of the Hub with your account, give "
        "a token of that account (hf auth login, or HF_TOKEN), and try again.",
        lambda hub, files: hub.add("tiny/model", files, gated=True),
    ),
    Case(
        "a data set", "tiny/rows",
        "tiny/rows is a data set on the Hub and no model; give the id of a model.",
        lambda hub, files: hub.datasets.add("tiny/rows"), missing=True,
    ),
    Case(
        "code of its own", "tiny/model",
        "This folder brings Python code of its own (auto_map in config.json), which is never run "
        "here. …", config(b'{"model_type": "mine", "auto_map": {"AutoModel": "m.Mine"}}'),
    ),
    Case(
        "an architecture without attention", "tiny/model",
        "A mamba model has no attention that could be shown: a state space passes one state from "
        "token to token. …", config(b'{"model_type": "mamba"}'),
    ),
    Case(
        "an architecture that nobody knows", "tiny/model",
        "transformers … does not know the model_type 'bert9'; …",
        config(b'{"model_type": "bert9"}'),
    ),
    Case(
        "weights of a few bits that cannot be computed with", "tiny/model",
        "The weights are quantised (gptq), which is not opened here; …",
        config(b'{"model_type": "gpt2", "quantization_config": {"quant_method": "gptq"}}'),
    ),
    Case("a config that is none", "tiny/model", "config.json is not JSON: …", config(b"<html>")),
    Case(
        "no weights", "tiny/model", "tiny/model has no weights; name a repository that holds "
        "model.safetensors.", put(model__safetensors=None), missing=True,
    ),
    Case(
        "only pickles", "tiny/model",
        "tiny/model has only pickled weights (pytorch_model.bin), which are not fetched unless "
        "they are allowed: in Python allow_pickle=True, on the command line "
        "--set allow_pickle=true. Better take a revision or a copy with safetensors.",
        only("pytorch_model.bin"),
    ),
    *(
        Case(
            f"only {form}", "tiny/model",
            f"tiny/model has weights only for {form}, which are not opened here; name the model "
            "that they were made from, with safetensors.", only(file), missing=True,
        )
        for form, file in (("GGUF", "model-q4.gguf"), ("ONNX", "onnx/model.onnx"),
                           ("TensorFlow", "tf_model.h5"), ("Flax", "flax_model.msgpack"))
    ),
    Case(
        "weights in folders", "tiny/model",
        "tiny/model has weights only in folders (a, b); fetch one of them yourself and open it as "
        "a path.", only("a/model.safetensors", "b/model.safetensors"), missing=True,
    ),
    Case(
        "a part of the weights is missing", "tiny/model",
        "tiny/model has several weights files and none of a name that settles it, or parts of them "
        "are missing (…); fetch the right one yourself and open its folder.",
        only("model.safetensors.index.json", "model-00001-of-00003.safetensors",
             "model-00002-of-00003.safetensors"),
    ),
    Case(
        "a pipeline of diffusers", "tiny/model",
        "tiny/model is a pipeline of the diffusers library, several models that make pictures, and "
        "is not opened; name one Transformer that reads or writes.",
        put(model_index__json=b"{}"),
    ),
    Case(
        "an adapter without its model", "tiny/model",
        "tiny/model is an adapter, and its config names no model of the Hub; name the one that it "
        "was trained on, an id or a folder: in Python base=..., on the command line --set base=...",
        put(config__json=None, model__safetensors=None, adapter_config__json=b"{}",
            adapter_model__safetensors=b"x"),
    ),
    Case(
        "the Hub is out of order", "tiny/model",
        "The Hub answers with error 500 for tiny/model; try again in some minutes. What came so "
        "far is kept.", faulty(status=500),
    ),
    Case(
        "too many requests", "tiny/model", "The Hub answers with error 429 for tiny/model; …",
        faulty(status=429),
    ),
    Case(
        "a hotel's sign-in page answers", "tiny/model",
        "What answered for tiny/model does not speak like the Hub; check HF_ENDPOINT and the "
        "proxy, and try again.", faulty(garbage=True),
    ),
    Case(
        "no answer in time", "tiny/model",
        "The Hub did not answer in time for tiny/model; try again, it goes on where it was.",
        faulty(delay=1.0),
    ),
    Case(
        "the connection breaks at every attempt", "tiny/model",
        "The connection to the Hub broke off again and again while tiny/model was fetched; try "
        "again, it goes on where it was.", faulty(break_after=[0] * 9),
    ),
    Case(
        "bytes are changed on the way", "tiny/model",
        "model.safetensors of tiny/model came twice with other content than the Hub names for it; "
        "something between here and there changes files. Try another network or mirror "
        "(HF_ENDPOINT).", faulty(spoil=lambda content: b"?" + content[1:]),
    ),
    Case(
        "a file that is shorter than the Hub names", "tiny/model",
        "The connection to the Hub broke off again and again while tiny/model was fetched; …",
        faulty(spoil=lambda content: content[:99]),
    ),
    Case(
        "no such word", "tiny/model", "revision is a branch, a tag or a commit of the Hub, such as "
        "main; got '../x'.", put(), (("revision", "../x"),),
    ),
]  # fmt: skip


def pattern(case: Case) -> str:
    """The sentence as an expression: three dots are anything."""
    said = case.read.replace("{typed}", repr(case.typed)).replace("{id}", case.typed)
    return ".*".join(map(re.escape, (part.strip() for part in said.split("…"))))


@pytest.fixture
def files(folder) -> Files:
    return {path.name: path.read_bytes() for path in folder("gpt2").iterdir()}


def test_what_is_read(files, tmp_path_factory, monkeypatch):
    def check(case: Case) -> None:
        place = tmp_path_factory.mktemp("case")
        with monkeypatch.context() as patch, hub_at(place, patch) as hub:
            case.hub(hub, files)
            if hub.delay:
                patch.setattr("transformer_viz.checkpoints.hub.repository.PATIENCE", 0.4)
            with pytest.raises(CheckpointError) as caught:
                tv.load(case.typed, device="cpu", **dict(case.words))
        said = str(caught.value)
        assert re.fullmatch(pattern(case) + (".*" if case.read.endswith("…") else ""), said), said
        assert isinstance(caught.value, CheckpointMissing) == case.missing
        assert "\n" not in said and "127.0.0.1" not in said

    each(((f"{case.about}: {case.typed}", case) for case in CASES), check)


def test_the_page_shows_every_case():
    """Each row of the page is a case: what is wrong, what was typed, what was read."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    rows = {row[0]: row[1:] for row in cells if len(row) == 3}
    first = {case.about: case for case in reversed(CASES)}  # one row stands for several ids
    assert len(first) >= 20
    for case in CASES:
        typed, read = rows[case.about]
        assert f"`{case.typed}`" in typed
        assert re.fullmatch(pattern(first[case.about]), read), case.about


def test_no_network_no_token_no_disk(hub, files, monkeypatch):
    from huggingface_hub import constants

    def refused(said: str, name: str = "tiny/model") -> None:
        with pytest.raises(CheckpointError, match=said):
            tv.load(name)

    with monkeypatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        refused("the Hub cannot be reached: no network, or HF_ENDP")
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        refused("HF_HUB_OFFLINE keeps the Hub from being asked")
    hub.add("tiny/model", files)
    for number, said in (
        (errno.ENOSPC, "The disk became full while tiny/model was fetched"),
        (errno.EROFS, "The folder of the Hub's cache cannot be written"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(transfer, "_append", Mock(side_effect=OSError(number, "no")))
            refused(said)
    hub.add("tiny/private", files, token="secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert tv.load("tiny/private", device="cpu").name == "tiny/private"  # no token to strangers
    monkeypatch.setenv("HF_TOKEN", "wrong")
    refused("check the spelling", "tiny/private@v2")
