"""Models of several parts: as language models on text, and each tower alone, against the library.

Every folder is random and small; the witness is the library's own report of its eager attention.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner

import transformer_viz as tv
from tests.support.pictured import EYES, IDS, PICTURED, SIZES
from tests.support.pictured import TEXT as WORDS
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.cli.main import main

from . import hugging_face
from .hugging_face import made, saved

SOURCE = [9, 11, 17, 26, 8, 10]
CLOSE = 1e-5
TEXT = SIZES | IDS | {"vocab_size": 29, "max_position_embeddings": 64}
#: By name: class of the model and of its config, and the config's words.
SEEING: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{name: (f"{kind}ForConditionalGeneration", f"{kind}Config", words)
       for name, (kind, words, _, _) in copy.deepcopy(PICTURED).items()},
    "llama4": ("Llama4ForConditionalGeneration", "Llama4Config", {
        "text_config": WORDS | {"intermediate_size_mlp": 48, "num_local_experts": 2,
                                "num_experts_per_tok": 1, "attention_chunk_size": 8,
                                "no_rope_layers": [1, 0]},
        "vision_config": EYES | {"intermediate_size": 128, "vision_output_dim": 32,
                                 "projector_input_dim": 32, "projector_output_dim": 32}}),
    "mllama": ("MllamaForConditionalGeneration", "MllamaConfig", {
        "text_config": TEXT | {"num_hidden_layers": 3, "num_key_value_heads": 2,
                               "cross_attention_layers": [1],
                               "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        "vision_config": EYES | {"num_global_layers": 1, "attention_heads": 4,
                                 "vision_output_dim": 64, "intermediate_layers_indices": [0],
                                 "supported_aspect_ratios": [[1, 1]]}}),
}  # fmt: skip
SEEING["gemma3"][2]["text_config"] |= {"sliding_window": 4}  # fewer than the source
TOWERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clip": ("CLIPModel", "CLIPConfig", {"text_config": TEXT | {"projection_dim": 16},
                                         "vision_config": EYES, "projection_dim": 16}),
    "siglip": ("SiglipModel", "SiglipConfig", {"text_config": TEXT | {"projection_size": 32},
                                               "vision_config": EYES}),
    "blip": ("BlipForConditionalGeneration", "BlipConfig", {
        "text_config": TEXT | {"encoder_hidden_size": 32, "sep_token_id": 3},
        "vision_config": EYES, "image_text_hidden_size": 16, "projection_dim": 16}),
    "gemma3": SEEING["gemma3"],
    "llava": SEEING["llava"],
}  # fmt: skip
PARTS = [("clip", "text_model"), ("clip", "vision_model"), ("siglip", "text_model"),
         ("siglip", "vision_model"), ("blip", "text_decoder"), ("blip", "vision_model"),
         ("gemma3", "model.vision_tower"), ("llava", "model.vision_tower"),
         ("llava", "model.language_model")]  # fmt: skip


def folder_of(name: str, folder: Path) -> Path:
    cls, config, words = (SEEING | TOWERS)[name]
    return saved(made(cls, config, **words), folder / name)


def eager(name: str, folder: Path) -> Any:
    """The library's own model of the folder, which reports what it attended to."""
    cls = getattr(transformers, (SEEING | TOWERS)[name][0])
    return cls.from_pretrained(folder, attn_implementation="eager").eval()


def agree(case: str, trace: tv.Trace, output: Any) -> None:
    """Compare every layer of the maps, and the logits, with the library's."""
    reported = [part[0].numpy() for part in output.attentions if part is not None]
    found = trace.attention(trace.maps[0])
    assert len(found) == len(reported), case
    assert all(np.abs(a - b).max() <= CLOSE for a, b in zip(found, reported, strict=True)), case
    if trace.logits is not None:
        assert np.abs(trace.logits - output.logits[0].numpy()).max() <= CLOSE, case
    assert trace.report.status == "green", case


