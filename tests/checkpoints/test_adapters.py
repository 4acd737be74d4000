"""Adapter folders are merged in memory: W + (alpha / r) B A, summed here by hand in float64."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

import transformer_viz as tv

from .hugging_face import BERT, CASES, TEXT, D, P, V, folder_of, made, saved, state_of
from .opening import opens, refused

LORA = {"peft_type": "LORA", "r": 3, "lora_alpha": 5, "init_lora_weights": True, "bias": "none"}
Q = "model.layers.1.self_attn.q_proj"


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def adapter(folder: Path, tensors: dict[str, Tensor], **words: Any) -> Path:
    """Write a folder as peft does; tensors have the names of the model's parts."""
    folder.mkdir(exist_ok=True)
    named = {f"base_model.model.{name}": tensor for name, tensor in tensors.items()}
    safetensors.torch.save_file(named, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(LORA | words))
    return folder


def factors(name: str, size_out: int, size_in: int, rank: int = 3) -> dict[str, Tensor]:
    return {
        f"{name}.lora_A.weight": drawn(rank, size_in, seed=1),
        f"{name}.lora_B.weight": drawn(size_out, rank, seed=2),
    }


def product(pair: dict[str, Tensor]) -> Tensor:
    """Return B A, each number a sum over the rank."""
    a, b = (tensor.double() for tensor in pair.values())
    return sum(b[:, n, None] * a[None, n] for n in range(a.shape[0]))  # type: ignore[return-value]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return folder_of(CASES["llama"], "safetensors", tmp_path / "llama")


def weights(model: tv.Model) -> dict[str, Tensor]:
    return {name: tensor.double() for name, tensor in model.module.state_dict().items()}


def test_two_thin_matrices_are_added(base, tmp_path):
    pair, before = factors(Q, D, D), state_of(base)
    plain = weights(tv.load(base, device="cpu"))
    place = tmp_path / "tuned"
    for words, scale in (
        ({}, 5 / 3),
        ({"use_rslora": True}, 5 / 3**0.5),
        ({"alpha_pattern": {"layers.1.*q_proj": 7}}, 7 / 3),
        ({"alpha_pattern": {"k_proj": 7, "proj": 9}}, 5 / 3),  # patterns of other parts
    ):
        model = opens(adapter(place, pair, **words), {"base": base}, name="tuned", folder=place,
                      layout="hugging_face")  # fmt: skip
        assert "The adapter tuned (LORA) is merged into llama in memory" in model.notes[-1]
        expected = {name: tensor.double() for name, tensor in before.items()}
        expected[f"{Q}.weight"] += scale * product(pair)
        found = weights(model)
        assert all(torch.allclose(found[n], expected[n], atol=2e-6) for n in expected), words
        assert [n for n in plain if not torch.equal(plain[n], found[n])] == [f"{Q}.weight"], words
    assert tv.trace(model, [5, 6, 7]).report.status == "green"
    half = tv.load(place, device="cpu", base=base, dtype="bfloat16").module
    whole = before[f"{Q}.weight"].bfloat16().double() + 5 / 3 * product(pair)
    assert torch.equal(half.get_submodule(Q).weight, whole.float().bfloat16())  # summed in float32
    file = place / "adapter_model.safetensors"
    torch.save(safetensors.torch.load_file(file), place / "adapter_model.bin")
    file.unlink()
    pickled = tv.load(place, device="cpu", base=base)
    assert torch.equal(weights(pickled)[f"{Q}.weight"], found[f"{Q}.weight"])
    assert pickled.hash != model.hash


def test_weights_stored_the_other_way_round(tmp_path):
    base = folder_of(CASES["gpt2"], "safetensors", tmp_path / "gpt2")
    name = "transformer.h.1.attn.c_attn"
    pair, table = factors(name, 3 * D, D), "transformer.wte"
    rows = {f"{table}.lora_embedding_A": drawn(3, V), f"{table}.lora_embedding_B": drawn(D, 3)}
    whole = {"transformer.ln_f.bias": drawn(D, seed=4), f"{name}.base_layer.bias": drawn(3 * D)}
    place = adapter(tmp_path / "tuned", pair | rows | whole, fan_in_fan_out=True)
    found, before = weights(tv.load(place, device="cpu", base=base)), state_of(base)
    change = 5 / 3 * product(pair)
    assert torch.allclose(found[f"{name}.weight"], before[f"{name}.weight"] + change.T, atol=2e-6)
    grown = before[f"{table}.weight"] + 5 / 3 * product(rows).T
    assert torch.allclose(found[f"{table}.weight"], grown, atol=2e-6)
    for other, tensor in {  # the output is no longer tied
        "lm_head.weight": before[f"{table}.weight"],
        "transformer.ln_f.bias": whole["transformer.ln_f.bias"],
        f"{name}.bias": whole[f"{name}.base_layer.bias"],
    }.items():
        assert torch.equal(found[other], tensor.double()), other


