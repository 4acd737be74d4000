"""Tiny Hugging Face models with strong random weights: what to build, to feed and to expect."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from tests.support import device

WIDTH, HEADS, LAYERS, VOCABULARY = 32, 4, 2, 67
SOURCE, TARGET = 7, 5
TEXT = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 48,
}
SMALL = {"max_position_embeddings": 40}
LLAMA = TEXT | BERT | SMALL | {"num_key_value_heads": 2, "head_dim": 8}
GPT = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
BART = {
    "d_model": WIDTH,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}

#: The maps of each arrangement, in the order in which `output_attentions` lists them.
ENCODER = (("attentions", "encoder", "self"),)
DECODER = (("attentions", "decoder", "self"),)
BOTH = (
    ("encoder_attentions", "encoder", "self"),
    ("decoder_attentions", "decoder", "self"),
    ("cross_attentions", "decoder", "cross"),
)


@dataclass(frozen=True, eq=False)
class Family:
    """One kind of model: classes, words of its configuration, and how its parts are called.

    ``queries`` are name endings of the modules and parameters that make queries, ``rows`` says
    which of their rows do: all, the first third, the first of three in each head, or (columns) the
    first third of a transposed weight. ``biases`` are name endings of what is added to scores,
    ``output`` is the ending of the output projection, beside or below the module that attends.
    ``tables`` are the position tables: parameter, first row used, stack. ``reported`` says which
    of our attentions `output_attentions` lists, where it leaves some out.
    """

    name: str
    config: str
    model: str
    words: dict[str, Any]
    maps: tuple[tuple[str, str, str], ...]
    queries: tuple[str, ...] = ()
    output: str = ""
    fused: bool = True
    inputs: str = "text"
    call: tuple[tuple[str, Any], ...] = ()
    norm: str = "layer"
    plus: float = 0.0
    tables: tuple[tuple[str, int, str], ...] = ()
    biases: tuple[str, ...] = ()
    rows: str = "all"
    reported: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return self.name


def kind(
    name: str,
    cls: str,
    head: str,
    words: dict[str, Any],
    maps: tuple[tuple[str, str, str], ...],
    queries: str | tuple[str, ...],
    output: str,
    biases: str = "",
    **fields: Any,
) -> Family:
    """A family whose classes are ``cls`` with "Config" and with ``head``."""
    queries = (queries,) if isinstance(queries, str) else queries
    fields["biases"] = (biases,) if biases else ()
    return Family(name, f"{cls}Config", f"{cls}{head}", words, maps, queries, output, **fields)


EMBEDDED = (("embeddings.position_embeddings.weight", 0, "encoder"),)
WPE = (("transformer.wpe.weight", 0, "decoder"),)

# fmt: off
FAMILIES = (
    kind("bert", "Bert", "Model", TEXT | BERT | SMALL, ENCODER, "self.query", "output.dense",
        tables=EMBEDDED),
    kind("roberta", "Roberta", "Model", TEXT | BERT | SMALL, ENCODER, "self.query", "output.dense",
        tables=(("embeddings.position_embeddings.weight", 1, "encoder"),)),
    kind("distilbert", "DistilBert", "Model", TEXT | SMALL | {"dim": WIDTH, "n_layers": LAYERS,
        "n_heads": HEADS, "hidden_dim": 48}, ENCODER, "q_lin", "out_lin", tables=EMBEDDED),
    kind("albert", "Albert", "Model", TEXT | BERT | SMALL | {"embedding_size": 16,
        "num_hidden_layers": 3}, ENCODER, "query", "attention.dense", tables=EMBEDDED),
    kind("electra", "Electra", "Model", TEXT | BERT | SMALL | {"embedding_size": 16}, ENCODER,
        "self.query", "output.dense", tables=EMBEDDED),
    kind("modernbert", "ModernBert", "Model", TEXT | BERT | SMALL | {"local_attention": 4,
        "global_attn_every_n_layers": 2}, ENCODER, "Wqkv", "attn.Wo", rows="first"),
    kind("roformer", "RoFormer", "Model", TEXT | BERT | SMALL | {"embedding_size": 16}, ENCODER,
        "self.query", "output.dense", fused=False),
    kind("mpnet", "MPNet", "Model", TEXT | BERT | SMALL, ENCODER, ".q", ".o", fused=False,
        biases="relative_attention_bias.weight"),
    kind("xlm", "XLM", "Model", TEXT | SMALL | {"emb_dim": WIDTH, "n_layers": LAYERS,
        "n_heads": HEADS}, ENCODER, "q_lin", "out_lin", fused=False,
        tables=(("position_embeddings.weight", 0, "encoder"),)),
    kind("xglm", "XGLM", "ForCausalLM", TEXT | SMALL | {"d_model": WIDTH, "num_layers": LAYERS,
        "attention_heads": HEADS, "ffn_dim": 48}, DECODER, "q_proj", "out_proj", fused=False),
    kind("gpt2", "GPT2", "LMHeadModel", TEXT | GPT | {"n_positions": 40}, DECODER, "c_attn",
        "c_proj", rows="columns", tables=WPE),
    kind("gpt_neo", "GPTNeo", "ForCausalLM", TEXT | SMALL | {"hidden_size": WIDTH,
        "num_layers": LAYERS, "num_heads": HEADS, "attention_types": [[["global", "local"], 1]],
        "window_size": 3}, DECODER, "q_proj", "out_proj", fused=False, tables=WPE),
    kind("gpt_neox", "GPTNeoX", "ForCausalLM", TEXT | BERT | SMALL, DECODER, "query_key_value",
        "dense", rows="heads"),
    kind("gptj", "GPTJ", "ForCausalLM", TEXT | GPT | {"n_positions": 40, "rotary_dim": 4}, DECODER,
        "q_proj", "out_proj", fused=False),
    kind("opt", "OPT", "ForCausalLM", TEXT | SMALL | {"hidden_size": WIDTH,
        "num_hidden_layers": LAYERS, "ffn_dim": 48, "num_attention_heads": HEADS,
        "word_embed_proj_dim": WIDTH}, DECODER, "q_proj", "out_proj",
        tables=(("model.decoder.embed_positions.weight", 2, "decoder"),)),
    kind("bloom", "Bloom", "ForCausalLM", TEXT | {"hidden_size": WIDTH, "n_layer": LAYERS,
        "n_head": HEADS}, DECODER, "query_key_value", "dense", fused=False, rows="heads"),
    kind("falcon", "Falcon", "ForCausalLM", TEXT | BERT | {"multi_query": True, "alibi": False},
        DECODER, "query_key_value", "dense", rows="first"),
    kind("falcon_alibi", "Falcon", "ForCausalLM", TEXT | BERT | {"multi_query": False,
        "alibi": True, "new_decoder_architecture": False, "parallel_attn": False, "bias": True},
        DECODER, "query_key_value", "dense", rows="heads"),
    kind("mpt", "Mpt", "ForCausalLM", {"vocab_size": VOCABULARY, "d_model": WIDTH, "n_heads": HEADS,
        "n_layers": LAYERS, "max_seq_len": 40, "expansion_ratio": 2}, DECODER, "Wqkv", "out_proj",
        fused=False, rows="first"),
    kind("llama", "Llama", "ForCausalLM", LLAMA, DECODER, "q_proj", "o_proj", norm="rms"),
    kind("mistral", "Mistral", "ForCausalLM", LLAMA | {"sliding_window": 3}, DECODER, "q_proj",
        "o_proj", norm="rms"),
    kind("mixtral", "Mixtral", "ForCausalLM", LLAMA | {"num_local_experts": 4,
        "sliding_window": None}, DECODER, "q_proj", "o_proj", norm="rms"),
    kind("qwen2", "Qwen2", "ForCausalLM", LLAMA, DECODER, "q_proj", "o_proj", norm="rms"),
    kind("qwen3", "Qwen3", "ForCausalLM", LLAMA, DECODER, "q_norm", "o_proj", norm="rms"),
    kind("olmo2", "Olmo2", "ForCausalLM", LLAMA, DECODER, "q_norm", "o_proj", norm="rms"),
    kind("phi3", "Phi3", "ForCausalLM", LLAMA, DECODER, "qkv_proj", "o_proj", norm="rms",
        rows="first"),
    kind("gemma2", "Gemma2", "ForCausalLM", LLAMA | {"query_pre_attn_scalar": 8,
        "sliding_window": 3}, DECODER, "q_proj", "o_proj", fused=False, norm="rms", plus=1.0),
    kind("phi", "Phi", "ForCausalLM", TEXT | BERT | SMALL, DECODER, "q_proj", "dense"),
    kind("gpt_oss", "GptOss", "ForCausalLM", LLAMA | {"num_local_experts": 4,
        "num_experts_per_tok": 2, "sliding_window": 3}, DECODER, "q_proj", "o_proj", fused=False,
        norm="rms", biases="sinks"),
    kind("jamba", "Jamba", "ForCausalLM", TEXT | BERT | {"num_key_value_heads": 2,
        "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 4,
        "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 3,
        "use_mamba_kernels": False}, DECODER, "q_proj", "o_proj", norm="rms",
        call=(("use_cache", False),)),
    kind("deberta_v2", "DebertaV2", "Model", TEXT | BERT | SMALL | {"relative_attention": True,
        "pos_att_type": ["c2p", "p2c"], "position_buckets": 8, "norm_rel_ebd": "layer_norm",
        "share_att_key": True}, ENCODER, "query_proj", "output.dense", fused=False),
    kind("xlnet", "XLNet", "Model", TEXT | {"d_model": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
        "d_inner": 48}, ENCODER, ("rel_attn.q", "r_w_bias", "r_r_bias", "r_s_bias"), "",
        fused=False),
    kind("t5", "T5", "ForConditionalGeneration", TEXT | {"d_model": WIDTH, "d_kv": 8, "d_ff": 48,
        "num_layers": LAYERS, "num_heads": HEADS, "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 12, "decoder_start_token_id": 0}, BOTH, ".q", ".o",
        inputs="pair", norm="rms", biases="relative_attention_bias.weight"),
    kind("bart", "Bart", "ForConditionalGeneration", TEXT | BART, BOTH, "q_proj", "out_proj",
        inputs="pair", tables=(("model.encoder.embed_positions.weight", 2, "encoder"),
        ("model.decoder.embed_positions.weight", 2, "decoder"))),
    kind("marian", "Marian", "MTModel", TEXT | BART | {"decoder_start_token_id": 0}, BOTH, "q_proj",
        "out_proj", inputs="pair", tables=(("model.encoder.embed_positions.weight", 0, "encoder"),
        ("model.decoder.embed_positions.weight", 0, "decoder"))),
    kind("m2m_100", "M2M100", "ForConditionalGeneration", TEXT | BART, BOTH, "q_proj", "out_proj",
        inputs="pair"),
    kind("whisper", "Whisper", "ForConditionalGeneration", TEXT |
        {k: v for k, v in BART.items() if "max_position" not in k and "forced" not in k} |
        {"num_mel_bins": 5, "max_source_positions": 11, "max_target_positions": 40}, BOTH, "q_proj",
        "out_proj", inputs="sound", tables=(("model.encoder.embed_positions.weight", 0, "encoder"),
        ("model.decoder.embed_positions.weight", 0, "decoder"))),
    kind("vit", "ViT", "ForImageClassification", BERT | {"image_size": 12, "patch_size": 4,
        "num_labels": 3}, ENCODER, "q_proj", "o_proj", inputs="image",
        tables=(("vit.embeddings.position_embeddings", 0, "encoder"),)),
    kind("clip", "CLIP", "Model", {}, (("text_model_output.attentions", "decoder", "self"),
        ("vision_model_output.attentions", "encoder", "self")), "q_proj", "out_proj",
        inputs="both"),
    kind("swin", "Swin", "Model", {"image_size": 24, "patch_size": 3, "embed_dim": 16,
        "depths": [2, 1], "num_heads": [2, 4], "window_size": 4, "num_channels": 3}, ENCODER,
        "q_proj", "o_proj", inputs="image", reported=(1, 2), biases="relative_position_bias_table"),
)
# fmt: on
BY_NAME = {family.name: family for family in FAMILIES}


def words_of(family: Family) -> dict[str, Any]:
    """The words of the configuration; CLIP's are two configurations in one."""
    if family.name != "clip":
        return copy.deepcopy(family.words)
    sizes = BERT | {"projection_dim": 16}
    return {
        "projection_dim": 16,
        "text_config": TEXT | sizes | {"max_position_embeddings": 20},
        "vision_config": sizes | {"image_size": 12, "patch_size": 4},
    }


