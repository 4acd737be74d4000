"""Checkpoints: what was saved is what is opened, every word's origin is told, bad files refused."""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from tests.conftest import TINY, make_module
from transformer_viz.checkpoints import CheckpointError, available, load, loader
from transformer_viz.checkpoints.common import bundled
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.files.reading import CheckpointMissing, read_weights
from transformer_viz.model import ModelConfig, Transformer
from transformer_viz.preprocessing.tokenizers import PlainIds

WORDS = {"d_model": 12, "heads": 3, "d_ff": 10, "source_vocab": 17, "target_vocab": 17}
BOTH = WORDS | {"encoder_layers": 2, "decoder_layers": 1, "max_positions": 23}


def ramp_model(**words) -> Transformer:
    """A reference Transformer whose every weight is a different number."""
    module = Transformer(ModelConfig(**(BOTH | words)))
    with torch.no_grad():
        for n, parameter in enumerate(module.parameters()):
            values = torch.arange(parameter.numel()).reshape(parameter.shape)
            parameter.copy_(torch.sin(values * 0.7 + n))
    return module.eval()


def ids(*shape: int) -> torch.Tensor:
    return torch.arange(4, 4 + int(np.prod(shape))).reshape(shape) % 13 + 4


def put(folder: Path, module: Transformer, dtype=torch.float32, **config) -> Path:
    """A checkpoint folder of our layout."""
    folder.mkdir(exist_ok=True)
    named = {name: p.detach().to(dtype) for name, p in module.named_parameters()}
    safetensors.torch.save_file(named, folder / "weights.safetensors")
    words = {"layout": "transformer_viz", "kind": module.config.kind} | module.config.to_dict()
    (folder / "config.json").write_text(json.dumps(words | config))
    return folder


TIES = [((2, 1), tied) for tied in ("none", "embeddings", "output", "all")]
TIES += [(layers, tied) for layers in ((2, 0), (0, 2)) for tied in ("none", "output")]


@pytest.mark.parametrize(("layers", "tied"), TIES)
def test_a_saved_model_opens_as_it_was(layers, tied, tmp_path):
    module = ramp_model(tied=tied, encoder_layers=layers[0], decoder_layers=layers[1])
    model = load(put(tmp_path / "mine", module, title="Mine"), device="cpu")
    assert (model.name, model.title, model.kind) == ("mine", "Mine", module.config.kind)
    assert (model.pad_id, model.bos_id, model.eos_id, model.max_tokens) == (0, 2, 3, 23)
    assert (model.file_dtype, model.dtype, model.layout) == (
        "float32",
        "float32",
        "transformer_viz",
    )
    assert model.parameters == sum(p.numel() for p in module.parameters())
    target = ids(1, 4) if all(layers) else None
    assert torch.equal(model.calls.forward(ids(1, 5), target), module(ids(1, 5), target))
    assert model.config == module.config.to_dict()
    assert not model.module.training


def test_half_precision_is_computed_in_float32(tmp_path):
    module = ramp_model()
    model = load(put(tmp_path / "half", module, torch.float16), device="cpu")
    assert (model.file_dtype, model.dtype) == ("float16", "float32")
    for name, value in module.state_dict().items():
        assert torch.equal(model.module.state_dict()[name], value.half().float())


def test_loading_uses_up_no_random_numbers(tmp_path):
    folder = put(tmp_path / "mine", ramp_model())
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    load(folder, device="cpu")
    assert torch.equal(torch.rand(1), wanted)


@pytest.mark.process
def test_the_hash_is_that_of_the_file(tmp_path):
    folder = put(tmp_path / "mine", ramp_model())
    words = ["sha256sum", str(folder / "weights.safetensors")]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert load(folder, device="cpu").hash == told.split()[0]


