"""More kinds of tiny Hugging Face models: close relatives of those in the catalogue.

They stand apart because fewer laws are asked of them: attention, temperature, a silenced head, and
opening from a folder.
"""

from __future__ import annotations

from typing import Any

from .catalogue import (
    BART,
    BERT,
    BOTH,
    DECODER,
    ENCODER,
    GPT,
    HEADS,
    LAYERS,
    LLAMA,
    SMALL,
    TEXT,
    WIDTH,
    Family,
    kind,
)

SOUND = (
    TEXT
    | BERT
    | {
        "conv_dim": [8, 8, 8],
        "conv_kernel": [10, 8, 4],
        "conv_stride": [10, 8, 2],
        "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 2,
    }
)
IMAGE = BERT | {"image_size": 12, "patch_size": 4, "num_labels": 3}
T5 = {
    **TEXT,
    "d_model": WIDTH,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": LAYERS,
    "num_decoder_layers": LAYERS,
    "num_heads": HEADS,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}
# fmt: off
BIAS = "relative_attention_bias.weight"
#: Architectures that are refused by name, with a class and words for a real folder of some.
REFUSED = {
    "mamba": ("Mamba", {"hidden_size": WIDTH, "num_hidden_layers": 2, "state_size": 4}),
    "mamba2": ("Mamba2", {"hidden_size": 64, "num_heads": 2, "head_dim": 64, "n_groups": 1,
                          "num_hidden_layers": 1, "state_size": 4}),
    "falcon_mamba": ("FalconMamba", {"hidden_size": WIDTH, "num_hidden_layers": 2}),
    "rwkv": ("Rwkv", {"hidden_size": WIDTH, "num_hidden_layers": 2,
                      "attention_hidden_size": WIDTH}),
    "fnet": ("FNet", {"hidden_size": WIDTH, "num_hidden_layers": 2, "intermediate_size": 48}),
    "longformer": ("Longformer", BERT | SMALL | {"attention_window": [4, 4]}),
    "led": ("LED", {k: v for k, v in BART.items() if "max_position" not in k}
            | {"attention_window": [4, 4], "max_encoder_position_embeddings": 40,
               "max_decoder_position_embeddings": 40}),
    "yoso": ("Yoso", BERT | SMALL),
    "nystromformer": ("Nystromformer", BERT | SMALL | {"segment_means_seq_len": 8}),
    "mra": ("Mra", BERT | SMALL),
}


def bert(name: str, cls: str, **words: Any) -> Family:
    """A relative of BERT."""
    every = TEXT | BERT | SMALL | words
    return kind(name, cls, "Model", every, ENCODER, "self.query", "output.dense")


def llama(name: str, cls: str, queries: str = "q_proj", **words: Any) -> Family:
    """A relative of Llama; ``queries`` make its queries, a norm where they are normed last."""
    return kind(name, cls, "ForCausalLM", LLAMA | words, DECODER, queries, "o_proj", norm="rms")


def bart(name: str, cls: str, **words: Any) -> Family:
    """A relative of BART."""
    every, head = TEXT | BART | words, "ForConditionalGeneration"
    return kind(name, cls, head, every, BOTH, "q_proj", "out_proj", inputs="pair")