@cache
def built(family: Family, implementation: str = "eager") -> nn.Module:
    """The model of a family with strong random weights; nothing may change it."""
    config = getattr(transformers, family.config)(**words_of(family))
    config._attn_implementation = implementation
    torch.manual_seed(11)
    model = getattr(transformers, family.model)(config)
    strengthen(model)
    return device.placed(model).eval()


def copied(family: Family, implementation: str = "eager") -> nn.Module:
    """A copy of a family's model, to be changed by hand."""
    return copy.deepcopy(built(family, implementation))


#: Parameters that stay as they are: dynamics of state spaces, sinusoids.
KEPT = ("A_log", "conv1d.weight", "embed_positions.weight")
TABLES = ("embed", "position", "wte.weight", "wpe.weight")


def strengthen(model: nn.Module) -> None:
    """Weights so large that attention is far from uniform; gains and biases away from 1 and 0."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1 and not name.endswith(KEPT):
                table = any(word in name for word in TABLES)
                parameter.copy_(noise if table else noise * 1.5 / parameter.shape[-1] ** 0.5)
            elif parameter.dim() == 1:
                parameter.add_(noise * 0.2)


@cache
def inputs(family: Family) -> dict[str, Tensor]:
    """Two inputs of unequal length, the second padded, where the family takes a mask."""
    return device.placed(_inputs(family))


def _inputs(family: Family) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)

    def ids(length: int) -> Tensor:
        return torch.randint(3, VOCABULARY, (2, length), generator=generator)

    mask = torch.ones(2, SOURCE, dtype=torch.long)
    mask[1, 5:] = 0
    text = {"input_ids": ids(SOURCE), "attention_mask": mask}
    text["input_ids"][1, 5:] = 0
    if family.inputs == "text":
        return text
    if family.inputs == "pair":
        return text | {"decoder_input_ids": ids(TARGET)}
    if family.inputs == "sound":
        sound = torch.randn(2, 5, 22, generator=generator)
        return {"input_features": sound, "decoder_input_ids": ids(TARGET)}
    if family.inputs == "samples":
        samples = {"input_values": torch.randn(2, 3000, generator=generator)}
        return samples | ({"decoder_input_ids": ids(TARGET)} if family.maps == BOTH else {})
    side = family.words.get("image_size", 12)
    image = {"pixel_values": torch.randn(2, 3, side, side, generator=generator)}
    return image if family.inputs == "image" else text | image


def options(family: Family) -> dict[str, Any]:
    """Words of the forward call besides the tensors."""
    return {"return_dict": True} | dict(family.call)


def run(model: nn.Module, family: Family, **words: Any) -> Any:
    """One forward pass on the family's inputs, without gradients."""
    with torch.no_grad():
        return model(**(inputs(family) | options(family) | words))


def real(x: Tensor, axis: int) -> Tensor:
    """The values of a tensor that belong to no padding, flat; ``axis`` numbers the tokens."""
    if x.dim() <= axis or x.shape[0] != 2 or x.shape[axis] != SOURCE:
        return x.flatten()
    return torch.cat((x[0].flatten(), x[1].narrow(axis - 1, 0, 5).flatten()))


def answer(out: Any) -> Tensor:
    """What a model gives at the end, without the rows of padding."""
    for name in ("logits", "last_hidden_state"):
        if getattr(out, name, None) is not None:
            return real(getattr(out, name), 1)
    return torch.cat((out.text_embeds.flatten(), out.image_embeds.flatten()))


def reported(out: Any, name: str) -> list[Tensor]:
    """The attentions that a model itself reports under a dotted name."""
    for part in name.split("."):
        out = getattr(out, part)
    return [weights for weights in out if weights is not None]
