"""Checkpoints: what was saved is opened, origins of words, and which files are refused."""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
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

from .opening import opens, refused, reworded

WORDS = {"d_model": 12, "heads": 3, "d_ff": 10, "source_vocab": 17, "target_vocab": 17}
BOTH = WORDS | {"encoder_layers": 2, "decoder_layers": 1, "max_positions": 23}


def ramp_model(**words) -> Transformer:
    """Return a reference Transformer whose every weight is a different number."""
    module = Transformer(ModelConfig(**(BOTH | words)))
    with torch.no_grad():
        for n, parameter in enumerate(module.parameters()):
            values = torch.arange(parameter.numel()).reshape(parameter.shape)
            parameter.copy_(torch.sin(values * 0.7 + n))
    return module.eval()


def ids(*shape: int) -> torch.Tensor:
    return torch.arange(4, 4 + int(np.prod(shape))).reshape(shape) % 13 + 4


def put(folder: Path, module: Transformer, dtype=torch.float32, **config) -> Path:
    """Write a checkpoint folder of our layout."""
    folder.mkdir(exist_ok=True)
    named = {name: p.detach().to(dtype) for name, p in module.named_parameters()}
    safetensors.torch.save_file(named, folder / "weights.safetensors")
    words = {"layout": "transformer_viz", "kind": module.config.kind} | module.config.to_dict()
    (folder / "config.json").write_text(json.dumps(words | config))
    return folder


def test_a_saved_model_opens_as_it_was(tmp_path):
    for layers in ((2, 1), (2, 0), (0, 2)):
        for tied in ("none", "embeddings", "output", "all") if all(layers) else ("none", "output"):
            module = ramp_model(tied=tied, encoder_layers=layers[0], decoder_layers=layers[1])
            folder = put(tmp_path / "mine", module, title="Mine")
            count = sum(p.numel() for p in module.parameters())
            model = opens(folder, name="mine", title="Mine", kind=module.config.kind, ids=(0, 2, 3),
                          max_tokens=23, file_dtype="float32", dtype="float32", parameters=count,
                          layout="transformer_viz", config=module.config.to_dict())  # fmt: skip
            given = ids(1, 5), ids(1, 4) if all(layers) else None
            assert torch.equal(model.calls.forward(*given), module(*given)), (layers, tied)
            assert not model.module.training, (layers, tied)
            content = (folder / "weights.safetensors").read_bytes()
            assert model.hash == hashlib.sha256(content).hexdigest(), (layers, tied)


def test_loading_half_precision_uses_up_no_random_numbers(tmp_path):
    module = ramp_model()
    folder = put(tmp_path / "half", module, torch.float16)
    before = torch.get_rng_state()
    model = opens(folder, file_dtype="float16", dtype="float32")
    assert torch.equal(torch.get_rng_state(), before)
    for name, value in module.state_dict().items():
        assert torch.equal(model.module.state_dict()[name], value.half().float()), name


def test_every_word_says_where_it_came_from(tmp_path):
    folder = reworded(put(tmp_path / "mine", ramp_model()), mask_fill=None)
    origin = {"norm": "override", "d_model": "file", "mask_fill": "default", "d_k": "default"}
    # the width of a head only followed from d_model / heads, so it follows again
    model = opens(folder, {"norm": "post", "heads": 4}, d_k=3, heads=4, origin=origin)
    assert model.module.decoder.layers[0].norm == "post"


def test_a_bare_state_dict_opens_with_a_config_or_with_words(tmp_path):
    module = ramp_model(tied="all")
    given = ids(1, 5), ids(1, 3)
    content = {
        "model": {f"_orig_mod.module.{name}": w for name, w in module.state_dict().items()},
        "settings": argparse.Namespace(path=pathlib.PosixPath("x")),
        "loss": np.float64(1.5),
        "history": np.arange(3),
    }
    path = tmp_path / "epoch.pt"
    torch.save(content, path)
    model = opens(path, BOTH | {"tied": "all"}, name="epoch")
    assert set(model.provenance.values()) == {"override", "default"}
    assert torch.equal(model.module.output.weight, module.output.weight)
    assert read_weights(path).extra["settings"].path == Path("x")
    (tmp_path / "config.json").write_text(json.dumps(module.config.to_dict()))
    bare = tmp_path / "bare.pth"
    for zipped in (True, False):
        torch.save(module.state_dict(), bare, _use_new_zipfile_serialization=zipped)
        model = load(bare, device="cpu")
        assert torch.equal(model.calls.forward(*given), module(*given)), zipped