MORE = (
    bert("camembert", "Camembert"),
    bert("xlm_roberta", "XLMRoberta"),
    bert("xlm_roberta_xl", "XLMRobertaXL"),
    bert("ernie", "Ernie"),
    bert("rembert", "RemBert", input_embedding_size=16, output_embedding_size=16),
    bert("megatron_bert", "MegatronBert"),
    bert("data2vec_text", "Data2VecText"),
    bert("roc_bert", "RoCBert", enable_pronunciation=False, enable_shape=False),
    bert("esm", "Esm", position_embedding_type="rotary", mask_token_id=3),
    bert("splinter", "Splinter"),
    bert("layoutlm", "LayoutLM"),
    bert("ibert", "IBert"),
    bert("tapas", "Tapas"),
    bert("big_bird", "BigBird", attention_type="original_full"),
    # a second query makes the kernels of its convolution, so that keys are cooled instead
    kind("convbert", "ConvBert", "Model", TEXT | BERT | SMALL | {"embedding_size": 16,
        "conv_kernel_size": 3, "head_ratio": 1}, ENCODER, "self.key", ""),
    kind("flaubert", "Flaubert", "Model", TEXT | SMALL | {"emb_dim": WIDTH, "n_layers": LAYERS,
        "n_heads": HEADS}, ENCODER, "q_lin", "out_lin", fused=False),
    kind("ctrl", "CTRL", "LMHeadModel", TEXT | GPT | {"n_positions": 40, "dff": 48}, DECODER, "Wq",
        "dense", fused=False),
    kind("openai_gpt", "OpenAIGPT", "LMHeadModel", TEXT | GPT | {"n_positions": 40}, DECODER,
        "c_attn", "c_proj", rows="columns"),
    kind("codegen", "CodeGen", "ForCausalLM", TEXT | GPT | {"n_positions": 40, "rotary_dim": 4},
        DECODER, "qkv_proj", "out_proj", rows="heads"),
    kind("gpt_bigcode", "GPTBigCode", "ForCausalLM", TEXT | GPT | {"n_positions": 40,
        "multi_query": True}, DECODER, "c_attn", "c_proj", rows="first"),
    kind("gpt_neox_japanese", "GPTNeoXJapanese", "ForCausalLM", TEXT | BERT | SMALL, DECODER,
        "query_key_value", "attention.dense", rows="heads"),
    kind("biogpt", "BioGpt", "ForCausalLM", TEXT | BERT | SMALL, DECODER, "q_proj", "out_proj"),
    llama("gemma", "Gemma"),
    Family("gemma3_text", "Gemma3TextConfig", "Gemma3ForCausalLM", LLAMA | {"sliding_window": 3,
        "query_pre_attn_scalar": 8}, DECODER, ("q_norm",), "o_proj", norm="rms", plus=1.0),
    llama("starcoder2", "Starcoder2"),
    llama("stablelm", "StableLm"),
    llama("granite", "Granite"),
    llama("granitemoe", "GraniteMoe", num_local_experts=4),
    llama("olmo", "Olmo"),
    llama("nemotron", "Nemotron"),
    llama("cohere", "Cohere"),
    llama("cohere2", "Cohere2", sliding_window=3),
    llama("helium", "Helium"),
    llama("smollm3", "SmolLM3"),
    llama("ernie4_5", "Ernie4_5"),
    llama("hunyuan_v1_dense", "HunYuanDenseV1", "query_layernorm"),
    llama("arcee", "Arcee"),
    llama("exaone4", "Exaone4", "q_norm", sliding_window=3, sliding_window_pattern=2),
    llama("seed_oss", "SeedOss"),
    llama("apertus", "Apertus", "q_norm"),
    kind("bitnet", "BitNet", "ForCausalLM", LLAMA, DECODER, "q_proj", "attn_sub_norm", norm="rms"),
    llama("qwen2_moe", "Qwen2Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        shared_expert_intermediate_size=24),
    llama("qwen3_moe", "Qwen3Moe", "q_norm", num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=24),
    llama("glm", "Glm"),
    llama("glm4", "Glm4"),
    bart("mbart", "MBart"),
    bart("pegasus", "Pegasus"),
    bart("blenderbot", "Blenderbot"),
    bart("blenderbot_small", "BlenderbotSmall"),
    bart("plbart", "PLBart"),
    bart("nllb_moe", "NllbMoe", num_experts=4, encoder_sparse_step=2, decoder_sparse_step=2),
    kind("fsmt", "FSMT", "ForConditionalGeneration", {**BART, "src_vocab_size": 67,
        "tgt_vocab_size": 67, "langs": ["a", "b"], "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2}, BOTH, "q_proj", "out_proj", inputs="pair", fused=False,
        call=(("use_cache", False),)),
    kind("mt5", "MT5", "ForConditionalGeneration", T5, BOTH, ".q", ".o", inputs="pair", norm="rms",
        biases=BIAS),
    kind("umt5", "UMT5", "ForConditionalGeneration", T5, BOTH, ".q", ".o", inputs="pair",
        norm="rms", biases=BIAS),
    kind("switch_transformers", "SwitchTransformers", "ForConditionalGeneration", T5 |
        {"num_experts": 4}, BOTH, ".q", ".o", inputs="pair", norm="rms", biases=BIAS),
    kind("deit", "DeiT", "ForImageClassification", IMAGE, ENCODER, "q_proj", "o_proj",
        inputs="image"),
    kind("dinov2", "Dinov2", "ForImageClassification", IMAGE, ENCODER, "q_proj", "o_proj",
        inputs="image"),
    kind("dinov2_with_registers", "Dinov2WithRegisters", "ForImageClassification", IMAGE |
        {"num_register_tokens": 3}, ENCODER, "q_proj", "o_proj", inputs="image"),
    kind("beit", "Beit", "ForImageClassification", IMAGE | {"use_relative_position_bias": True},
        ENCODER, "q_proj", "o_proj", inputs="image", biases="relative_position_bias_table"),
    kind("clip_vision_model", "CLIPVision", "Model", IMAGE | {"projection_dim": 16}, ENCODER,
        "q_proj", "out_proj", inputs="image"),
    kind("siglip_vision_model", "SiglipVision", "Model", IMAGE, ENCODER, "q_proj", "out_proj",
        inputs="image"),
    kind("moonshine", "Moonshine", "ForConditionalGeneration", TEXT | {"hidden_size": WIDTH,
        "intermediate_size": 48, "max_position_embeddings": 40, "encoder_num_hidden_layers": LAYERS,
        "decoder_num_hidden_layers": LAYERS, "encoder_num_attention_heads": HEADS,
        "decoder_num_attention_heads": HEADS, "decoder_start_token_id": 1}, BOTH, "q_proj",
        "o_proj", inputs="samples"),
    kind("wav2vec2", "Wav2Vec2", "ForCTC", SOUND, ENCODER, "q_proj", "out_proj", inputs="samples"),
    kind("hubert", "Hubert", "ForCTC", SOUND, ENCODER, "q_proj", "out_proj", inputs="samples"),
    kind("clip_text_model", "CLIPText", "Model", TEXT | BERT | SMALL | {"projection_dim": 16},
        DECODER, "q_proj", "out_proj"),
)
# fmt: on
