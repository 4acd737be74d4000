"""The next-word model of the box in the clothes of Hugging Face's GPT-2, for a Hub without network.

The notebook of the Hub needs a model that a person would find there. Where the site is built there
may be no network, so the model in the box is written as ``GPT2LMHeadModel.save_pretrained`` would:
the same weights, trained, and under the same names. A sinusoidal table becomes a learned one, and
the scale of the embeddings becomes part of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from sentencepiece import sentencepiece_model_pb2 as pieces
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import GPT2Config

import transformer_viz as tv
from transformer_viz.paths import ROOT

NAME = "en-lm"


def written(folder: Path) -> Path:
    """The folder with config, weights and tokenizer in it."""
    ours = tv.load(NAME)
    module, words = ours.module, ours.module.config
    scale = words.embedding_scale
    config = GPT2Config(
        vocab_size=words.target_vocab,
        n_positions=words.max_positions,
        n_embd=words.d_model,
        n_layer=words.decoder_layers,
        n_head=words.heads,
        n_inner=words.d_ff,
        activation_function=words.activation,
        layer_norm_epsilon=words.norm_eps,
        bos_token_id=words.bos_id,
        eos_token_id=words.eos_id,
        tie_word_embeddings=False,
        architectures=["GPT2LMHeadModel"],
    )
    has = module.state_dict()
    table = module.decoder.embedding.positions.table
    filled = {
        "transformer.wte.weight": has["decoder.embedding.tokens.weight"] * scale,
        "transformer.wpe.weight": table,
        "lm_head.weight": has["output.weight"] * words.logit_scale,
    }
    for part in ("weight", "bias"):
        filled[f"transformer.ln_f.{part}"] = has[f"decoder.norm.{part}"]
        for layer in range(words.decoder_layers):
            old, new = f"decoder.layers.{layer}.", f"transformer.h.{layer}."
            rows = [has[f"{old}self_attention.{name}.{part}"] for name in ("query", "key", "value")]
            filled |= {
                f"{new}ln_1.{part}": has[f"{old}self_norm.{part}"],
                f"{new}ln_2.{part}": has[f"{old}feed_forward_norm.{part}"],
                f"{new}attn.c_attn.{part}": _turned(torch.cat(rows)),
                f"{new}attn.c_proj.{part}": _turned(has[f"{old}self_attention.output.{part}"]),
                f"{new}mlp.c_fc.{part}": _turned(has[f"{old}feed_forward.inner.{part}"]),
                f"{new}mlp.c_proj.{part}": _turned(has[f"{old}feed_forward.outer.{part}"]),
            }
    config.save_pretrained(folder)
    whole = {name: weight.contiguous() for name, weight in filled.items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    _write_tokenizer(folder, words.bos_id)
    return folder


def _turned(weight: Tensor) -> Tensor:
    """A matrix as GPT-2 keeps it, the other way round; a bias as it is."""
    return weight.T if weight.dim() == 2 else weight


def _write_tokenizer(folder: Path, first: int) -> None:
    """The sentencepiece vocabulary as `tokenizer.json`, with the start mark before each text."""
    vocabulary = pieces.ModelProto()
    vocabulary.ParseFromString((ROOT / "pretrained" / NAME / "vocabulary.model").read_bytes())
    scores = [(piece.piece, piece.score) for piece in vocabulary.pieces]
    start, end = scores[first][0], scores[first + 1][0]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=1, byte_fallback=True))
    blanks = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), blanks])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A", special_tokens=[(start, first)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    says = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": start, "eos_token": end}
    (folder / "tokenizer_config.json").write_text(json.dumps(says), encoding="utf-8")