def test_every_word_says_where_it_came_from(tmp_path):
    folder = put(tmp_path / "mine", ramp_model())
    words = json.loads((folder / "config.json").read_text())
    del words["mask_fill"]
    (folder / "config.json").write_text(json.dumps(words))
    model = load(folder, device="cpu", norm="post", heads=4)
    origin = model.provenance
    assert (origin["norm"], origin["d_model"], origin["mask_fill"]) == (
        "override",
        "file",
        "default",
    )
    assert origin.keys() == model.config.keys()
    # the width of a head only followed from d_model / heads, so it follows again
    assert (model.config["heads"], model.config["d_k"], origin["d_k"]) == (4, 3, "default")
    assert model.module.decoder.layers[0].norm == "post"


def test_a_bare_state_dict_opens_with_a_config_or_with_words(tmp_path):
    module = ramp_model(tied="all")
    wrapped = {f"module.{name}": value for name, value in module.state_dict().items()}
    content = {
        "model": {f"_orig_mod.{name}": value for name, value in wrapped.items()},
        "settings": argparse.Namespace(path=pathlib.PosixPath("x")),
        "loss": np.float64(1.5),
        "history": np.arange(3),
    }
    torch.save(content, tmp_path / "epoch.pt")
    model = load(tmp_path / "epoch.pt", device="cpu", **BOTH, tied="all")
    assert model.name == "epoch"
    assert set(model.provenance.values()) == {"override", "default"}
    assert torch.equal(model.module.output.weight, module.output.weight)
    assert read_weights(tmp_path / "epoch.pt").extra["settings"].path == Path("x")
    (tmp_path / "config.json").write_text(json.dumps(module.config.to_dict()))
    for zipped in (True, False):
        torch.save(
            module.state_dict(), tmp_path / "bare.pth", _use_new_zipfile_serialization=zipped
        )
        model = load(tmp_path / "bare.pth", device="cpu")
        assert torch.equal(model.calls.forward(ids(1, 5), ids(1, 3)), module(ids(1, 5), ids(1, 3)))


def test_encode_and_decode_give_what_forward_gives(tmp_path):
    calls = load(put(tmp_path / "mine", ramp_model()), device="cpu").calls
    source, target = ids(2, 5), ids(2, 4)
    source[1, 3:] = 0  # padding
    mask = source != 0
    whole = calls.forward(source, target)
    assert torch.equal(whole, calls.forward(source, target, mask))
    assert torch.equal(calls.decode(target, calls.encode(source, mask), mask), whole)
    assert torch.equal(calls.encode(source), calls.encode(source, mask))
    seen = torch.ones_like(mask)
    memory = calls.encode(source, seen)
    assert torch.equal(calls.decode(target, memory), calls.decode(target, memory, seen))
    assert torch.equal(calls.decode(target, memory, seen), calls.forward(source, target, seen))
    last = calls.following(target, calls.encode(source, mask), mask)
    torch.testing.assert_close(last, whole[:, -1:])
    assert not torch.allclose(calls.forward(source, target, seen), whole)
    alone = calls.forward(source[1:, :3], target[1:])
    torch.testing.assert_close(whole[1:], alone)
    with pytest.raises(ValueError, match="24 tokens; this model has 23 positions"):
        calls.encode(ids(1, 24))
    with pytest.raises(ValueError, match="24 tokens; this model has 23 positions"):
        calls.decode(ids(1, 24), memory[:1])


def test_a_decoder_only_model_obeys_a_mask_too():
    calls = load(ramp_model(encoder_layers=0, source_vocab=0), device="cpu").calls
    assert calls.encode is None and calls.decode is None
    text = ids(1, 5)
    mask = torch.ones(1, 5, dtype=torch.bool)
    assert torch.equal(calls.forward(text), calls.forward(text, None, mask))
    mask[0, 1] = False
    hidden, changed = calls.forward(text, None, mask), text.clone()
    changed[0, 1] = 9
    other = calls.forward(changed, None, mask)
    assert torch.equal(hidden[0, 2:], other[0, 2:])
    assert torch.equal(calls.forward(text)[0, 0], hidden[0, 0])
    assert not torch.allclose(calls.forward(text)[0, 2:], hidden[0, 2:])


