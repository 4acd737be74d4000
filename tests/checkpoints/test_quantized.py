"""Folders with quantised weights compute what the library computes with them, or say what lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from torch import Tensor, nn

import transformer_viz as tv
from tests.support.versions import at_most
from transformer_viz.checkpoints import CheckpointError, Model
from transformer_viz.checkpoints.hugging_face import quantized

from .hugging_face import TEXT, made, saved

IDS = [5, 11, 17, 36, 9, 7]
WORDS = TEXT | {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 2,
                "max_position_embeddings": 32}  # fmt: skip
OSS = WORDS | {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 16}
OSS |= {"intermediate_size": 64, "layer_types": ["full_attention", "sliding_attention"]}
BLOCK = 32
#: What four bits mean in mxfp4, as its specification lists it.
FOUR_BITS = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
Turned = Callable[[str, Tensor], dict[str, Tensor]]


def llama(folder: Path) -> Path:
    return saved(made("LlamaForCausalLM", "LlamaConfig", **WORDS), folder)


def rewritten(folder: Path, words: dict[str, Any], turned: Turned) -> Path:
    """The folder with its weights quantised, and the words of the config that say how."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": words}))
    state = safetensors.torch.load_file(folder / "model.safetensors")
    small = {new: t for name, old in state.items() for new, t in turned(name, old).items()}
    safetensors.torch.save_file(small, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def to_fp8(name: str, weight: Tensor) -> dict[str, Tensor]:
    if "proj" not in name:
        return {name: weight}
    tall, wide = (size // BLOCK for size in weight.shape)
    blocks = weight.reshape(tall, BLOCK, wide, BLOCK)
    scale = blocks.abs().amax((1, 3), keepdim=True) / 448
    small = (blocks / scale).reshape(weight.shape).to(torch.float8_e4m3fn)
    return {name: small, f"{name}_scale_inv": scale.reshape(tall, wide)}


def fp8(folder: Path) -> Path:
    words = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"}
    return rewritten(llama(folder), words | {"weight_block_size": [BLOCK, BLOCK]}, to_fp8)


def random_mxfp4(name: str, weight: Tensor) -> dict[str, Tensor]:
    """Two numbers a byte, and a power of two for each 32 of them, in the place of the experts."""
    if not name.endswith(("gate_up_proj", "down_proj")):
        return {name: weight}
    draw = torch.Generator().manual_seed(len(name))
    experts, wide, tall = weight.shape
    shape = (experts, tall, wide // BLOCK)
    blocks = torch.randint(256, (*shape, BLOCK // 2), generator=draw, dtype=torch.uint8)
    scales = torch.randint(121, 125, shape, generator=draw, dtype=torch.uint8)
    return {f"{name}_blocks": blocks, f"{name}_scales": scales}


def mxfp4(folder: Path) -> Path:
    saved(made("GptOssForCausalLM", "GptOssConfig", **OSS), folder)
    return rewritten(folder, {"quant_method": "mxfp4"}, random_mxfp4)


def by_library(folder: Path, config: Any) -> Path:
    """The folder that the library itself writes of a model that it quantised."""
    plain = llama(folder.parent / "plain")
    model = transformers.LlamaForCausalLM.from_pretrained(plain, quantization_config=config)
    return saved(model, folder)


def eight_bits(folder: Path) -> Path:
    return by_library(folder, transformers.BitsAndBytesConfig(load_in_8bit=True))


def four_bits(folder: Path) -> Path:
    words = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    return by_library(folder, transformers.BitsAndBytesConfig(**words))


def torchao(folder: Path) -> Path:
    quantization = __import__("torchao.quantization", fromlist=["Int8WeightOnlyConfig"])
    return by_library(folder, transformers.TorchAoConfig(quantization.Int8WeightOnlyConfig()))


FOLDERS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "fp8": ("fp8", fp8),
    "mxfp4": ("mxfp4", mxfp4),
    "eight bits": ("bitsandbytes", eight_bits),
    "four bits": ("bitsandbytes", four_bits),
    "torchao": ("torchao", torchao),
}


def lacking(method: str) -> list[str]:
    return [name for name in quantized.PACKAGES[method] if find_spec(name) is None]


def worded(folder: Path, **words: Any) -> Path:
    """A small folder that says its weights are quantised so."""
    path = llama(folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | words))
    return folder


def by_hand(folder: Path) -> Any:
    """The library's own model of a folder, its attention in plain products."""
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    words = {"dtype": "auto", "attn_implementation": "eager"}
    return getattr(transformers, name).from_pretrained(folder, **words).eval()


def same_as_library(model: Model, folder: Path, method: str) -> None:
    oracle = by_hand(folder)
    with torch.inference_mode():
        out = oracle(torch.tensor([IDS]), output_attentions=True)
    trace = tv.trace(model, IDS)
    assert [site.weights.shape for site in trace.attentions] == [(4, 6, 6)] * 2
    for site, maps in zip(trace.attentions, out.attentions, strict=True):
        np.testing.assert_allclose(site.weights, maps[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(trace.logits, out.logits[0].numpy(), rtol=1e-5, atol=1e-5)
    hidden = method == "bitsandbytes"  # its products are seen by no witness, and that is said
    assert trace.report.status == ("amber" if hidden else "green")
    assert any("no output projection" in line for line in trace.report.untold) == hidden
    assert not trace.report.unrecognised


@pytest.mark.slow
def test_a_quantised_folder_opens_where_its_package_is(tmp_path):
    for case, (method, write) in FOLDERS.items():
        if lacking(method):
            folder = worded(tmp_path / case, quantization_config={"quant_method": method})
            with pytest.raises(CheckpointError, match=f"pip install {lacking(method)[0]}"):
                tv.load(folder, device="cpu")
            continue
        folder = write(tmp_path / case)
        model = tv.load(folder, device="cpu")
        said = [f"quantised{way} ({method})" for way in ("", " in the file")]
        assert any(text in note for note in model.notes for text in said), case
        # An older library rounds weights of mxfp4 to bfloat16, and the witness does not.
        if not (method == "mxfp4" and at_most("transformers", "5.22")):
            same_as_library(model, folder, method)


def test_numbers_are_those_of_the_format(tmp_path):
    """fp8 is scaled by its blocks; mxfp4 has two numbers a byte and a power of two for each 32."""
    folder = fp8(tmp_path / "fp8")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    scale = state[f"{name}_scale_inv"].repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    found = tv.load(folder, device="cpu").module.get_parameter(name)
    torch.testing.assert_close(found, state[name].float() * scale, rtol=1e-6, atol=0)
    half = tv.load(folder, device="cpu", dtype="bfloat16")
    assert (half.dtype, half.module.get_parameter(name).dtype) == ("bfloat16", torch.bfloat16)

    folder = mxfp4(tmp_path / "mxfp4")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    name = "model.layers.1.mlp.experts.down_proj"
    small, powers = state[f"{name}_blocks"], state[f"{name}_scales"]
    values = torch.tensor(FOUR_BITS)
    pairs = torch.stack((values[(small & 15).long()], values[(small >> 4).long()]), -1)
    expected = pairs.flatten(-2) * 2.0 ** (powers.float() - 127)[..., None]
    found = tv.load(folder, device="cpu").module.get_parameter(name)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected.flatten(-2).transpose(1, 2))


def test_words_that_nothing_opens_are_refused(tmp_path, monkeypatch):
    slow = {"quant_method": "fp8", "modules_to_not_convert": ["(a+)+$"]}
    for config, more, message in (
        ({"quant_method": "gptq", "bits": 4}, {}, r"\(gptq\), which is not opened here"),
        ({"bits": 4}, {}, r"\(not said how\), which is not opened here"),
        ([4], {}, r"\(not said how\), which is not opened here"),
        (slow, {}, r"the pattern '\(a\+\)\+\$', which could take for ever"),
        ({"quant_method": "fp8"}, {"architectures": None}, "names no architecture"),
    ):
        with pytest.raises(CheckpointError, match=message):
            tv.load(worded(tmp_path, quantization_config=config, **more), device="cpu")
    monkeypatch.setattr(quantized, "find_spec", lambda name: None)
    for method, needed in quantized.PACKAGES.items():
        folder = worded(tmp_path, quantization_config={"quant_method": method})
        with pytest.raises(CheckpointError) as caught:
            tv.load(folder, device="cpu")
        packages = f"the package {' and '.join(needed)}: pip install {' '.join(needed)}"
        assert str(caught.value) == (
            f"The weights are quantised ({method}), which needs {packages}; "
            "or open the model that they were made from."
        )
    monkeypatch.setattr(quantized, "find_spec", lambda name: name)
    folder = worded(tmp_path, quantization_config={"load_in_8bit": True})
    with pytest.raises(CheckpointError, match="leave dtype='float32' out"):
        tv.load(folder, device="cpu", dtype="float32")


def test_weights_that_do_not_fit_are_named(tmp_path):
    folder = fp8(tmp_path)
    path, config = folder / "model.safetensors", folder / "config.json"
    state = safetensors.torch.load_file(path)
    left = {n: t for n, t in state.items() if "layers.1.self_attn.q_proj" not in n}
    for content, said in (
        (left, r"missing model\.layers\.1\.self_attn\.q_proj"),
        ({**state, "odd": torch.zeros(3)}, "unexpected odd"),
    ):
        safetensors.torch.save_file(content, path, metadata={"format": "pt"})
        with pytest.raises(CheckpointError, match=said):
            tv.load(folder, device="cpu")
    with pytest.raises(CheckpointError, match="opened on one device"):
        tv.load(folder, device="auto")
    # A config beyond the file is refused before it costs memory.
    words = json.loads(config.read_text())
    config.write_text(json.dumps(words | {"intermediate_size": 10**9}))
    with pytest.raises(CheckpointError, match=r"can hold .* at most"):
        tv.load(folder, device="cpu")
    config.write_text(json.dumps(words))
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"without adapter_config\.json"):
        tv.load(path, device="cpu")


class Scales:
    """What a quantised layer keeps beside its numbers, in an object of its own."""

    def __init__(self, scale: Tensor):
        self.scale = scale


class Eight(nn.Linear):
    """A linear map of int8 numbers whose scales hang on the weight, as bitsandbytes hangs them."""

    def __init__(self, plain: nn.Linear):
        super().__init__(plain.in_features, plain.out_features, bias=False)
        scale = plain.weight.detach().abs().amax(1, keepdim=True) / 127
        small = (plain.weight.detach() / scale).round().to(torch.int8)
        self.weight: Any = nn.Parameter(small, requires_grad=False)
        self.weight.kept = Scales(scale)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.float() * self.weight.kept.scale)


def test_scales_beside_the_weights_are_no_input(tmp_path):
    module = made("LlamaForCausalLM", "LlamaConfig", **WORDS)
    for layer in module.model.layers:
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(layer.self_attn, name, Eight(getattr(layer.self_attn, name)))
    module.set_attn_implementation("eager")
    with torch.inference_mode():
        out = module(torch.tensor([IDS]), output_attentions=True)
        with tv.probe(module) as run:
            module(torch.tensor([IDS]))
    assert [(site.kind, site.heads) for site in run.attentions] == [("self", 4)] * 2
    for site, maps in zip(run.attentions, out.attentions, strict=True):
        assert torch.equal(site.weights, maps)
