"""Models of the transformers library write with its cache, watched or not, as without one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import transformer_viz as tv
from tests.families.catalogue import strengthen
from tests.support.same_search import same_search
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, ScaleHead, Temperature
from transformer_viz.inference import generation
from transformer_viz.inference.decoding.key_value_cache import reads_on
from transformer_viz.inference.search_recorder import Recorder, record

pytestmark = pytest.mark.families

SOURCE = [5, 9, 31, 7, 3]
SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
}
GROUPED = SIZES | {"num_key_value_heads": 1}
SLIDING = {"sliding_window": 4}  # shorter than the texts: the cache lets keys go
EXPERTS = {"head_dim": 12, "num_local_experts": 2, "num_experts_per_tok": 1}
SHORT = {"n_layer": 2, "n_head": 2, "vocab_size": 50}
PAIR = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "vocab_size": 50,
    "max_position_embeddings": 40,
}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", SHORT | {"n_embd": 24, "n_positions": 40}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED | SLIDING),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", GROUPED | SLIDING | {"head_dim": 12}),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        GROUPED | SLIDING | EXPERTS | {"head_dim": 12},
    ),
    "bloom": ("BloomForCausalLM", "BloomConfig", SHORT | {"hidden_size": 24}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES),
    "opt": (
        "OPTForCausalLM",
        "OPTConfig",
        {"ffn_dim": 32, "word_embed_proj_dim": 24, "max_position_embeddings": 40} | SIZES,
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "d_model": 24,
            "d_kv": 12,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 2,
            "vocab_size": 50,
            "decoder_start_token_id": 0,
        },
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIR),
    "marian": (
        "MarianMTModel",
        "MarianConfig",
        PAIR | {"decoder_start_token_id": 2, "pad_token_id": 0},
    ),
}
WAYS = {"greedy": {}, "beam": {"beam": 3}, "sample": {"sample": 1.5, "seed": 4}}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    named, config, words = FAMILIES[request.param]
    torch.manual_seed(0)
    module = getattr(transformers, named)(getattr(transformers, config)(**words))
    strengthen(module)
    return tv.load(module.eval(), device="cpu")


def edits(model: Model, edited: bool) -> Intervention:
    if not edited:
        return Intervention()
    cross = {} if model.kind == "decoder-only" else {"block": "cross"}
    place = {"stack": "decoder", "layer": 1, **cross}
    return Intervention((Temperature(value=2.0, **place), ScaleHead(value=0.5, head=1, **place)))


@pytest.mark.parametrize("edited", [False, True], ids=["clean", "edited"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_search_with_a_cache_is_the_one_without(
    monkeypatch: pytest.MonkeyPatch, model: Model, way: dict[str, Any], edited: bool
) -> None:
    """Every number and every row; and what was watched with the cache was not made anew."""
    begun: list[int] = []
    begin = Recorder.begin
    monkeypatch.setattr(Recorder, "begin", lambda self: begun.append(1) or begin(self))  # type: ignore[func-returns-value]
    words = way | {"intervention": edits(model, edited), "max_tokens": 12}
    assert reads_on(model, SOURCE)
    cached = record(model, SOURCE, **words)
    assert begun == [1] and reads_on(model, SOURCE)
    monkeypatch.setattr(generation, "reads_on", lambda *_: False)
    same_search(cached, record(model, SOURCE, **words))
