"""Tiny folders of models that read a picture beside a text, as the library saves them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from PIL import Image

# fmt: off
WORDS = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<boi>", "<eoi>", "<video>", "\n", "\n\n",
         *("what", "is", "in", "the", "picture", "?", "a", "cat", "dog", "on", "mat", "USER:"))
# fmt: on
MARKS = 8  # of the words, which begin the list
IMAGE, START, END, VIDEO = 4, 5, 6, 7
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
TEXT = (
    SIZES
    | IDS
    | {"vocab_size": 29, "max_position_embeddings": 64, "num_key_value_heads": 2, "head_dim": 8}
)
EYES = SIZES | {"image_size": 24, "patch_size": 6, "num_hidden_layers": 3}
FIXED = {
    "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
    "resample": 3, "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28],
}  # fmt: skip
SQUARE = FIXED | {"size": {"height": 24, "width": 24}}
CROPPED = FIXED | {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24},
                   "do_center_crop": True}  # fmt: skip
TURNS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
QWEN = {"image_token_id": IMAGE, "video_token_id": VIDEO, "vision_start_token_id": START,
        "vision_end_token_id": END}  # fmt: skip
QWEN_EYES = {"depth": 2, "hidden_size": 32, "num_heads": 4, "patch_size": 4,
             "spatial_merge_size": 2, "temporal_patch_size": 2}  # fmt: skip
QWEN_PICTURES = FIXED | {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2,
                         "size": {"shortest_edge": 256, "longest_edge": 1200}}  # fmt: skip
#: By name: class and words of the config, and the class and words of the image processor.
PICTURED: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "llava": (
        "Llava",
        {"text_config": TEXT | {"model_type": "llama"}, "image_token_index": IMAGE,
         "vision_config": EYES | {"model_type": "clip_vision_model"}},
        "CLIPImageProcessor", CROPPED,
    ),
    "gemma3": (
        "Gemma3",
        {"text_config": TEXT | {"sliding_window": 24,
                                "layer_types": ["sliding_attention", "full_attention"]},
         "vision_config": EYES, "mm_tokens_per_image": 4, "image_token_index": IMAGE,
         "boi_token_index": START, "eoi_token_index": END},
        "Gemma3ImageProcessor", SQUARE,
    ),
    "paligemma": (
        "PaliGemma",
        {"text_config": TEXT | {"model_type": "gemma"}, "projection_dim": 32,
         "vision_config": EYES | {"model_type": "siglip_vision_model"},
         "image_token_index": IMAGE, **IDS},
        "SiglipImageProcessor", SQUARE,
    ),
    "qwen2_vl": (
        "Qwen2VL",
        QWEN | {"text_config": TEXT | {"rope_parameters": TURNS},
                "vision_config": QWEN_EYES | {"embed_dim": 32, "mlp_ratio": 2}},
        "Qwen2VLImageProcessor", QWEN_PICTURES,
    ),
    "qwen2_5_vl": (
        "Qwen2_5_VL",
        QWEN | {"text_config": TEXT | {"rope_parameters": TURNS},
                "vision_config": QWEN_EYES | {"intermediate_size": 48, "out_hidden_size": 32}},
        "Qwen2VLImageProcessor", QWEN_PICTURES,
    ),
    "qwen3_vl": (
        "Qwen3VL",
        QWEN | {"text_config": TEXT | {"rope_parameters": TURNS | {"mrope_interleaved": True}},
                "vision_config": QWEN_EYES | {"intermediate_size": 48, "out_hidden_size": 32,
                                              "num_position_embeddings": 16,
                                              "deepstack_visual_indexes": [0]}},
        "Qwen2VLImageProcessor", QWEN_PICTURES,
    ),
}  # fmt: skip


def picture(width: int = 40, height: int = 31) -> Image.Image:
    """A picture of three slopes of colour."""
    y, x = np.mgrid[0:height, 0:width]
    colours = np.stack((x * 5 % 256, y * 7 % 256, (x + y) * 3 % 256), axis=-1)
    return Image.fromarray(colours.astype(np.uint8))


def module_of(name: str, *, eager: bool = False) -> Any:
    """A model of the library with strong random weights."""
    kind, words, _, _ = PICTURED[name]
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(7)
        config = getattr(transformers, f"{kind}Config")(**words)
        model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
        with torch.no_grad():
            for _, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape)
                if parameter.dim() < 2:
                    parameter.add_(noise / 4)
                else:
                    parameter.copy_(noise * 1.2 / parameter.shape[-1] ** 0.5)
    if eager:
        model.set_attn_implementation("eager")
    return model.eval()


def image_processor_of(name: str) -> Any:
    """The library's own, without torchvision."""
    _, _, kind, words = PICTURED[name]
    return getattr(transformers, f"{kind}Pil")(**words)


def tokenizer_of(name: str) -> Any:
    """A tokenizer that has a word for all that the texts of the tests hold."""
    words = tokenizers.models.WordLevel(dict(zip(WORDS, range(len(WORDS)), strict=True)), "<unk>")
    own = tokenizers.Tokenizer(words)
    own.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(r"\n+|[^\s?]+|\?"), behavior="removed", invert=True
    )
    if not name.startswith("qwen"):
        own.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", additional_special_tokens=list(WORDS[4:MARKS]),
        extra_special_tokens={"image_token": "<image>", "boi_token": "<boi>",
                              "eoi_token": "<eoi>", "video_token": "<video>"},
    )  # fmt: skip
    return made


def pictured_folder(name: str, folder: Path, *, vocabulary: bool = True) -> Path:
    """A folder as the library writes it: weights, image processor and tokenizer."""
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module_of(name).save_pretrained(folder)
    kind, words = PICTURED[name][2:]
    file = {"image_processor_type": kind} | words
    (folder / "preprocessor_config.json").write_text(json.dumps(file))
    if vocabulary:
        tokenizer_of(name).save_pretrained(folder)
    return folder