@pytest.mark.slow
def test_a_model_that_sees_is_a_language_model_on_text(tmp_path):
    for name in SEEING:
        folder = folder_of(name, tmp_path)
        model = tv.load(folder, device="cpu")
        # PaliGemma reads a prompt both ways; its processor says so of each token
        both_ways = name == "paligemma"
        types = torch.zeros(1, len(SOURCE), dtype=torch.long)
        given = {"token_type_ids": types} if both_ways else {}
        with torch.inference_mode():
            output = eager(name, folder)(torch.tensor([SOURCE]), output_attentions=True, **given)
        agree(name, tv.trace(model, SOURCE), output)
        assert model.kind == ("encoder-only" if both_ways else "decoder-only"), name
        assert (model.takes, model.gives, model.max_tokens) == ("text", "words", 64), name
        assert "its vision part is not run" in model.notes[0], name
        assert (model.config["heads"], model.provenance["heads"]) == (4, "file"), name
        assert (model.pad_id, model.bos_id, model.eos_id) == (0, 1, 2), name
        if name in ("qwen2_vl", "llava"):  # padding is no position
            with torch.inference_mode():
                padded = model.calls.forward(torch.tensor([[9, 11, 0, 0, 12]]))[:, [0, 1, 4]]
                plain = model.calls.forward(torch.tensor([[9, 11, 12]]))
            assert torch.allclose(padded, plain, atol=2e-5), name
        if name == "llava":
            ids = torch.tensor([SOURCE])
            words = {"attention_mask": torch.ones_like(ids), "do_sample": False}
            theirs = model.module.generate(ids, max_new_tokens=5, **words)[0, len(SOURCE) :]
            best = tv.translate(model, SOURCE, max_tokens=5)[0]
            assert list(best.ids) == theirs.tolist()[: len(best.ids)]
            assert len(best.ids) == 5 or best.finished
        if name == "gemma3":
            other = tv.load(folder, device="cpu", norm_eps=1e-3)
            assert (other.config["norm_eps"], other.provenance["norm_eps"]) == (1e-3, "override")
            assert other.module.config.text_config.rms_norm_eps == 1e-3


@pytest.mark.slow
def test_each_part_opens_alone(tmp_path):
    for name, part in PARTS:
        folder = folder_of(name, tmp_path)
        model = tv.load(folder, device="cpu", part=part)
        theirs = eager(name, folder).get_submodule(part)
        sees = "vision" in part
        pixels = np.random.default_rng(0).normal(size=(3, 24, 24)).astype(np.float32)
        given: Any = {"pixel_values": torch.from_numpy(pixels)[None]} if sees else {}
        given = given or {"input_ids": torch.tensor([SOURCE])}
        with torch.inference_mode():
            output = theirs(**given, output_attentions=True)
        agree(f"{name} {part}", tv.trace(model, pixels if sees else SOURCE), output)
        assert model.takes == ("image" if sees else "text"), (name, part)
        assert f"only the part {part} is opened" in model.notes[-1], (name, part)


@pytest.mark.slow
def test_a_whole_that_needs_both_names_its_parts(tmp_path):
    for name, parts in (
        ("clip", "part=text_model or part=vision_model"),
        ("siglip", "part=text_model or part=vision_model"),
        ("blip", "part=vision_model or part=text_decoder"),
    ):
        folder = folder_of(name, tmp_path)
        for thing in (folder, eager(name, folder)):
            with pytest.raises(CheckpointError, match=f"open one of its parts alone: {parts}"):
                tv.load(thing, device="cpu")
        with pytest.raises(CheckpointError, match="no part 'visio' that opens alone; choose one"):
            tv.load(folder, device="cpu", part="visio")
    whole = hugging_face.folder_of(hugging_face.CASES["vit"], "safetensors", tmp_path / "vit")
    with pytest.raises(CheckpointError, match="no part 'eyes' that opens alone"):
        tv.load(whole, device="cpu", part="eyes")
    with pytest.raises(CheckpointError, match=r"Only a Hugging Face folder has parts.*leave part="):
        tv.load("labs/dot", device="cpu", part="both")
    words = ["inspect", str(tmp_path / "clip"), "--json", "--set", "part=vision_model"]
    said = CliRunner().invoke(main, words, catch_exceptions=False)
    assert json.loads(said.stdout)["takes"] == "image"


