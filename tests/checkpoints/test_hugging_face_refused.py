"""Hugging Face folders that are unsafe, incomplete, or beyond reach are refused with the reason."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.hugging_face.library import library

from .hugging_face import BERT, CASES, TEXT, D, folder_of, made, saved, state_of

LAST = "bert.encoder.layer.2.output.dense."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound folder of BERT, to be spoilt."""
    return folder_of(CASES["bert"], "safetensors", tmp_path)


def reweighted(folder: Path, **changes: Any) -> Path:
    """Weights replaced, added, or (None) left out; ``__`` in a name is a dot."""
    state = state_of(folder) | {name.replace("__", "."): t for name, t in changes.items()}
    kept = {name: tensor for name, tensor in state.items() if tensor is not None}
    safetensors.torch.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def reworded(folder: Path, **changes: Any) -> Path:
    """Words of config.json replaced, added, or (None) left out."""
    path = folder / "config.json"
    words = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in words.items() if v is not None}))
    return folder


def refused(folder: Path, message: str, **words: Any) -> None:
    start = time.monotonic()
    with pytest.raises(CheckpointError, match=message) as caught:
        tv.load(folder, **({"device": "cpu"} | words))
    assert time.monotonic() - start < 10
    assert "\n" not in str(caught.value)
    assert str(caught.value)[-1] in ".?!"


