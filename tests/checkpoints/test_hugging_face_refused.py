"""Hugging Face folders that are unsafe, incomplete or out of reach are refused with the reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.hugging_face.library import library

from .hugging_face import BERT, CASES, TEXT, D, folder_of, made, saved, state_of
from .opening import opens, refused, reworded

LAST = "bert.encoder.layer.2.output.dense."
ATTN = "transformer.h.0.attn."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound folder of BERT, to be damaged."""
    return folder_of(CASES["bert"], "safetensors", tmp_path)


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    return folder_of(CASES["gpt2"], "safetensors", tmp_path / "gpt2")


def reweighted(folder: Path, state: dict[str, Tensor], **changes: Any) -> Path:
    """Write other weights; ``__`` in a name of a change is a dot, None leaves one out."""
    state = state | {name.replace("__", "."): t for name, t in changes.items()}
    kept = {name: tensor for name, tensor in state.items() if tensor is not None}
    safetensors.torch.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_weights_that_do_not_fit_are_named(folder, gpt2):
    state = state_of(folder)
    words, bias = "bert.embeddings.word_embeddings.weight", f"{LAST}bias"
    for changes, message in (
        ({bias: None, f"{bias}s": torch.zeros(D)},
         rf"lacks .*{bias} \(the nearest name is {bias}s\)"),
        ({"bert.encoder.layer.2.output.dance.bias": torch.zeros(D)},
         rf"output\.dance\.bias that BertForMaskedLM does not know \(the nearest .*{bias}"),
        ({"cls.predictions.transform.dense.weight": None}, "lacks the weight cls.predictions"),
        ({words: None}, f"lacks the weight {words}"),  # the output is tied to it
        ({bias: torch.zeros(D, dtype=torch.float8_e4m3fn)}, "holds float8_e4m3fn, quantised"),
    ):  # fmt: skip
        refused(reweighted(folder, state, **changes), message)
    # a bias that no layer has is no mask
    changes = {f"{ATTN}masked_bias": torch.zeros(D)}
    refused(reweighted(gpt2, state_of(gpt2), **changes), "attn.masked_bias that")
    reweighted(folder, state, **{bias: torch.full((D,), torch.nan)})
    notes = tv.load(folder, device="cpu", allow_nonfinite=True).notes
    assert any("NaN" in note for note in notes)
    # the library declares this weight as unneeded
    reweighted(folder, state, bert__embeddings__position_ids=torch.arange(23)[None])
    opens(folder, gives="words", notes=())


def greek(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Name the norms' weights as the first versions did."""
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        state = {name.replace(new, old): tensor for name, tensor in state.items()}
    return state


OLD_MASKS = {f"{ATTN}bias": torch.ones(1, 1, 23, 23), f"{ATTN}masked_bias": torch.tensor(-1e4)}
ANGLES = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(5)}
OLD_NAMES: dict[str, tuple[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]] = {
    "gamma and beta": ("bert", greek),
    "masks": ("gpt2", lambda state: state | OLD_MASKS),
    "no prefix": ("gpt2", lambda s: {k.removeprefix("transformer."): v for k, v in s.items()}),
    "angles": ("llama", lambda state: state | ANGLES),
}


def test_files_of_older_versions_open_as_they_were(tmp_path):
    for case, (name, change) in OLD_NAMES.items():
        folder = folder_of(CASES[name], "safetensors", tmp_path / case)
        expected = tv.load(folder, device="cpu").module.state_dict()
        safetensors.torch.save_file(change(state_of(folder)), folder / "model.safetensors")
        found = opens(folder, notes=()).module.state_dict()
        assert all(torch.equal(found[name], expected[name]) for name in expected), case


def test_weights_that_the_class_does_not_use_are_noted(tmp_path):
    whole = made("BertForPreTraining", "BertConfig", **CASES["bert"].words)
    folder = saved(whole, tmp_path / "bert")
    both = opens(reworded(folder, architectures=None), gives="words", notes=())
    assert type(both.module) is type(whole)
    one = tv.load(reworded(folder, architectures=["BertForMaskedLM"]), device="cpu")
    assert "also holds 4 weights that it does not use (bert.pooler.dense.bias" in one.notes[0]
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        assert torch.equal(one.calls.forward(ids), both.calls.forward(ids))
    other = {"bert.pooler.dense.other": torch.zeros(3)}
    refused(reweighted(folder, state_of(folder), **other), r"dense\.other")
    folder = folder_of(CASES["vit"], "safetensors", tmp_path / "vit")
    pooler = {"vit.pooler.dense.weight": torch.ones(D, D), "vit.pooler.dense.bias": torch.ones(D)}
    note = tv.load(reweighted(folder, state_of(folder), **pooler), device="cpu").notes[0]
    assert "also holds 2 weights that it does not use (vit.pooler.dense.bias" in note


def test_experts_that_are_missing_are_named(tmp_path):
    words = CASES["llama"].words | {"num_local_experts": 3, "num_experts_per_tok": 2}
    words |= {"hidden_size": 16, "intermediate_size": 24}  # the library's kernels need fours
    folder = saved(made("MixtralForCausalLM", "MixtralConfig", **words), tmp_path)
    tv.load(folder, device="cpu")
    state = state_of(folder)
    name = next(n for n in state if "experts.1." in n)
    refused(reweighted(folder, state, **{name: None}), r"model\.layers\.0\.mlp\.experts")


