"""Models of the transformers library write with its cache, watched or not, as without one."""

from __future__ import annotations

from itertools import product
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
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
SIZES |= {"intermediate_size": 32}
GROUPED = SIZES | {"num_key_value_heads": 1}
SLIDING = GROUPED | {"sliding_window": 4}  # shorter than the texts: the cache lets keys go
EXPERTS = {"head_dim": 12, "num_local_experts": 2, "num_experts_per_tok": 1}
SHORT = {"n_layer": 2, "n_head": 2, "vocab_size": 50}
PLACES = {"max_position_embeddings": 40}
PAIR = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 50} | PLACES
PAIR |= {f"{stack}_attention_heads": 2 for stack in ("encoder", "decoder")}
PAIR |= {f"{stack}_ffn_dim": 32 for stack in ("encoder", "decoder")}
T5 = {"d_model": 24, "d_kv": 12, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 50}
#: Class, configuration and its words.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2LMHeadModel": ("GPT2Config", SHORT | {"n_embd": 24, "n_positions": 40}),
    "LlamaForCausalLM": ("LlamaConfig", GROUPED),
    "MistralForCausalLM": ("MistralConfig", SLIDING),
    "Gemma2ForCausalLM": ("Gemma2Config", SLIDING | {"head_dim": 12}),
    "GptOssForCausalLM": ("GptOssConfig", SLIDING | EXPERTS | {"head_dim": 12}),
    "BloomForCausalLM": ("BloomConfig", SHORT | {"hidden_size": 24}),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", SIZES),
    "OPTForCausalLM": ("OPTConfig", SIZES | PLACES | {"ffn_dim": 32, "word_embed_proj_dim": 24}),
    "T5ForConditionalGeneration": ("T5Config", T5 | {"decoder_start_token_id": 0}),
    "BartForConditionalGeneration": ("BartConfig", PAIR),
    "MarianMTModel": ("MarianConfig", PAIR | {"decoder_start_token_id": 2, "pad_token_id": 0}),
}
WAYS = ({}, {"beam": 3}, {"sample": 1.5, "seed": 4})


def made(
    named: str, config: str, words: dict[str, Any], dtype: torch.dtype = torch.float32
) -> Model:
    """Return a model of these classes with strong random weights."""
    torch.manual_seed(0)
    module = getattr(transformers, named)(getattr(transformers, config)(**words))
    strengthen(module)
    return tv.load(module.to(dtype).eval(), device="cpu")


def edits(model: Model, edited: bool) -> Intervention:
    if not edited:
        return Intervention()
    cross = {} if model.kind == "decoder-only" else {"block": "cross"}
    place = {"stack": "decoder", "layer": 1, **cross}
    return Intervention((Temperature(value=2.0, **place), ScaleHead(value=0.5, head=1, **place)))


@pytest.mark.parametrize("names", [list(FAMILIES)[n::4] for n in range(4)], ids=range(4))
def test_a_search_with_a_cache_is_the_one_without(monkeypatch, names):
    """Every number and every row; and what was watched with the cache was not made anew."""
    begun: list[int] = []
    begin = Recorder.begin
    monkeypatch.setattr(Recorder, "begin", lambda self: begun.append(1) or begin(self))
    for name in names:
        model = made(name, *FAMILIES[name])
        for edited, way in product((False, True), WAYS):
            words, case = {"intervention": edits(model, edited)}, (name, edited, way)
            words |= way | {"max_tokens": 12}
            assert reads_on(model, SOURCE), case
            begun.clear()
            cached = record(model, SOURCE, **words)
            assert begun == [1] and reads_on(model, SOURCE), case
            with monkeypatch.context() as patch:
                patch.setattr(generation, "reads_on", lambda *_: False)
                same_search(cached, record(model, SOURCE, **words))


def same_without(monkeypatch: pytest.MonkeyPatch, model: Model, ids: list[int], beam: int) -> None:
    cached = record(model, ids, beam, max_tokens=14)
    with monkeypatch.context() as patch:
        patch.setattr(generation, "reads_on", lambda *_: False)
        same_search(cached, record(model, ids, beam, max_tokens=14))


def test_padding_texts_of_a_beam_and_paths(monkeypatch):
    """Its prompt holds the padding's id too, so that there is a mask that knows which are which."""
    for pad in (7, 19, 28, 46):
        llama = made(
            "LlamaForCausalLM", "LlamaConfig", GROUPED | {"pad_token_id": pad}, torch.float64
        )
        for beam in (1, 4):
            same_without(monkeypatch, llama, [pad, 9, 31, pad], beam)
    layers = {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3, "pad_token_id": 0}
    for ids in ([6], [11, 12]):
        model = made("Lfm2ForCausalLM", "Lfm2Config", GROUPED | layers, torch.float64)
        same_without(monkeypatch, model, ids, 3)
    for beam in (1, 3):
        bert = made("BertLMHeadModel", "BertConfig", SIZES | {"is_decoder": True}, torch.float64)
        same_without(monkeypatch, bert, [6], beam)
        seen = record(bert, [6], beam, max_tokens=6)
        assert [seen.history(one, 0).shape[1] for one in seen.best] == [6] * beam


def test_layers_that_show_only_some_steps_are_refused():
    """Linear attention that is computed in blocks has a map as long as one block holds all."""
    layers = {"layer_types": ["linear_attention", "full_attention"], "block_size": 4}
    model = made("MiniMaxForCausalLM", "MiniMaxConfig", GROUPED | EXPERTS | layers)
    with pytest.raises(ValueError, match="tell what they look at in some steps only"):
        record(model, SOURCE[:3], max_tokens=6)
