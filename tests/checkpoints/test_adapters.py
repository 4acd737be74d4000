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
from transformer_viz.checkpoints import CheckpointError

from .hugging_face import BERT, CASES, TEXT, D, P, V, folder_of, made, saved, state_of

LORA = {"peft_type": "LORA", "r": 3, "lora_alpha": 5, "init_lora_weights": True, "bias": "none"}
Q = "model.layers.1.self_attn.q_proj"


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def adapter(folder: Path, tensors: dict[str, Tensor], **words: Any) -> Path:
    """A folder as peft writes it; the names of tensors are those of the model's parts."""
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
    """B A, each number a sum over the rank."""
    a, b = (tensor.double() for tensor in pair.values())
    return sum(b[:, n, None] * a[None, n] for n in range(a.shape[0]))  # type: ignore[return-value]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return folder_of(CASES["llama"], "safetensors", tmp_path / "llama")


def weights(model: tv.Model) -> dict[str, Tensor]:
    return {name: tensor.double() for name, tensor in model.module.state_dict().items()}


SCALES: dict[str, tuple[dict[str, Any], float]] = {
    "plain": ({}, 5 / 3),
    "rank stabilised": ({"use_rslora": True}, 5 / 3**0.5),
    "its own alpha": ({"alpha_pattern": {"layers.1.*q_proj": 7}}, 7 / 3),
    "another's alpha": ({"alpha_pattern": {"k_proj": 7, "proj": 9}}, 5 / 3),
}


@pytest.mark.parametrize("case", SCALES)
def test_two_thin_matrices_are_added(case, base, tmp_path):
    words, scale = SCALES[case]
    pair = factors(Q, D, D)
    model = tv.load(adapter(tmp_path / "tuned", pair, **words), device="cpu", base=base)
    expected = {name: tensor.double() for name, tensor in state_of(base).items()}
    expected[f"{Q}.weight"] = expected[f"{Q}.weight"] + scale * product(pair)
    found = weights(model)
    assert all(torch.allclose(found[n], expected[n], atol=2e-6) for n in expected)
    plain = weights(tv.load(base, device="cpu"))
    assert [n for n in plain if not torch.equal(plain[n], found[n])] == [f"{Q}.weight"]
    assert (model.name, model.folder, model.layout) == ("tuned", tmp_path / "tuned", "hugging_face")
    assert "The adapter tuned (LORA) is merged into llama in memory" in model.notes[-1]
    assert tv.trace(model, [5, 6, 7]).report.status == "green"


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
    assert torch.equal(
        found["lm_head.weight"], before[f"{table}.weight"].double()
    )  # no longer tied
    assert torch.equal(found["transformer.ln_f.bias"], whole["transformer.ln_f.bias"].double())
    assert torch.equal(found[f"{name}.bias"], whole[f"{name}.base_layer.bias"].double())


def test_half_precision_is_summed_in_float32(base, tmp_path):
    pair = factors(Q, D, D)
    place = adapter(tmp_path / "tuned", pair)
    found = tv.load(place, device="cpu", base=base, dtype="bfloat16").module.get_submodule(Q).weight
    rounded = state_of(base)[f"{Q}.weight"].bfloat16().double()
    assert torch.equal(found, (rounded + 5 / 3 * product(pair)).float().bfloat16())


@pytest.mark.parametrize("way", ["given", "a path", "beside it", "in its folder", "its own folder"])
def test_its_model_is_found(way, base, tmp_path):
    pair = factors(Q, D, D)
    named = {"a path": str(base), "beside it": "somebody/llama", "in its folder": "llama"}
    place = adapter(tmp_path / "tuned", pair, base_model_name_or_path=named.get(way))
    if way == "in its folder":
        base.rename(place / "llama")
    if way == "its own folder":
        adapter(base, pair)
        place = base
    model = tv.load(place, device="cpu", **({"base": base} if way == "given" else {}))
    assert f"is merged into {'llama'} in memory" in model.notes[-1]
    assert model.file_size > 1000
    assert len(model.hash) == 64


def test_files_of_torch_save_too(base, tmp_path):
    place = adapter(tmp_path / "tuned", factors(Q, D, D))
    expected = tv.load(place, device="cpu", base=base)
    file = place / "adapter_model.safetensors"
    torch.save(safetensors.torch.load_file(file), place / "adapter_model.bin")
    file.unlink()
    found = tv.load(place, device="cpu", base=base)
    assert torch.equal(weights(found)[f"{Q}.weight"], weights(expected)[f"{Q}.weight"])
    assert found.hash != expected.hash


