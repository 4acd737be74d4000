"""Tiny folders of models that hear, with strong random weights, as the library saves them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

RATE = 16000
# fmt: off
WORDS = ("<pad>", "<s>", "</s>", "<|de|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>", "<unk>",
         *("the", "a", "cat", "dog", "sat", "ran", "on", "in", "mat", "rain", "and", "it", "was"))
# fmt: on
MARKS = 8  # of the words, which begin the list
LETTERS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHS")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WRITER = IDS | {"vocab_size": len(WORDS), "decoder_start_token_id": 1}
SPELLER = {
    "vocab_size": len(LETTERS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "conv_dim": [8, 8, 8],
    "conv_kernel": [10, 8, 4],
    "conv_stride": [10, 8, 8],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "pad_token_id": 0,
}
LAYER = {"feat_extract_norm": "layer", "do_stable_layer_norm": True}
#: What Whisper's own files say of the words that it writes.
GENERATION = {
    "is_multilingual": True,
    "lang_to_id": {"<|de|>": 3, "<|en|>": 4},
    "task_to_id": {"transcribe": 5},
    "no_timestamps_token_id": 6,
    "forced_decoder_ids": [[1, None], [2, 5]],
    "suppress_tokens": [7, 10, 50_000],
    "begin_suppress_tokens": [2, 11],
}
#: By name: class and words of the config, and the words of the extractor.
SPEECH: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "whisper": (
        "WhisperForConditionalGeneration",
        WRITER
        | {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24}
        | {"decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
        | {"num_mel_bins": 8, "max_source_positions": 50, "max_target_positions": 20},
        {"feature_size": 8, "hop_length": 320, "chunk_length": 2},
    ),
    "moonshine": (
        "MoonshineForConditionalGeneration",
        WRITER
        | {"hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 20}
        | {"encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2}
        | {"encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2},
        {"do_normalize": False},
    ),
    "wav2vec2": ("Wav2Vec2ForCTC", SPELLER, {}),
    "wav2vec2-layer": ("Wav2Vec2ForCTC", SPELLER | LAYER, {}),
    "hubert": ("HubertForCTC", SPELLER, {}),
    "wavlm": ("WavLMForCTC", SPELLER, {}),
}


def module_of(name: str) -> Any:
    """A model of the library with strong random weights."""
    cls, words, _ = SPEECH[name]
    made = getattr(transformers, cls)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(7)
        model = made(made.config_class(**words))
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape)
                if parameter.dim() < 2:
                    parameter.add_(noise / 4)
                elif "embed_positions" not in path and "parametrizations" not in path:
                    parameter.copy_(noise * 1.2 / parameter.shape[-1] ** 0.5)
    return model.eval()


def extractor_of(name: str) -> Any:
    """The library's own feature extractor of a model."""
    kind = "Whisper" if name == "whisper" else "Wav2Vec2"
    return getattr(transformers, f"{kind}FeatureExtractor")(**SPEECH[name][2])


def speech_folder(name: str, folder: Path, *, vocabulary: bool = True) -> Path:
    """A folder as the library writes it: weights, extractor and, where wanted, vocabulary."""
    transformers.utils.logging.disable_progress_bar()
    model = module_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    extractor_of(name).save_pretrained(folder)
    if name == "whisper":
        path = folder / "generation_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | GENERATION))
    if vocabulary and name in ("whisper", "moonshine"):
        _writer(folder)
    elif vocabulary:
        _speller(folder)
    return folder


def _writer(folder: Path) -> None:
    words = tokenizers.models.WordLevel(dict(zip(WORDS, range(len(WORDS)), strict=True)), "<unk>")
    own = tokenizers.Tokenizer(words)
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", additional_special_tokens=list(WORDS[3 : MARKS - 1]),
    ).save_pretrained(folder)  # fmt: skip


def _speller(folder: Path) -> None:
    (folder / "vocab.json").write_text(json.dumps({c: i for i, c in enumerate(LETTERS)}))
    own = {"tokenizer_class": "Wav2Vec2CTCTokenizer", "pad_token": "<pad>", "bos_token": "<s>",
           "eos_token": "</s>", "unk_token": "<unk>", "word_delimiter_token": "|"}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