#: Words of config.json and the message; `hostile/hugging.py` has more.
CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantised \(gptq\)"),
    ({"architectures": ["BertForEverything"]}, "no architecture 'BertForEvery"),
    ({"architectures": ["logging"]}, "has no architecture 'logging'"),
    ({"architectures": [3]}, r"is \[3\]; it is a list of names of classes"),
    ({"architectures": 3}, "is 3; it is a list of names of classes"),
    ({"architectures": {"a": 1}}, "it is a list of names of classes"),
    ({"architectures": ["x" * 300_000]}, r"no architecture 'x{79}\.\.\. correct"),
    ({"architectures": ["BertModel"]}, "lacks the weight pooler.dense.bias"),
    ({"max_position_embeddings": 10**6}, r"is \[23, 20\] in .*\[1000000, 20\]"),
    ({"num_labels": 10**9}, "num_labels=1,000,000,000"),
    ({"num_hidden_layers": [3]}, "config.json"),
]


def test_configs_that_do_not_fit_are_refused(folder):
    config = (folder / "config.json").read_text()
    for words, message in CONFIGS:
        refused(reworded(folder, config, **words), message)
    reworded(folder, config, model_type=None)
    refused(folder, "needs a config.json with a model_type", layout="hugging_face")


def test_words_that_choose_code_or_files_choose_nothing(folder):
    config = (folder / "config.json").read_text()
    expected = tv.trace(tv.load(folder, device="cpu"), [5, 6, 7], check=False).logits
    for words in (
        {"attn_implementation": "somebody/kernel"},
        {"_attn_implementation": "flash_attention_2"},
        {"_attn_implementation_internal": "somebody/kernel"},
        {"use_kernels": True, "fusion_config": {"patch_embeddings": True}},
        {"transformers_weights": "elsewhere.bin"},
        {"_name_or_path": "somebody/model", "return_dict": False, "output_attentions": True},
    ):
        model = tv.load(reworded(folder, config, **words), device="cpu")
        found = tv.trace(model, [5, 6, 7], check=False).logits
        assert (found == expected).all(), words
        assert model.module.config._attn_implementation in ("sdpa", "eager"), words


def test_damaged_files_beside_the_weights_are_named(tmp_path):
    folder = folder_of(CASES["vit"], "safetensors", tmp_path)
    for file in ("generation_config.json", "preprocessor_config.json"):
        for content in ("{", "[1]"):
            (folder / file).write_text(content)
            refused(folder, file.replace(".", r"\."))
        (folder / file).write_text('{"size": {"height": "x"}}')
        if "preprocessor" in file:
            refused(folder, r"preprocessor_config\.json")
        else:
            tv.load(folder, device="cpu")


def test_models_that_cannot_be_shown_say_why(tmp_path):
    one = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    for cls, config, words, message in (
        ("UniSpeechModel", "UniSpeechConfig",
         {"hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": 2, "conv_dim": [8],
          "intermediate_size": 9, "conv_kernel": [3], "conv_stride": [2],
          "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
          "feat_extract_norm": "layer", "do_stable_layer_norm": False},
         r"reads input_values.*with tv\.probe\(module\)"),
        ("FunnelBaseModel", "FunnelConfig",
         {"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 24, "block_sizes": [1, 1],
          "num_decoder_layers": 1, "vocab_size": 37, "pad_token_id": 1},
         "joins or adds tokens between its layers"),
        ("ElectraForPreTraining", "ElectraConfig", TEXT | BERT | {"embedding_size": 16},
         r"neither words nor classes nor states, but numbers \[1, 6\]"),
        ("Qwen3NextForCausalLM", "Qwen3NextConfig",
         TEXT | BERT | one | {"hidden_size": 64, "head_dim": 64, "linear_num_key_heads": 1,
          "linear_num_value_heads": 1, "layer_types": ["linear_attention"], "num_experts": 0},
         "no attention that could be shown"),
    ):  # fmt: skip
        refused(saved(made(cls, config, **words), tmp_path / cls), message)


def test_packages_that_are_missing_or_do_not_fit_are_named(folder, monkeypatch):
    own = importlib.util.find_spec
    monkeypatch.setattr(
        "transformer_viz.checkpoints.hugging_face.layout.find_spec",
        lambda name: None if name == "accelerate" else own(name),
    )
    refused(folder, "needs the package accelerate: pip install accelerate", device="auto")
    with (
        pytest.raises(CheckpointError, match="torchvision that is installed does not fit"),
        library(),
    ):
        raise RuntimeError("operator torchvision::nms does not exist")
    with pytest.raises(RuntimeError, match="something else"), library():
        raise RuntimeError("something else")


def test_a_folder_of_the_librarys_cache_has_the_models_name(gpt2, tmp_path):
    snapshot = tmp_path / "models--lab--tiny" / "snapshots" / "0f"
    snapshot.mkdir(parents=True)
    for path in gpt2.iterdir():
        (snapshot / path.name).symlink_to(path)
    opens(snapshot, name="lab/tiny")