def test_a_new_head_makes_it_a_model_of_its_task(tmp_path):
    words = TEXT | BERT | {"max_position_embeddings": P}
    base = saved(made("BertForMaskedLM", "BertConfig", **words), tmp_path / "bert")
    head = {"classifier.weight": drawn(7, D), "classifier.bias": drawn(7)}
    pair = factors("bert.encoder.layer.0.attention.self.query", D, D)
    place = adapter(tmp_path / "tuned", pair | head, task_type="TOKEN_CLS")
    model = tv.load(place, device="cpu", base=base)
    assert type(model.module).__name__ == "BertForTokenClassification"
    assert torch.equal(model.module.classifier.weight, head["classifier.weight"])
    assert model.provenance["heads"] == "file"


def refused(place: Path, message: str, **words: Any) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        tv.load(place, **({"device": "cpu"} | words))
    assert "\n" not in str(caught.value)
    assert str(caught.value)[-1] == "."


@pytest.mark.parametrize("named", ["somebody/llama-7b", None, "../llama", "/no/such"])
def test_a_model_that_is_not_here_is_asked_for(named, tmp_path):
    place = adapter(tmp_path / "tuned", factors(Q, D, D), base_model_name_or_path=named)
    what = f" ({named})" if named else ""
    refused(
        place, rf"not the model that it changes{what.replace('(', '.').replace(')', '.')}; .*base="
    )


def test_a_config_leads_nowhere_where_it_may_not(base, tmp_path):
    place = adapter(tmp_path / "tuned", factors(Q, D, D), base_model_name_or_path=str(base))
    tv.load(place, device="cpu")
    refused(place, "not the model that it changes", base=False)


def test_a_base_is_for_adapters(base, tmp_path):
    refused(base, "names the model of an adapter, and model.safetensors is none", base=tmp_path)
    refused(adapter(tmp_path / "tuned", factors(Q, D, D)), "There is no model", base="no-such")
    refused(tmp_path / "tuned", "so is for Hugging Face", base="en-de")


KINDS: dict[str, tuple[dict[str, Any], dict[str, Tensor], str]] = {
    "IA3": ({"peft_type": "IA3"}, {}, r"its kind is IA3\), .*pip install peft"),
    "DoRA": ({"use_dora": True}, {}, "it sets use_dora"),
    "begun elsewhere": ({"init_lora_weights": "pissa"}, {}, "began by changing the model"),
    "magnitudes": ({}, {f"{Q}.lora_magnitude_vector": drawn(D)}, "it holds .*magnitude_vector"),
    "repeated layers": ({"layer_replication": [[0, 2], [1, 2]]}, {}, "it sets layer_replication"),
    "prompts": ({"peft_type": "PREFIX_TUNING"}, {}, "PREFIX_TUNING. puts tokens of its own"),
}


@pytest.mark.parametrize("case", KINDS)
def test_other_kinds_are_named(case, base, tmp_path, monkeypatch):
    own = importlib.util.find_spec
    monkeypatch.setattr(
        "transformer_viz.checkpoints.hugging_face.adapter.find_spec",
        lambda name: None if name == "peft" else own(name),
    )
    words, more, message = KINDS[case]
    refused(adapter(tmp_path / "tuned", factors(Q, D, D) | more, **words), message, base=base)


@pytest.mark.parametrize("pattern", [r"(\w+\.?)+x", "(", ".*.*.*.*x", "a" * 400])
def test_patterns_that_cannot_be_tried(pattern, base, tmp_path):
    place = adapter(tmp_path / "tuned", factors(Q, D, D), alpha_pattern={pattern: 2})
    refused(place, "The pattern .* in alpha_pattern cannot be used", base=base)


@pytest.mark.parametrize("words", [{"lora_alpha": "8"}, {"alpha_pattern": [3]}])
def test_an_alpha_is_a_number(words, base, tmp_path):
    place = adapter(tmp_path / "tuned", factors(Q, D, D), **words)
    refused(place, "got ", base=base)


FAULTS: dict[str, tuple[dict[str, Tensor], str]] = {
    "another model": (factors("model.layers.9.self_attn.q_proj", D, D), "changes model.layers.9.*"),
    "another size": (factors(Q, D + 1, D), r"q_proj.weight as \[21, 20\], and the model as"),
    "one factor": ({f"{Q}.lora_A.weight": drawn(3, D)}, "plain LoRA has two matrices"),
    "a picture's": ({f"{Q}.lora_A.weight": drawn(3, D, 1, 1), f"{Q}.lora_B.weight": drawn(D, 3)},
                    "plain LoRA has two matrices"),
    "torn": ({f"{Q}.lora_A.weight": drawn(3, D), f"{Q}.lora_B.weight": drawn(D, 4)},
             "do not fit together"),
    "no number": ({f"{Q}.lora_A.weight": torch.full((3, D), torch.nan)}, "NaN or infinite"),
    "a head of another": ({"lm_head.weight": drawn(V + 1, D)}, r"lm_head.weight as \[38, 20\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_adapters_that_do_not_fit_are_refused(case, base, tmp_path):
    tensors, message = FAULTS[case]
    refused(adapter(tmp_path / "tuned", tensors), message, base=base)
