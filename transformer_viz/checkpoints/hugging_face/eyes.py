"""Image input of models that read an image beside their text, up to its tokens in the text."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...preprocessing.images import MAX_PATCHES, ImageReader, coloured
from ...preprocessing.tokenizers import Tokenizer
from ..common.eyes import Eyes, Seen
from ..files.errors import CheckpointError
from .image_processor import processor_words, reader_of
from .library import plainly

#: Supported kinds of models, and the order of text and picture used in training, for texts that do
#: not mark the position.
ARRANGED = {
    "llava": "{picture}\n{text}",
    "gemma3": "{picture}{text}",
    "paligemma": "{picture}{text}",
    "qwen2_vl": "{start}{picture}{end}{text}",
    "qwen2_5_vl": "{start}{picture}{end}{text}",
    "qwen3_vl": "{start}{picture}{end}{text}",
}
QWEN = tuple(kind for kind in ARRANGED if kind.startswith("qwen"))
TOWERS = ("clip_vision_model", "siglip_vision_model")  # whose patches are one fixed grid
STEPS = ("do_pan_and_scan", "do_pad")  # steps of a processor that make other pictures
WORDS = ("patch_size", "temporal_patch_size", "merge_size", "min_pixels", "max_pixels", "size",
         "image_mean", "image_std", "resample")  # fmt: skip
MOST_SIDE = 2**10  # limit of each size in patches among these options


def eyes_of(module: Any, folder: Path | None, face: Tokenizer) -> tuple[Eyes | None, str]:
    """Return the image input of a model with text; else None and the reason.

    Args:
        module: A library model that reads text and pictures.
        folder: Folder of its ``preprocessor_config.json``; None for a model in memory.
        face: Its tokenizer.
    """
    config = module.config
    kind = config.model_type
    if kind not in ARRANGED or not hasattr(module, "get_image_features"):
        return None, (
            f"A picture beside the text of a {kind} model is not known here, only for "
            f"{', '.join(ARRANGED)}; leave image out, and it is a language model on text."
        )
    if "mm_encoder_outputs" not in inspect.signature(module.forward).parameters:
        return None, (
            "Before transformers 5.18 a model cannot be given a picture that its eyes have read "
            "already, and would pass over it without a word; install a newer transformers, or "
            "leave image out."
        )
    words = processor_words(folder)
    if not words:
        return None, (
            "This model needs a preprocessor_config.json beside its weights, which says how a "
            "picture becomes numbers, and there is none; save one with "
            "processor.save_pretrained(folder), and load the folder."
        )
    try:
        odd = next((word for word in STEPS if words.get(word)), None)
        if odd is not None:
            raise ValueError(f"{odd} makes several pictures of one, or another one")
        look = (_by_size if kind in QWEN else _by_tower)(module, words)
    except (CheckpointError, ValueError, TypeError, KeyError, AttributeError) as error:
        return None, f"The image processor of this model cannot be used: {plainly(error)}."
    signs = _Signs.of(config, face)
    return Eyes(
        config.image_token_id,
        look,
        partial(_worded, kind, signs),
        partial(_framed, kind, signs),
        leads=kind == "paligemma",
    ), ""


def kinds_of(module: Any, ids: Tensor, names: Any) -> dict[str, Tensor]:
    """Return the arguments that mark the image tokens.

    PaliGemma marks its prompt instead, which is all of its input.
    """
    places = (ids == module.config.image_token_id).long()
    if "mm_token_type_ids" in names:
        return {"mm_token_type_ids": places}
    if "token_type_ids" in names:
        prompt = module.config.model_type == "paligemma"
        return {"token_type_ids": torch.zeros_like(places) if prompt else places}
    return {}


def _by_tower(module: Any, words: Mapping[str, Any]) -> Callable[[Any], Seen]:
    """Return the image input for one picture size: CLIP's or SigLIP's tower, and a projector."""
    config = module.config
    if config.vision_config.model_type not in TOWERS:
        raise ValueError(
            f"the places of the tokens of {config.vision_config.model_type} eyes are not known here"
        )
    reader, _, _ = reader_of(None, config.vision_config, words)
    side = math.isqrt(int(getattr(config, "mm_tokens_per_image", 0)))
    grid = (side, side) if side else reader.grid

    def look(picture: Any) -> Seen:
        pixels = reader.pixels(picture)
        output = _features(module, {"pixel_values": torch.from_numpy(pixels)[None]})
        return _seen(output, grid, reader.shown(pixels), {})

    return look


def _by_size(module: Any, words: Mapping[str, Any]) -> Callable[[Any], Seen]:
    """Return Qwen's image input: more patches for larger pictures; four patches are one token."""
    import transformers

    given = {word: words[word] for word in WORDS if word in words}
    processor: Any = transformers.Qwen2VLImageProcessorPil(**given)
    vision = module.config.vision_config
    patch, merge = _side(processor, "patch_size"), _side(processor, "merge_size")
    tall = _side(processor, "temporal_patch_size")
    own = (vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size)
    if (patch, merge, tall) != own:
        raise ValueError(
            f"it cuts patches of {patch}, {merge} by {merge} of which are one token, {tall} at a "
            f"time, and the model reads {own[0]}, {own[1]} and {own[2]}"
        )
    step = patch * merge

    def look(picture: Any) -> Seen:
        ready = isinstance(picture, np.ndarray)
        image: Any = _checked(picture, step) if ready else coloured(picture, "RGB")
        high, wide = image.shape[1:] if ready else (image.height, image.width)
        _refuse_many(processor, high, wide, merge, ready, step)
        steps = dict.fromkeys(("do_resize", "do_rescale", "do_normalize"), False) if ready else {}
        made = processor(images=image, return_tensors="pt", **steps)
        _, down, across = made["image_grid_thw"][0].tolist()
        pixels = _joined(made["pixel_values"].numpy(), down, across, patch, merge, tall)
        shown = ImageReader(
            pixels.shape[1],
            pixels.shape[2],
            3,
            (step, step),
            tuple(processor.image_mean),
            tuple(processor.image_std),
        ).shown(pixels)
        beside = {"image_grid_thw": made["image_grid_thw"].to(module.device)}
        output = _features(module, {"pixel_values": made["pixel_values"], **beside})
        grid = (down // merge, across // merge)
        return _seen(output, grid, shown, beside)

    return look


def _side(processor: Any, word: str) -> int:
    value = getattr(processor, word)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_SIDE:
        raise ValueError(f"{word} is a whole number from 1 to {MOST_SIDE:,}, got {value!r}")
    return value


def _checked(picture: np.ndarray, step: int) -> np.ndarray:
    """Return normalised floats ``[channel, height, width]`` that split into whole tokens."""
    shape = picture.shape
    good = picture.dtype.kind == "f" and picture.ndim == 3 and shape[0] == 3 and min(shape) > 0
    if not good or shape[1] % step or shape[2] % step or not np.isfinite(picture).all():
        raise ValueError(
            "A picture as an array must be finite floats [3, height, width] as the model reads "
            f"them, height and width multiples of {step}; got {picture.dtype} {list(shape)}. Give "
            "other arrays as PIL.Image.fromarray(array)."
        )
    return np.ascontiguousarray(picture, np.float32)


def _refuse_many(processor: Any, high: int, wide: int, merge: int, ready: bool, step: int) -> None:
    """Refuse a picture with more tokens than can be drawn."""
    try:
        count = (high // step) * (wide // step)
        if not ready:
            count = processor.get_number_of_image_patches(high, wide) // merge**2
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"A picture of {wide:,} x {high:,} pixels is too long and thin for this model; cut out "
            "a part of it."
        ) from error
    if count > MAX_PATCHES:
        raise ValueError(
            f"This model makes {count:,} tokens of a picture of {wide:,} x {high:,} pixels, and "
            f"{MAX_PATCHES:,} are the most; make it smaller."
        )


def _joined(
    patches: np.ndarray, down: int, across: int, patch: int, merge: int, tall: int
) -> np.ndarray:
    """Return the pixels ``[channel, height, width]`` of Qwen's patches, inverting its processor."""
    sizes = (down // merge, across // merge, merge, merge, 3, tall, patch, patch)
    whole = patches.reshape(sizes)[:, :, :, :, :, 0].transpose(4, 0, 2, 5, 1, 3, 6)
    return np.ascontiguousarray(whole.reshape(3, down * patch, across * patch))


def _features(module: Any, given: Mapping[str, Tensor]) -> Any:
    """Return the output of the model's vision tower and projector for a picture."""
    device = module.get_input_embeddings().weight.device
    placed = {name: tensor.to(device) for name, tensor in given.items()}
    placed["pixel_values"] = placed["pixel_values"].to(module.dtype)
    try:
        with torch.no_grad():
            return module.get_image_features(**placed, return_dict=True)
    except RuntimeError as error:
        raise ValueError(
            f"The eyes of this model cannot read the picture ({plainly(error)}); check that its "
            "image processor belongs to it."
        ) from error


def _seen(
    output: Any, grid: tuple[int, int], shown: np.ndarray, beside: Mapping[str, Tensor]
) -> Seen:
    """Return the image with its tokens; one more than its patches is CLIP's class token."""
    parts = output.pooler_output
    count = sum(part[..., 0].numel() for part in ([parts] if isinstance(parts, Tensor) else parts))
    extra = count - grid[0] * grid[1]
    if extra not in (0, 1):
        raise ValueError(
            f"The model makes {count:,} tokens of a picture of {grid[0]} x {grid[1]} patches; "
            "which token is which patch is not known here."
        )
    patches = [f"image {row},{column}" for row in range(grid[0]) for column in range(grid[1])]

    def inputs(batch: int) -> dict[str, Any]:
        said = {name: tensor.repeat(batch, 1) for name, tensor in beside.items()}
        return {"mm_encoder_outputs": {"image": _repeated(output, batch)}, **said}

    return Seen(grid, (*["image class"] * extra, *patches), shown, inputs)


def _repeated(output: Any, batch: int) -> Any:
    """Return the same picture for each text of a batch."""
    parts = output.pooler_output
    if isinstance(parts, Tensor):
        parts = parts.repeat(batch, *[1] * (parts.dim() - 1))
    else:
        parts = [*parts] * batch
    deep = getattr(output, "deepstack_features", None)  # Qwen 3 adds these in its first layers
    if deep is None:
        return type(output)(pooler_output=parts)
    return type(output)(
        pooler_output=parts, deepstack_features=[[*layer] * batch for layer in deep]
    )


@dataclass(frozen=True)
class _Signs:
    """Ids and pieces of the tokens around a picture, if a model has them; ``token`` is a
    placeholder.
    """

    token: tuple[int | None, str]
    start: tuple[int | None, str]
    end: tuple[int | None, str]
    bos: tuple[int | None, str]

    @classmethod
    def of(cls, config: Any, face: Tokenizer) -> _Signs:
        def sign(*words: str) -> tuple[int | None, str]:
            found = (getattr(part, w, None) for w in words for part in (config, config.text_config))
            token = next((t for t in found if isinstance(t, int)), None)
            pieces = face.pieces
            known = token is not None and 0 <= token < len(pieces)
            return token, str(pieces[token]) if known and token is not None else ""

        return cls(
            sign("image_token_id"),
            sign("vision_start_token_id", "boi_token_index"),
            sign("vision_end_token_id", "eoi_token_index"),
            sign("bos_token_id"),
        )


def _worded(kind: str, signs: _Signs, text: str, count: int) -> str:
    """Return a text with the placeholders of a picture, as the model's own processor writes it."""
    token, start, end = signs.token[1], signs.start[1], signs.end[1]
    picture, mark = token * count, token
    if kind == "gemma3":
        mark, picture = start, f"\n\n{start}{picture}{end}\n\n"
    times = text.count(mark) if mark else 0
    if times > 1:
        raise ValueError(f"The text has {mark} {times} times, and one picture came; write it once.")
    if not times:
        text = ARRANGED[kind].format(picture=mark, start=start, end=end, text=text)
    before, _, after = text.partition(mark)
    if kind == "paligemma":
        after = f"{signs.bos[1]}{after}\n"
    return f"{before}{picture}{after}"


def _framed(kind: str, signs: _Signs, ids: Sequence[int], count: int) -> list[int]:
    """Return ids with the placeholders of a picture: at an existing one, or at the beginning.

    Ids that have all placeholders already stay as they are.
    """
    token, start, end = signs.token[0], signs.start[0], signs.end[0]
    places = [n for n, i in enumerate(ids) if i == token]
    if len(places) not in (0, 1, count):
        raise ValueError(
            f"The ids have {len(places)} times {token}, the place of a picture; write it once, or "
            f"for each of its {count:,} tokens."
        )
    if places and len(places) == count:
        return [*ids]
    frame: list[int | None] = [token] * count
    if places:
        at, rest = places[0], places[0] + 1
    else:
        at = rest = int(kind != "paligemma" and bool(ids) and ids[0] == signs.bos[0])
        frame = [start, *frame, end] if kind in (*QWEN, "gemma3") else frame
    return [*ids[:at], *(i for i in frame if i is not None), *ids[rest:]]