def test_its_model_is_found(base, tmp_path):
    pair, place = factors(Q, D, D), tmp_path / "tuned"
    for named, words in (
        (None, {"base": base}),
        (str(base), {}),
        ("somebody/llama", {}),  # a folder of this name is beside it
    ):
        model = tv.load(adapter(place, pair, base_model_name_or_path=named), device="cpu", **words)
        assert "is merged into llama in memory" in model.notes[-1], named
        assert model.file_size > 1000 and len(model.hash) == 64, named
    # a config may name a folder only where the caller allows it
    adapter(place, pair, base_model_name_or_path=str(base))
    refused(place, "not the model that it changes", base=False)
    refused(base, "names the model of an adapter, and model.safetensors is none", base=tmp_path)
    refused(place, "There is no model", base="no-such")
    refused(place, "so is for Hugging Face", base="en-de")
    base.rename(place / "llama")
    inside = [adapter(place, pair, base_model_name_or_path="llama"), adapter(place / "llama", pair)]
    for folder in inside:
        model = tv.load(folder, device="cpu")
        assert "is merged into llama in memory" in model.notes[-1], folder
    (place / "llama").rename(tmp_path / "elsewhere")
    for named in ("somebody/llama-7b", None, "../llama", "/no/such"):
        adapter(place, pair, base_model_name_or_path=named)
        what = rf" \({named}\)" if named else ""
        refused(place, rf"not the model that it changes{what}; .*base=")


def test_a_new_head_makes_it_a_model_of_its_task(tmp_path):
    words = TEXT | BERT | {"max_position_embeddings": P}
    base = saved(made("BertForMaskedLM", "BertConfig", **words), tmp_path / "bert")
    head = {"classifier.weight": drawn(7, D), "classifier.bias": drawn(7)}
    pair = factors("bert.encoder.layer.0.attention.self.query", D, D)
    place = adapter(tmp_path / "tuned", pair | head, task_type="TOKEN_CLS")
    model = opens(place, {"base": base}, origin={"heads": "file"})
    assert type(model.module).__name__ == "BertForTokenClassification"
    assert torch.equal(model.module.classifier.weight, head["classifier.weight"])


PATTERN = "The pattern .* in alpha_pattern cannot be used"
TWO = "plain LoRA has two matrices"
A, B = f"{Q}.lora_A.weight", f"{Q}.lora_B.weight"
#: Words of the config, tensors beside or in place of the factors of ``Q``, the message.
REFUSED: list[tuple[dict[str, Any], dict[str, Tensor], str]] = [
    ({"peft_type": "IA3"}, {}, r"its kind is IA3\), .*pip install peft"),
    ({"use_dora": True}, {}, "it sets use_dora"),
    ({"init_lora_weights": "pissa"}, {}, "began by changing the model"),
    ({}, {f"{Q}.lora_magnitude_vector": drawn(D)}, "it holds .*magnitude_vector"),
    ({"layer_replication": [[0, 2], [1, 2]]}, {}, "it sets layer_replication"),
    ({"peft_type": "PREFIX_TUNING"}, {}, "PREFIX_TUNING. puts tokens of its own"),
    ({"alpha_pattern": {r"(\w+\.?)+x": 2}}, {}, PATTERN),
    ({"alpha_pattern": {"(": 2}}, {}, PATTERN),
    ({"alpha_pattern": {".*.*.*.*x": 2}}, {}, PATTERN),
    ({"alpha_pattern": {"a" * 400: 2}}, {}, PATTERN),
    ({"lora_alpha": "8"}, {}, "got "),
    ({"alpha_pattern": [3]}, {}, "got "),
    ({}, factors("model.layers.9.self_attn.q_proj", D, D), "changes model.layers.9.*"),
    ({}, factors(Q, D + 1, D), r"q_proj.weight as \[21, 20\], and the model as"),
    ({}, {f"{Q}0.lora_A.weight": drawn(3, D)}, TWO),
    ({}, {A: drawn(3, D, 1, 1), B: drawn(D, 3)}, TWO),  # of a convolution
    ({}, {A: drawn(3, D), B: drawn(D, 4)}, "do not fit together"),
    ({}, {A: torch.full((3, D), torch.nan)}, "NaN or infinite"),
    ({}, {"lm_head.weight": drawn(V + 1, D)}, r"lm_head.weight as \[38, 20\]"),
]


def test_adapters_of_other_kinds_or_that_do_not_fit_are_refused(base, tmp_path, monkeypatch):
    """Only plain LoRA is merged without peft."""
    own = importlib.util.find_spec
    monkeypatch.setattr(
        "transformer_viz.checkpoints.hugging_face.adapter.find_spec",
        lambda name: None if name == "peft" else own(name),
    )
    for words, more, message in REFUSED:
        place = adapter(tmp_path / "tuned", factors(Q, D, D) | more, **words)
        refused(place, message, base=base)