def test_encode_and_decode_give_what_forward_gives(tmp_path):
    calls = load(put(tmp_path / "mine", ramp_model()), device="cpu").calls
    source, target = ids(2, 5), ids(2, 4)
    source[1, 3:] = 0  # padding
    mask = source != 0
    whole, memory = calls.forward(source, target), calls.encode(source, mask)
    assert torch.equal(whole, calls.forward(source, target, mask))
    assert torch.equal(calls.decode(target, memory, mask), whole)
    assert torch.equal(calls.encode(source), memory)
    torch.testing.assert_close(calls.following(target, memory, mask), whole[:, -1:])
    torch.testing.assert_close(whole[1:], calls.forward(source[1:, :3], target[1:]))
    seen = torch.ones_like(mask)
    memory, shown = calls.encode(source, seen), calls.forward(source, target, seen)
    assert torch.equal(calls.decode(target, memory), calls.decode(target, memory, seen))
    assert torch.equal(calls.decode(target, memory, seen), shown)
    assert not torch.allclose(shown, whole)
    for call in (lambda: calls.encode(ids(1, 24)), lambda: calls.decode(ids(1, 24), memory[:1])):
        with pytest.raises(ValueError, match="24 tokens; this model has 23 positions"):
            call()


def test_a_decoder_only_model_obeys_a_mask_too():
    calls = load(ramp_model(encoder_layers=0, source_vocab=0), device="cpu").calls
    assert calls.encode is None and calls.decode is None
    text = ids(1, 5)
    mask = torch.ones(1, 5, dtype=torch.bool)
    assert torch.equal(calls.forward(text), calls.forward(text, None, mask))
    mask[0, 1] = False
    hidden, changed = calls.forward(text, None, mask), text.clone()
    changed[0, 1] = 9
    assert torch.equal(hidden[0, 2:], calls.forward(changed, None, mask)[0, 2:])
    assert torch.equal(calls.forward(text)[0, 0], hidden[0, 0])
    assert not torch.allclose(calls.forward(text)[0, 2:], hidden[0, 2:])


def test_a_vocabulary_of_another_model_is_refused(tmp_path):
    from training.corpus import train_vocabulary

    pieces = train_vocabulary([("the red cat runs", "la rosa kato kuras")] * 9, 276)
    folder = put(tmp_path / "mine", ramp_model())
    (folder / "vocabulary.model").write_bytes(pieces)
    refused(folder, r"has 276 pieces, .* knows 17")
    put(folder, ramp_model(source_vocab=276, target_vocab=276))
    model = opens(folder, bos_id=2)
    assert model.tokenizer.decode(model.tokenizer.source_ids("the red cat")) == "the red cat"
    assert model.tokenizer.target_ids("la kato")[0] == 2


def test_impossible_words_are_short_sentences(tmp_path):
    for words in ({"dropout": 2}, {"positions": "x" * 300_000}):
        refused(put(tmp_path, ramp_model(), **words), rf"^(?=.*{next(iter(words))}).{{,299}}$")
    folder = put(tmp_path / "masked", make_module(replace(TINY, decoder_layers=0, target_vocab=37)))
    for mask in (True, -1, 37, "4", 4.0):
        refused(reworded(folder, mask_id=mask), "mask_id needs a token from 0 to 36; got")
    opens(reworded(folder, mask_id=4), mask_id=4)


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


class Named(nn.Module):
    """A module that takes its target by name, behind a mask."""

    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None):
        return [input_ids * attention_mask, decoder_input_ids][decoder_input_ids is not None]


class Returns(nn.Module):
    """A module that returns what it was made with."""

    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, source):
        return self.output


def test_any_module_in_memory_is_called_as_its_forward_asks():
    module = Pair().train()
    model = load(module, pad_id=1, max_tokens=6)
    assert (model.name, model.kind, model.layout) == ("Pair", "encoder-decoder", "module in memory")
    assert (model.pad_id, model.bos_id, model.max_tokens, model.device) == (1, None, 6, "cpu")
    assert (model.provenance["pad_id"], model.provenance["kind"]) == ("override", "default")
    assert model.module is module and not module.training
    source, target, seen = (
        torch.tensor([[2, 3]]),
        torch.tensor([[4]]),
        torch.tensor([[True, False]]),
    )
    table = module.table.weight
    summed = model.calls.forward(source, target)[0, 0]
    torch.testing.assert_close(summed, table[4] + table[2] + table[3])
    assert torch.equal(model.calls.forward(source, target, seen)[0, 0], table[4] + table[2])

    named = load(Named())
    assert named.kind == "encoder-decoder"
    assert torch.equal(named.calls.forward(ids(1, 2), ids(1, 3), seen), ids(1, 3))
    assert named.calls.forward(ids(1, 2), None, seen).tolist() == [[8, 0]]

    linear = load(nn.Linear(2, 3), kind="decoder-only")
    assert linear.kind == "decoder-only"
    assert linear.calls.forward(torch.zeros(1, 2)).shape == (1, 3)
    with pytest.raises(ValueError, match="takes no mask of the source; its forward knows input"):
        linear.calls.forward(torch.zeros(1, 2), None, seen)
    with pytest.raises(CheckpointError, match="no word 'heads'; it takes kind, task, pad_id"):
        load(nn.Linear(2, 3), heads=2)
    with pytest.raises(CheckpointError, match="no kind 'gpt'"):
        load(nn.Linear(2, 3), kind="gpt")

    logits = torch.ones(2, 1)
    for output in ((logits, "more"), [logits, "more"], argparse.Namespace(logits=logits)):
        assert load(Returns(output)).calls.forward(ids(1, 2)) is logits, type(output)
    with pytest.raises(ValueError, match="gave a str without a tensor"):
        load(Returns("text")).calls.forward(ids(1, 2))