@pytest.mark.slow
def test_a_part_that_attends_in_windows_is_not_advised(tmp_path):
    """Donut, one with a Swin, and one with a plain ViT, as folders and in memory."""
    library, swin = transformers, {"image_size": 32, "patch_size": 4, "embed_dim": 8}
    swin |= {"depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
    plain = {"image_size": 16, "patch_size": 8, "hidden_size": 16, "num_hidden_layers": 1}
    plain |= {"num_attention_heads": 2, "intermediate_size": 16}
    sides = {f"{s}_{w}": n for s in ("encoder", "decoder") for w, n in
             {"layers": 1, "attention_heads": 2, "ffn_dim": 16}.items()}  # fmt: skip
    writes = library.MBartConfig(
        vocab_size=40, d_model=16, is_decoder=True, add_cross_attention=True, **sides
    )
    for name, eyes, advised in (
        ("donut", library.DonutSwinConfig(**swin), "part=decoder"),
        ("swin", library.SwinConfig(**swin), "part=decoder"),
        ("vit", library.ViTConfig(**plain), "part=encoder or part=decoder"),
    ):
        config = library.VisionEncoderDecoderConfig.from_encoder_decoder_configs(eyes, writes)
        module = library.VisionEncoderDecoderModel(config).eval()
        module.save_pretrained(tmp_path / name)
        said = f"reads a picture and writes a text.*one of its parts alone: {advised}\\.$"
        for thing in (tmp_path / name, module):
            with pytest.raises(CheckpointError, match=said):
                tv.load(thing, device="cpu")
            for word in advised.replace("part=", "").split(" or "):
                takes = "image" if word == "encoder" else "text"
                assert tv.load(thing, device="cpu", part=word).takes == takes, (name, word)


MIXED = TEXT | {"num_key_value_heads": 2, "use_mamba_kernels": False, "mamba_d_state": 4,
                "mamba_dt_rank": 4}  # fmt: skip
HYBRIDS: dict[str, tuple[str, str, dict[str, Any], tuple[int, ...]]] = {
    "jamba": ("JambaForCausalLM", "JambaConfig", MIXED | {
        "num_hidden_layers": 5, "attn_layer_period": 3, "attn_layer_offset": 1,
        "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 2,
        "num_experts_per_tok": 1}, (1, 4)),
    "zamba": ("ZambaForCausalLM", "ZambaConfig", MIXED | {
        "num_hidden_layers": 6, "num_key_value_heads": 4, "attn_layer_period": 3,
        "attn_layer_offset": 2, "n_mamba_heads": 2, "attention_hidden_size": 64,
        "attention_head_dim": 16}, (2, 5)),
    "qwen3_next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", WORDS | {
        "num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "num_experts": 2, "num_experts_per_tok": 1,
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}, (3,)),
    "falcon_h1": ("FalconH1ForCausalLM", "FalconH1Config", WORDS | {
        "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4,
        "mamba_chunk_size": 4}, (0, 1)),
}  # fmt: skip


def test_layers_that_attend_have_their_own_numbers(tmp_path):
    for name, (cls, config, words, numbers) in HYBRIDS.items():
        folder = saved(made(cls, config, **words), tmp_path / name)
        model = tv.load(folder, device="cpu")
        assert model.layer_numbers == numbers, name
        maps = tv.trace(model, SOURCE, check=False).attention("decoder")
        assert len(maps) == len(numbers), name  # counted from 0, as in every file
        said = " ".join(model.notes)
        if numbers == (0, 1):  # every layer attends
            assert "layers" not in said, name
        else:
            assert f"{', '.join(map(str, numbers))}, counted from 0." in said, name