def test_without_a_vocabulary_ids_are_typed():
    model = load(ramp_model(), device="cpu")
    assert model.name == "transformer in memory" and model.hash == ""
    assert model.tokenizer.source_ids("4 16") == [4, 16]
    with pytest.raises(ValueError, match="17 is too large"):
        model.tokenizer.source_ids("17")
    mine = PlainIds(5)
    assert load(ramp_model(), tokenizer=mine).tokenizer is mine
    with pytest.raises(CheckpointError, match="heads cannot be overridden"):
        load(ramp_model(), heads=4)


class Pair(nn.Module):
    """A module with a signature and an output of its own."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, src, tgt, src_key_padding_mask=None):
        memory = self.table(src)
        if src_key_padding_mask is not None:
            memory = memory * ~src_key_padding_mask[..., None]
        return {"count": 3, "states": self.table(tgt) + memory.sum(1, keepdim=True)}


def test_any_module_in_memory_is_called_as_its_forward_asks():
    module = Pair().train()
    model = load(module, pad_id=1, max_tokens=6)
    assert (model.name, model.kind, model.layout) == ("Pair", "encoder-decoder", "module in memory")
    assert (model.pad_id, model.bos_id, model.max_tokens, model.device) == (1, None, 6, "cpu")
    assert (model.provenance["pad_id"], model.provenance["kind"]) == ("override", "default")
    assert model.module is module and not module.training
    source, target = torch.tensor([[2, 3]]), torch.tensor([[4]])
    table = module.table.weight
    summed = model.calls.forward(source, target)[0, 0]
    torch.testing.assert_close(summed, table[4] + table[2] + table[3])
    seen = torch.tensor([[True, False]])
    assert torch.equal(model.calls.forward(source, target, seen)[0, 0], table[4] + table[2])
    linear = load(nn.Linear(2, 3), kind="decoder-only")
    assert linear.kind == "decoder-only"
    assert linear.calls.forward(torch.zeros(1, 2)).shape == (1, 3)
    with pytest.raises(ValueError, match="takes no mask of the source; its forward knows input"):
        linear.calls.forward(torch.zeros(1, 2), None, seen)
    with pytest.raises(CheckpointError, match="no word 'heads'; it takes kind, task, pad_id"):
        load(nn.Linear(2, 3), heads=2)
    with pytest.raises(CheckpointError, match="no kind 'gpt'"):
        load(nn.Linear(2, 3), kind="gpt")


class Named(nn.Module):
    """A module that takes its target by name, behind a mask."""

    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None):
        return [input_ids * attention_mask, decoder_input_ids][decoder_input_ids is not None]


def test_a_target_that_has_a_name_is_given_by_it():
    model = load(Named())
    assert model.kind == "encoder-decoder"
    seen = torch.tensor([[True, False]])
    assert model.calls.forward(ids(1, 2), ids(1, 3), seen).tolist() == ids(1, 3).tolist()
    assert model.calls.forward(ids(1, 2), None, seen).tolist() == [[8, 0]]


class Box(nn.Module):
    """Gives back whatever it was made with."""

    def __init__(self, output):
        super().__init__()
        self.give = output

    def forward(self, source):
        return self.give


@pytest.mark.parametrize("shape", [tuple, list, lambda x: argparse.Namespace(logits=x[0])])
def test_the_first_tensor_of_an_output_is_taken(shape):
    logits = torch.ones(2, 1)
    assert load(Box(shape([logits, "more"]))).calls.forward(ids(1, 2)) is logits
    with pytest.raises(ValueError, match="gave a str without a tensor"):
        load(Box("text")).calls.forward(ids(1, 2))


def test_names_in_the_box_and_their_snapshots(tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "PRETRAINED", tmp_path)
    folder = put(tmp_path / "toy", ramp_model())
    put(tmp_path / "also", ramp_model())
    (tmp_path / "unfinished").mkdir()
    (folder / "step-4.safetensors").write_bytes((folder / "weights.safetensors").read_bytes())
    assert available() == ("also", "toy")
    assert load("toy", device="cpu").folder == folder
    assert load("toy/step-4", device="cpu").name == "toy/step-4"
    for name in ("toy/step-5", "toy/../also", "nothing", "unfinished"):
        with pytest.raises(FileNotFoundError, match=r"In the box: also, toy\."):
            load(name)


def test_a_folder_with_one_or_several_or_no_weights(tmp_path):
    with pytest.raises(CheckpointMissing, match=r"holds no weights; expected weights\.safetensors"):
        load(tmp_path)
    torch.save(ramp_model().state_dict(), tmp_path / "a.pt")
    (tmp_path / "config.json").write_text(json.dumps(ramp_model().config.to_dict()))
    torch.save({"words": 1}, tmp_path / "vocab.pt")  # as the Annotated Transformer leaves it
    assert load(tmp_path, device="cpu").name == "a"
    (tmp_path / "b.pt").write_bytes((tmp_path / "a.pt").read_bytes())
    with pytest.raises(CheckpointError, match=r"several weights files \(a\.pt, b\.pt\)"):
        load(tmp_path)
    with pytest.raises(CheckpointError, match="no device 'abacus' here; use cpu"):
        load(tmp_path / "a.pt", device="abacus")


def test_a_folder_of_a_run_names_the_checkpoints_below_it(tmp_path):
    weights = ramp_model().state_dict()
    for run, names, advice in (
        ("trainer", ["checkpoint-9/pytorch_model.bin", "checkpoint-10/pytorch_model.bin"], None),
        ("lightning", [f"lightning_logs/version_0/checkpoints/e={n}.ckpt" for n in (1, 2)], True),
        ("steps", ["epoch_3/model.pt", "step-1000/model.pt"], None),
    ):
        for name in names:
            (tmp_path / run / name).parent.mkdir(parents=True, exist_ok=True)
            torch.save(weights, tmp_path / run / name)
        torch.save({"a": 1}, tmp_path / run / "training_args.bin")
        places = [name if advice else name.rpartition("/")[0] for name in names]
        with pytest.raises(CheckpointMissing) as caught:
            load(tmp_path / run)
        assert f"below it are {', '.join(places)}. Give one" in str(caught.value), run
        assert str(caught.value).endswith(f"such as {tmp_path / run / places[-1]}."), run


def test_every_layout_names_itself_and_refuses_what_is_not_its_own(tmp_path):
    safetensors.torch.save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors")
    strange = Candidate(tmp_path / "w.safetensors", {})
    for layout in loader.layouts:
        assert layout.NAME and layout.WORDS
        assert not layout.recognise(strange)


def test_a_vocabulary_of_another_model_is_refused(tmp_path):
    from training.corpus import train_vocabulary

    pairs = [("the red cat runs", "la rosa kato kuras")] * 9
    pieces = train_vocabulary(pairs, 276)
    folder = put(tmp_path / "mine", ramp_model())
    (folder / "vocabulary.model").write_bytes(pieces)
    with pytest.raises(CheckpointError, match=r"has 276 pieces, .* knows 17"):
        load(folder, device="cpu")
    wide = ramp_model(source_vocab=276, target_vocab=276)
    (put(tmp_path / "wide", wide) / "vocabulary.model").write_bytes(pieces)
    model = load(tmp_path / "wide", device="cpu")
    assert model.tokenizer.decode(model.tokenizer.source_ids("the red cat")) == "the red cat"
    assert model.tokenizer.target_ids("la kato")[0] == model.bos_id == 2


@pytest.mark.shipped
def test_what_is_in_the_box_opens_and_tells_its_sources():
    notice = " ".join((bundled.PRETRAINED / "NOTICE").read_text(encoding="utf-8").split())
    for name in available():
        model = load(name, device="cpu")
        card = (bundled.PRETRAINED / name / "README.md").read_text(encoding="utf-8")
        quoted = " ".join(line[1:] for line in card.splitlines() if line[:1] == ">").split()
        first = next(n for n, word in enumerate(quoted) if word in ("from", "of"))
        sources = " ".join(quoted[first:])  # "Contains sentences" here, "sentence pairs" there
        assert model.hash in card and sources in notice, name
        if model.takes == "image":
            continue
        read = model.tokenizer.source_ids("I love my dog.")
        assert model.tokenizer.decode(read) == "I love my dog."


@pytest.mark.shipped
def test_the_box_stays_small():
    limits = {"en-de": 40e6, "en-lm": 6e6, "en-mlm": 6e6, "digits": 1e6}
    for name in available():
        sizes = [path.stat().st_size for path in (bundled.PRETRAINED / name).rglob("*")]
        assert sum(sizes) <= limits.get(name, 20e6), name
    box = (path.stat().st_size for path in bundled.PRETRAINED.rglob("*"))
    assert sum(box) <= 110e6


@pytest.mark.parametrize("mask", [True, -1, 37, "4", 4.0])
def test_a_mask_token_that_the_model_does_not_know_is_refused(tmp_path, mask):
    config = replace(TINY, decoder_layers=0, target_vocab=37)
    module = make_module(config)
    safetensors.torch.save_file(module.state_dict(), tmp_path / "weights.safetensors")
    words = {"layout": "transformer_viz", "mask_id": mask, **config.to_dict()}
    (tmp_path / "config.json").write_text(json.dumps(words))
    with pytest.raises(CheckpointError, match="mask_id needs a token from 0 to 36; got"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(words | {"mask_id": 4}))
    assert load(tmp_path).mask_id == 4


@pytest.mark.parametrize("word", [{"dropout": 2}, {"positions": "x" * 300_000}])
def test_an_impossible_word_is_a_short_sentence(word, tmp_path):
    path = put(tmp_path, ramp_model(), **word)
    with pytest.raises(CheckpointError) as caught:
        load(path, device="cpu")
    said = str(caught.value)
    assert len(said) < 300 and said.endswith(".")
    assert next(iter(word)) in said


def test_a_model_that_was_kept_in_a_field_opens(tmp_path):
    folder = put(tmp_path / "whole", make_module())
    words = json.loads((folder / "config.json").read_text())
    del words["layout"]
    tensors = safetensors.torch.load_file(folder / "weights.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(words))
    torch.save({f"net_g.{name}": tensor for name, tensor in tensors.items()}, tmp_path / "mine.pt")
    model, wanted = load(tmp_path / "mine.pt", device="cpu"), load(folder, device="cpu")
    assert model.unwrapped == ("the prefix 'net_g.' was taken off every name",)
    for one, other in zip(model.module.parameters(), wanted.module.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_field_is_opened_without_what_is_none_of_its_model(tmp_path):
    module = ramp_model()
    (tmp_path / "config.json").write_text(json.dumps(module.config.to_dict()))
    inner = {f"net.{name}": tensor for name, tensor in module.state_dict().items()}
    torch.save(inner | {"extra_scale": torch.ones(3)}, tmp_path / "m.pt")
    model = load(tmp_path / "m.pt", device="cpu")
    assert any("weights outside" in n.lower() and "extra_scale (1)" in n for n in model.notes)
    torch.save(inner | {"head.weight": torch.ones(3, 12)}, tmp_path / "m.pt")
    with pytest.raises(CheckpointError, match=r"bear that layout's names below 'net\.'; head"):
        load(tmp_path / "m.pt", device="cpu")  # a matrix may be a part of the model