def test_bundled_names_and_their_snapshots(tmp_path, monkeypatch):
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
    opens(tmp_path, name="a")
    refused(tmp_path / "a.pt", "no device 'abacus' here; use cpu", device="abacus")
    (tmp_path / "b.pt").write_bytes((tmp_path / "a.pt").read_bytes())
    refused(tmp_path, r"several weights files \(a\.pt, b\.pt\)")


def test_a_folder_of_a_run_names_the_checkpoints_below_it(tmp_path):
    weights = ramp_model().state_dict()
    for run, names, files in (
        ("trainer", ["checkpoint-9/pytorch_model.bin", "checkpoint-10/pytorch_model.bin"], False),
        ("lightning", [f"lightning_logs/version_0/checkpoints/e={n}.ckpt" for n in (1, 2)], True),
        ("steps", ["epoch_3/model.pt", "step-1000/model.pt"], False),
    ):
        for name in names:
            (tmp_path / run / name).parent.mkdir(parents=True, exist_ok=True)
            torch.save(weights, tmp_path / run / name)
        torch.save({"a": 1}, tmp_path / run / "training_args.bin")
        places = names if files else [name.rpartition("/")[0] for name in names]
        with pytest.raises(CheckpointMissing) as caught:
            load(tmp_path / run)
        assert f"below it are {', '.join(places)}. Give one" in str(caught.value), run
        assert str(caught.value).endswith(f"such as {tmp_path / run / places[-1]}."), run


def test_a_model_kept_in_a_field_opens_without_what_is_no_part_of_it(tmp_path):
    module = ramp_model()
    (tmp_path / "config.json").write_text(json.dumps(module.config.to_dict()))
    path, state = tmp_path / "mine.pt", module.state_dict()
    torch.save({f"net_g.{name}": tensor for name, tensor in state.items()}, path)
    model = opens(path, unwrapped=("the prefix 'net_g.' was taken off every name",))
    for one, other in zip(model.module.parameters(), module.parameters(), strict=True):
        assert torch.equal(one, other)
    inner = {f"net.{name}": tensor for name, tensor in state.items()}
    torch.save(inner | {"extra_scale": torch.ones(3)}, path)
    notes = load(path, device="cpu").notes
    assert any("weights outside" in n.lower() and "extra_scale (1)" in n for n in notes)
    torch.save(inner | {"head.weight": torch.ones(3, 12)}, path)  # may be a part of the model
    refused(path, r"bear that layout's names below 'net\.'; head")


def test_every_layout_names_itself_and_refuses_what_is_not_its_own(tmp_path):
    safetensors.torch.save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors")
    strange = Candidate(tmp_path / "w.safetensors", {})
    for layout in loader.layouts:
        assert layout.NAME and layout.WORDS, layout
        assert not layout.recognise(strange), layout


@pytest.mark.shipped
def test_bundled_models_open_name_their_sources_and_stay_small():
    notice = " ".join((bundled.PRETRAINED / "NOTICE").read_text(encoding="utf-8").split())
    limits = {"en-de": 40e6, "en-lm": 6e6, "en-mlm": 6e6, "digits": 1e6}
    for name in available():
        folder = bundled.PRETRAINED / name
        assert sum(p.stat().st_size for p in folder.rglob("*")) <= limits.get(name, 20e6), name
        model = load(name, device="cpu")
        card = (folder / "README.md").read_text(encoding="utf-8")
        quoted = " ".join(line[1:] for line in card.splitlines() if line[:1] == ">").split()
        first = next(n for n, word in enumerate(quoted) if word in ("from", "of"))
        sources = " ".join(quoted[first:])  # "Contains sentences" here, "sentence pairs" there
        assert model.hash in card and sources in notice, name
        if model.takes != "image":
            read = model.tokenizer.source_ids("I love my dog.")
            assert model.tokenizer.decode(read) == "I love my dog.", name
    assert sum(path.stat().st_size for path in bundled.PRETRAINED.rglob("*")) <= 110e6
