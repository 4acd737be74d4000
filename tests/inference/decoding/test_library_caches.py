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


def made(named: str, config: str, words: dict[str, Any]) -> Model:
    """A model of these classes with strong random weights."""
    torch.manual_seed(0)
    module = getattr(transformers, named)(getattr(transformers, config)(**words))
    strengthen(module)
    return tv.load(module.eval(), device="cpu")


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    return made(*FAMILIES[request.param])


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


def same_without(monkeypatch: pytest.MonkeyPatch, model: Model, ids: list[int], beam: int) -> None:
    cached = record(model, ids, beam, max_tokens=14)
    with monkeypatch.context() as patch:
        patch.setattr(generation, "reads_on", lambda *_: False)
        same_search(cached, record(model, ids, beam, max_tokens=14))


@pytest.mark.parametrize("pad", [7, 19, 28, 46])
@pytest.mark.parametrize("beam", [1, 4])
def test_padding_that_a_model_writes_is_read_alike(
    monkeypatch: pytest.MonkeyPatch, pad: int, beam: int
) -> None:
    """Its prompt holds the padding's id too, so that there is a mask that knows which are which."""
    llama = made("LlamaForCausalLM", "LlamaConfig", GROUPED | {"pad_token_id": pad})
    same_without(monkeypatch, llama, [pad, 9, 31, pad], beam)


@pytest.mark.parametrize("ids", [[6], [11, 12]])
def test_every_text_of_a_beam_is_compared(monkeypatch: pytest.MonkeyPatch, ids: list[int]) -> None:
    """The second text of this one holds padding, which its convolutions read in another way."""
    layers = {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3, "pad_token_id": 0}
    same_without(monkeypatch, made("Lfm2ForCausalLM", "Lfm2Config", GROUPED | layers), ids, 3)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_decoder_that_its_path_calls_an_encoder(
    monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    """Over one token nothing else tells what it is."""
    bert = made("BertLMHeadModel", "BertConfig", SIZES | {"is_decoder": True})
    same_without(monkeypatch, bert, [6], beam)
    seen = record(bert, [6], beam, max_tokens=6)
    assert [seen.history(one, 0).shape[1] for one in seen.best] == [6] * beam


def test_layers_that_tell_of_some_steps_only_are_said() -> None:
    """Linear attention that is computed in blocks has a map as long as one block holds all."""
    layers = {"layer_types": ["linear_attention", "full_attention"], "block_size": 4}
    words = GROUPED | EXPERTS | layers
    model = made("MiniMaxForCausalLM", "MiniMaxConfig", words)
    with pytest.raises(ValueError, match="tell what they look at in some steps only"):
        record(model, SOURCE[:3], max_tokens=6)