WEIGHTS = {
    "missing": ({f"{LAST}weight": None}, rf"lacks the weight {LAST}weight"),
    "renamed": (
        {f"{LAST}bias": None, f"{LAST}biass": torch.zeros(D)},
        rf"lacks .*{LAST}bias \(the nearest name is {LAST}biass\)",
    ),
    "unknown": (
        {"bert.encoder.layer.2.output.dance.bias": torch.zeros(D)},
        rf"output\.dance\.bias that BertForMaskedLM does not know \(the nearest .*{LAST}bias",
    ),
    "shape": ({f"{LAST}bias": torch.zeros(D + 1)}, rf"{LAST}bias is \[21\] .* makes it \[20\]"),
    "head": ({"cls.predictions.transform.dense.weight": None}, "lacks the weight cls.predictions"),
    "tied": (
        {"bert.embeddings.word_embeddings.weight": None},
        "lacks the weight bert.embeddings.word_embeddings.weight",
    ),
    "nan": (
        {f"{LAST}bias": torch.full((D,), torch.nan)},
        rf"{LAST}bias in model.safetensors has 20 values that are NaN",
    ),
    "quantised": ({f"{LAST}bias": torch.zeros(D, dtype=torch.int8)}, "holds int8, quantised"),
    "float8": (
        {f"{LAST}bias": torch.zeros(D, dtype=torch.float8_e4m3fn)},
        "holds float8_e4m3fn, quantised",
    ),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_that_do_not_fit_are_named(case, folder):
    changes, message = WEIGHTS[case]
    refused(reweighted(folder, **changes), message)


def test_weights_that_are_not_finite_open_where_it_is_asked(folder):
    reweighted(folder, **{f"{LAST}bias": torch.full((D,), torch.nan)})
    model = tv.load(folder, device="cpu", allow_nonfinite=True)
    assert any("NaN" in note for note in model.notes)


def test_what_the_library_declares_as_unneeded_is_no_fault(folder):
    model = tv.load(
        reweighted(folder, bert__embeddings__position_ids=torch.arange(23)[None]), device="cpu"
    )
    assert model.gives == "words"
    assert model.notes == ()


def greek(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Norms as the first versions named their weights."""
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        state = {name.replace(new, old): tensor for name, tensor in state.items()}
    return state


ATTN = "transformer.h.0.attn."
OLD_MASKS = {f"{ATTN}bias": torch.ones(1, 1, 23, 23), f"{ATTN}masked_bias": torch.tensor(-1e4)}
ANGLES = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(5)}
OLD_NAMES: dict[str, tuple[str, Any]] = {
    "gamma and beta": ("bert", greek),
    "masks": ("gpt2", lambda state: state | OLD_MASKS),
    "no prefix": ("gpt2", lambda s: {k.removeprefix("transformer."): v for k, v in s.items()}),
    "angles": ("llama", lambda state: state | ANGLES),
}


@pytest.mark.parametrize("case", OLD_NAMES)
def test_files_of_older_versions_open_as_they_were(case, tmp_path):
    name, change = OLD_NAMES[case]
    folder = folder_of(CASES[name], "safetensors", tmp_path)
    expected = tv.load(folder, device="cpu").module.state_dict()
    safetensors.torch.save_file(change(state_of(folder)), folder / "model.safetensors")
    model = tv.load(folder, device="cpu")
    found = model.module.state_dict()
    assert model.notes == ()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_bias_of_nobody_is_no_mask(tmp_path):
    folder = folder_of(CASES["gpt2"], "safetensors", tmp_path)
    refused(reweighted(folder, **{f"{ATTN}masked_bias": torch.zeros(D)}), "attn.masked_bias that")


def test_weights_of_other_heads_of_the_same_architecture_are_told_of(tmp_path):
    whole = made("BertForPreTraining", "BertConfig", **CASES["bert"].words)
    folder = saved(whole, tmp_path)
    both = tv.load(reworded(folder, architectures=None), device="cpu")
    assert (type(both.module), both.gives, both.notes) == (type(whole), "words", ())
    one = tv.load(reworded(folder, architectures=["BertForMaskedLM"]), device="cpu")
    assert "also holds 4 weights that it does not use (bert.pooler.dense.bias" in one.notes[0]
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        assert torch.equal(one.calls.forward(ids), both.calls.forward(ids))
    refused(reweighted(folder, bert__pooler__dense__other=torch.zeros(3)), "dense.other")


def test_weights_of_the_bare_model_are_told_of(tmp_path):
    folder = folder_of(CASES["vit"], "safetensors", tmp_path)
    pooler = {"vit.pooler.dense.weight": torch.ones(D, D), "vit.pooler.dense.bias": torch.ones(D)}
    note = tv.load(reweighted(folder, **pooler), device="cpu").notes[0]
    assert "also holds 2 weights that it does not use (vit.pooler.dense.bias" in note


def test_experts_that_are_missing_are_named(tmp_path):
    words = CASES["llama"].words | {"num_local_experts": 3, "num_experts_per_tok": 2}
    words |= {"hidden_size": 16, "intermediate_size": 24}  # the library's kernels need fours
    folder = saved(made("MixtralForCausalLM", "MixtralConfig", **words), tmp_path)
    tv.load(folder, device="cpu")
    name = next(n for n in state_of(folder) if "experts.1." in n)
    refused(reweighted(folder, **{name: None}), "model.layers.0.mlp.experts")


CONFIGS = {
    "own code": ({"auto_map": {"AutoModel": "modeling.Own"}}, "Python code of its own"),
    "bitsandbytes": (
        {"quantization_config": {"quant_method": "bitsandbytes"}},
        r"quantised \(bitsandbytes\)",
    ),
    "gptq": ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantised \(gptq\)"),
    "unknown type": ({"model_type": "bertt"}, "does not know the model_type 'bertt'"),
    "unknown class": ({"architectures": ["BertForEverything"]}, "no architecture 'BertForEvery"),
    "no class": ({"architectures": ["logging"]}, "has no architecture 'logging'"),
    "path": ({"architectures": ["os.system"]}, "has no architecture 'os.system'"),
    "number": ({"architectures": [3]}, r"is \[3\]; it is a list of names of classes"),
    "bare number": ({"architectures": 3}, "is 3; it is a list of names of classes"),
    "table": ({"architectures": {"a": 1}}, "it is a list of names of classes"),
    "endless": ({"architectures": ["x" * 300_000]}, r"no architecture 'x{79}\.\.\. correct"),
    "other family": ({"architectures": ["GPT2LMHeadModel"]}, "does not go with the model_type"),
    "no head": ({"architectures": ["BertModel"]}, "lacks the weight pooler.dense.bias"),
    "fewer layers": ({"num_hidden_layers": 2}, "layer.2.*does not know"),
    "more layers": ({"num_hidden_layers": 4}, r"lacks the weight bert.encoder.layer.3"),
    "endless layers": ({"num_hidden_layers": 10**9}, "num_hidden_layers=1,000,000,000"),
    "negative layers": ({"num_hidden_layers": -3}, "num_hidden_layers=-3"),
    "endless positions": ({"max_position_embeddings": 10**12}, "max_position_embeddings=1,000"),
    "more positions": ({"max_position_embeddings": 10**6}, r"is \[23, 20\] in .*\[1000000, 20\]"),
    "endless words": ({"vocab_size": 10**12}, "vocab_size=1,000,000,000,000"),
    "endless width": ({"hidden_size": 10**9}, "config.json|the config makes it"),
    "endless classes": ({"num_labels": 10**9}, "num_labels=1,000,000,000"),
    "no heads": ({"num_attention_heads": 0}, "cannot be built|divi|config.json"),
    "odd heads": ({"num_attention_heads": 3}, "config.json.*heads"),
    "text for a number": ({"hidden_size": "20"}, "config.json"),
    "list for a number": ({"num_hidden_layers": [3]}, "config.json"),
    "odd activation": ({"hidden_act": "os.system"}, "config.json.*os.system"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configs_that_do_not_fit_are_refused(case, folder):
    changes, message = CONFIGS[case]
    refused(reworded(folder, **changes), message)


@pytest.mark.parametrize(
    "words",
    [
        {"attn_implementation": "somebody/kernel"},
        {"_attn_implementation": "flash_attention_2"},
        {"_attn_implementation_internal": "somebody/kernel"},
        {"use_kernels": True, "fusion_config": {"patch_embeddings": True}},
        {"transformers_weights": "elsewhere.bin"},
        {"_name_or_path": "somebody/model", "return_dict": False, "output_attentions": True},
    ],
    ids=lambda words: next(iter(words)),
)
def test_words_that_choose_code_or_files_choose_nothing(words, folder):
    expected = tv.trace(tv.load(folder, device="cpu"), [5, 6, 7]).logits
    model = tv.load(reworded(folder, **words), device="cpu")
    assert (tv.trace(model, [5, 6, 7]).logits == expected).all()
    assert model.module.config._attn_implementation in ("sdpa", "eager")


def test_sound_in_unknown_frames_is_refused_with_the_way_out(tmp_path):
    words = {"hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": 2, "conv_dim": [8],
             "intermediate_size": 9, "conv_kernel": [3], "conv_stride": [2],
             "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
             "feat_extract_norm": "layer", "do_stable_layer_norm": False}  # fmt: skip
    model = made("UniSpeechModel", "UniSpeechConfig", **words)
    refused(saved(model, tmp_path), r"reads input_values.*with tv\.probe\(module\)")


@pytest.mark.parametrize("file", ["generation_config.json", "preprocessor_config.json"])
@pytest.mark.parametrize("content", ["{", "[1]", '{"size": {"height": "x"}}'])
def test_files_beside_it_that_are_damaged(file, content, tmp_path):
    folder = folder_of(CASES["vit"], "safetensors", tmp_path)
    (folder / file).write_text(content)
    if "size" in content and "generation" in file:
        tv.load(folder, device="cpu")
    else:
        refused(folder, file.replace(".", r"\."))


def test_a_folder_without_a_type_is_none_of_ours(folder):
    refused(reworded(folder, model_type=None), "needs a config.json with a model_type",
            layout="hugging_face")  # fmt: skip


def test_spreading_over_devices_needs_accelerate(folder, monkeypatch):
    own = importlib.util.find_spec
    monkeypatch.setattr(
        "transformer_viz.checkpoints.hugging_face.layout.find_spec",
        lambda name: None if name == "accelerate" else own(name),
    )
    refused(folder, "needs the package accelerate: pip install accelerate", device="auto")


def test_a_torchvision_of_another_torch_is_named():
    with (
        pytest.raises(CheckpointError, match="torchvision that is installed does not fit"),
        library(),
    ):
        raise RuntimeError("operator torchvision::nms does not exist")
    with pytest.raises(RuntimeError, match="something else"), library():
        raise RuntimeError("something else")


def test_a_model_that_joins_its_tokens_is_refused(tmp_path):
    words = {"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 24, "block_sizes": [1, 1],
             "num_decoder_layers": 1, "vocab_size": 37, "pad_token_id": 1}  # fmt: skip
    model = made("FunnelBaseModel", "FunnelConfig", **words)
    refused(saved(model, tmp_path), "joins or adds tokens between its layers")


def test_numbers_that_are_neither_words_nor_classes_are_refused(tmp_path):
    words = TEXT | BERT | {"embedding_size": 16}
    model = made("ElectraForPreTraining", "ElectraConfig", **words)
    refused(saved(model, tmp_path), r"neither words nor classes nor states, but numbers \[1, 6\]")


def test_a_folder_of_the_librarys_cache_has_the_models_name(tmp_path):
    snapshot, blobs = tmp_path / "models--lab--tiny" / "snapshots" / "0f", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    for path in folder_of(CASES["gpt2"], "safetensors", blobs).iterdir():
        (snapshot / path.name).symlink_to(path)
    assert tv.load(snapshot, device="cpu").name == "lab/tiny"


def test_a_class_without_a_matrix_is_refused_by_what_it_does(tmp_path):
    words = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 1, "head_dim": 64}
    config = TEXT | BERT | words | {"linear_num_key_heads": 1, "linear_num_value_heads": 1,
                                    "layer_types": ["linear_attention"], "num_experts": 0,
                                    "num_key_value_heads": 1}  # fmt: skip
    model = made("Qwen3NextForCausalLM", "Qwen3NextConfig", **config)
    refused(saved(model, tmp_path), "no attention that could be shown")
