"""Vision Transformers as timm and DeiT save them: bare weights, training checkpoints, folders."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ...core.numerics import task_of
from ...preprocessing.images import ImageReader
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ..common import native
from ..common.calibration import guess
from ..common.candidate import Candidate
from ..common.fill_weights import build
from ..common.model import Calls, Model
from ..common.provenance import resolve
from ..common.rename_keys import count, has_config
from ..common.stated import stated
from ..common.word_checks import refuse_unknown, usual_heads
from ..files.reading import CheckpointError, Weights
from ..files.stand_ins import named_values
from .vision_transformer import ACTIVATIONS, VisionConfig, VisionTransformer

NAME = "timm"
NAMES: tuple[str, ...] = (
    r"(cls|dist|reg)_token|pos_embed",
    r"patch_embed\.proj\.(weight|bias)",
    r"blocks\.\d+\.(norm1|norm2|attn\.(qkv|proj|q_norm|k_norm)|mlp\.(fc1|fc2))\.(weight|bias)",
    r"blocks\.\d+\.(ls1|ls2)\.gamma",
    r"(norm_pre|norm|fc_norm|head|head_dist)\.(weight|bias)",
)
SHADES = "tuple[float, ...]"
#: Options of the picture input.
PICTURE = {
    "mean": SHADES,
    "std": SHADES,
    "interpolation": "str",
    "crop": "float",
    "squeezed": "bool",
}
KINDS = {field.name: str(field.type) for field in dataclasses.fields(VisionConfig)} | PICTURE
WORDS: tuple[str, ...] = tuple(KINDS)
#: timm's names of our options.
ARGUMENTS = {
    "embed_dim": "d_model",
    "num_heads": "heads",
    "depth": "encoder_layers",
    "in_chans": "channels",
    "num_classes": "classes",
    "class_token": "class_token",
    "reg_tokens": "registers",
    "no_embed_class": "no_embed_class",
    "qk_norm": "qk_norm",
    "pre_norm": "norm_pre",
    "global_pool": "pool",
    "gp": "pool",
    "fc_norm": "fc_norm",
    "qkv_bias": "qkv_bias",
    "act_layer": "activation",
    "img_size": "image_size",
    "patch_size": "patch_size",
    "mean": "mean",
    "std": "std",
    "interpolation": "interpolation",
    "crop_pct": "crop",
}
#: Heads and width of each size in an architecture's name (``vit_tiny_patch16_224``). Names with
#: plus or gap have others.
HEADS = {
    "tiny": (3, 192), "xsmall": (4, 256), "small": (6, 384), "medium": (8, 512),
    "base": (12, 768), "large": (16, 1024), "so400m": (16, 1152), "huge": (16, 1280),
    "giant": (16, 1408), "gigantic": (16, 1664),
}  # fmt: skip
ODD = {"plus", "gap"}
STATED = ("heads", "activation", "norm_eps")
CUSTOMARY = {"mean": (0.5,), "std": (0.5,), "interpolation": "bicubic", "crop": 0.9}
UNSAID = (None, "", "random")  # values of an argument that is not set
MODES = {"center": False, "squash": True}  # timm's crop modes: is the picture squeezed?
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # its own, as DeiT has it


def recognise(found: Candidate) -> bool:
    """Return True if the weights have timm's names of patches and of fused queries, keys and
    values.
    """
    names = found.weights.tensors
    return "patch_embed.proj.weight" in names and "blocks.0.attn.qkv.weight" in names


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the Vision Transformer of the file, which reads pictures and gives classes or states.

    Raises:
        CheckpointError: Options are unknown or impossible, or weights do not fit.
    """
    words, provenance = _words(found, overrides)
    shape = {word: value for word, value in words.items() if word not in PICTURE}
    _check_sizes(shape, found.weights)
    try:
        config = VisionConfig(**shape)
        reader = _reader(config, words)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{found.path.name}: {error}") from error
    module = build(lambda: VisionTransformer(config), found.weights)
    assert isinstance(module, VisionTransformer)
    return Model(
        name=native.name_of(found.path),
        module=module,
        kind="encoder-only",
        config=words,
        tokenizer=PlainIds() if tokenizer is None else tokenizer,
        device="cpu",
        calls=make_calls(module),
        layout=NAME,
        hash=found.hash,
        file_dtype=found.weights.dtype,
        folder=found.folder,
        title=str(found.config.get("title", "")),
        takes="image",
        gives="classes" if config.classes else "vectors",
        task=task_of(config.classes) if config.classes else "",
        image=reader,
        labels=_labels(found.config, config.classes),
        notes=_notes(found.config, words["heads"], provenance["heads"]),
        provenance=provenance,
    )


def make_calls(module: VisionTransformer) -> Calls:
    """Return the calls of the model: pictures ``[batch, channel, height, width]`` only."""

    def refuse(target: Tensor | None, source_mask: Tensor | None) -> None:
        if target is not None or source_mask is not None:
            raise ValueError("A picture has neither target nor padding; leave both out.")

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        refuse(target, source_mask)
        return module(source)

    def encode(source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        refuse(None, source_mask)
        return module.states(source)

    return Calls(forward, encode)


def _words(found: Candidate, overrides: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return all options of the model and of its pictures, and their origins."""
    refuse_unknown(overrides, WORDS)
    weights, config = found.weights, found.config
    own, inside, beside = _plain(overrides), _arguments(weights), _configured(config)
    inside = {word: value for word, value in inside.items() if word not in STATED}
    given = beside | inside | own
    _check_types(given)
    shapes = _shapes(weights, given.get("image_size"))
    name = _architecture(weights.extra)
    # CLIP's towers, with their norm before the first layer, have other values.
    clip = shapes["norm_pre"] and not name and not config.get("architecture")
    named = ("file", name) if name else ("sidecar", str(config.get("architecture", "")))
    words, origins = resolve(
        own,
        ("file", inside),
        *stated(found, STATED, shapes, beside, activations=tuple(ACTIVATIONS)),
        ("shapes", shapes),
        (named[0], _named(named[1], shapes["d_model"])),
        ("convention" if clip else "layout", {"activation": "gelu", "norm_eps": 1e-6}),
        ("layout", {"squeezed": False}),
        ("convention", _customary(weights, named[1], shapes)),
    )
    return {word: words[word] for word in WORDS}, {word: origins[word] for word in WORDS}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with lists as tuples, and single numbers expanded to tuples."""
    found = {word: tuple(v) if isinstance(v, list) else v for word, v in settings.items()}
    for word, times in (("image_size", 2), ("patch_size", 2), ("mean", 1), ("std", 1)):
        if isinstance(found.get(word), int | float):
            found[word] = (found[word],) * times
    return found


def _translated(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return our options for timm's arguments; unset ones are left to defaults."""
    settings: dict[str, Any] = {}
    for argument, word in ARGUMENTS.items():
        if arguments.get(argument) not in UNSAID:
            settings.setdefault(word, arguments[argument])
    if arguments.get("init_values") is not None:
        settings["layer_scale"] = True
    size = arguments.get("input_size")  # [channel, height, width], or one number
    if isinstance(size, list | tuple) and len(size) == 3:
        settings.setdefault("image_size", size[1:])
    elif isinstance(size, int):
        settings.setdefault("image_size", size)
    mode = str(arguments.get("crop_mode"))
    if mode in MODES:
        settings["squeezed"] = MODES[mode]
    return _plain(settings)


def _arguments(weights: Weights) -> dict[str, Any]:
    """Return the options in the training's own arguments in a checkpoint."""
    arguments = _vars(weights.extra.get("args"))
    return _translated(arguments) | _translated(_vars(arguments.get("model_kwargs")))


def _configured(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the config.json of a folder, for the model and its pictures."""
    seen = _vars(config.get("pretrained_cfg"))
    seen.pop("num_classes", None)  # of the first training; the head may be a later one
    return (
        _translated(seen)
        | _translated({word: config.get(word) for word in ("num_classes", "global_pool")})
        | _translated(_vars(config.get("model_args")))
    )


def _vars(thing: Any) -> dict[str, Any]:
    """Return the entries of a dictionary or of a script's arguments; empty for other values."""
    return dict(named_values(thing))


def _architecture(extra: Mapping[str, Any]) -> str:
    """Return the name of the architecture in a training checkpoint, or an empty string."""
    name = extra.get("arch") or _vars(extra.get("args")).get("model")
    return name if isinstance(name, str) else ""


def _named(architecture: str, width: int) -> dict[str, Any]:
    """Return the options given by the name of an architecture for a model of this width."""
    settings: dict[str, Any] = {}
    parts = set(architecture.split("_"))
    for size in parts & set(HEADS):
        heads, usual = HEADS[size]
        if width == usual and not parts & ODD:
            settings["heads"] = heads
    if "_clip_" in architecture:
        settings["norm_eps"] = 1e-5
        settings["activation"] = "quick_gelu" if "quickgelu" in architecture else "gelu"
    return settings


def _shapes(weights: Weights, image_size: Any) -> dict[str, Any]:
    """Return the options given by the shapes of the weights, and by their presence."""
    tensors = weights.tensors
    patches = tensors.get("patch_embed.proj.weight")
    if patches is None or patches.dim() != 4 or not patches.numel():
        raise CheckpointError(
            f"patch_embed.proj.weight in {weights.path.name} is "
            f"{'missing' if patches is None else list(patches.shape)}; expected [d_model, channel, "
            "height, width]. This is no Vision Transformer of timm."
        )
    width, channels, *patch = patches.shape
    settings: dict[str, Any] = {
        "d_model": width,
        "d_ff": _size(weights, "blocks.0.mlp.fc1.weight", 0, 4 * width),
        "encoder_layers": count(weights, "blocks.{n}.norm1.weight"),
        "patch_size": tuple(patch),
        "channels": channels,
        "classes": _size(weights, "head.weight", 0, 0),
        "class_token": "cls_token" in tensors,
        "distilled": "dist_token" in tensors,
        "registers": _size(weights, "reg_token", 1, 0),
        "qk_norm": "blocks.0.attn.q_norm.weight" in tensors,
        "layer_scale": "blocks.0.ls1.gamma" in tensors,
        "norm_pre": "norm_pre.weight" in tensors,
        "fc_norm": "fc_norm.weight" in tensors,
        "qkv_bias": count(weights, "blocks.{n}.attn.qkv.bias") > 0,
        "patch_bias": "patch_embed.proj.bias" in tensors,
    }
    settings["pool"] = "token" if settings["class_token"] and not settings["fc_norm"] else "avg"
    if settings["qk_norm"]:
        settings["heads"] = width // max(1, _size(weights, "blocks.0.attn.q_norm.weight", 0, width))
    settings["no_embed_class"] = _unplaced(weights, settings, image_size)
    return settings


def _customary(weights: Weights, architecture: str, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usual options where none are stated: square pictures, heads of 64 numbers."""
    placed = _size(weights, "pos_embed", 1, 0)
    patches = placed if shapes["no_embed_class"] else placed - _prefix(shapes)
    side = math.isqrt(max(patches, 0))
    return {
        "heads": usual_heads(shapes["d_model"]),
        "image_size": tuple(side * patch for patch in shapes["patch_size"]),
        **CUSTOMARY,
        **(IMAGENET if architecture.startswith("deit") else {}),
    }


def _prefix(settings: Mapping[str, Any]) -> int:
    return int(settings["class_token"] + settings["distilled"] + settings["registers"])


def _size(weights: Weights, name: str, axis: int, otherwise: int) -> int:
    """Return a size of a weight, or ``otherwise`` if there is no such weight."""
    tensor = weights.tensors.get(name)
    return otherwise if tensor is None or tensor.dim() <= axis else int(tensor.shape[axis])


def _unplaced(weights: Weights, settings: Mapping[str, Any], image_size: Any) -> bool:
    """Return True if positions cover the patches only, not the tokens before them."""
    placed, prefix = _size(weights, "pos_embed", 1, 0), _prefix(settings)
    if image_size is not None:
        sides = zip(image_size, settings["patch_size"], strict=False)
        return prefix > 0 and placed == math.prod(side // patch for side, patch in sides)
    alone, together = (math.isqrt(max(n, 0)) ** 2 == n for n in (placed, placed - prefix))
    if not alone and not together:
        raise CheckpointError(
            f"pos_embed in {weights.path.name} has {placed} positions, which fit no square "
            "picture; override image_size= with its height and width."
        )
    if prefix and alone and together:
        raise CheckpointError(
            f"pos_embed in {weights.path.name} has {placed} positions, which fit {placed} patches "
            f"as well as {placed - prefix} with {prefix} tokens in front; override image_size=."
        )
    return prefix > 0 and alone


def _check_types(settings: Mapping[str, Any]) -> None:
    """Refuse options of the wrong type before they are used."""
    for word, kind in KINDS.items():
        value = settings.get(word)
        if word not in settings or (word == "crop" and value is None):
            continue
        if kind in native.TYPES:
            types, wanted = native.TYPES[kind]
            right = isinstance(value, types) and (kind == "bool") == isinstance(value, bool)
        elif kind == SHADES:
            wanted = "a number, or one for each channel"
            right = isinstance(value, tuple) and {type(v) for v in value} <= {int, float}
        else:
            wanted = "a whole number, or two: height and width"
            right = isinstance(value, tuple) and [type(side) for side in value] == [int, int]
        if not right:
            raise CheckpointError(f"The word {word} needs {wanted}; got {value!r}.")


def _check_sizes(settings: Mapping[str, Any], weights: Weights) -> None:
    """Refuse sizes that would cost time or memory before the file could contradict them."""
    held = [tensor for tensor in weights.tensors.values() if tensor.numel()]
    asks, mend = "model asks", "Give another value"
    if has_config(weights):
        asks, mend = "config asks", "Correct the config, or override the word"
    longest = max((side for tensor in held for side in tensor.shape), default=0)
    for word in ("d_model", "d_ff", "channels", "classes", "registers", "patch_size"):
        if np.max(settings[word]) > longest:
            raise CheckpointError(
                f"The {asks} for {word} {settings[word]}, but no weight of "
                f"{weights.path.name} is longer than {longest}. {mend}."
            )
    if settings["encoder_layers"] > len(weights.tensors):
        found = f"{weights.path.name} holds only {len(weights.tensors)} weights"
        raise CheckpointError(f"The {asks} for {settings['encoder_layers']} layers, but {found}.")


def _reader(config: VisionConfig, settings: Mapping[str, Any]) -> ImageReader:
    """Return the picture reader of the training, with the names of its tokens."""
    names = ["class"] * config.class_token + ["distillation"] * config.distilled
    return ImageReader(
        *config.image_size,
        config.channels,
        config.patch_size,
        mean=tuple(settings["mean"]),
        std=tuple(settings["std"]),
        interpolation=settings["interpolation"],
        crop=settings["crop"],
        squeezed=settings["squeezed"],
        prefix=(*names, *(f"register {number}" for number in range(config.registers))),
    )


def _labels(config: Mapping[str, Any], classes: int) -> tuple[str, ...]:
    """Return the names of the classes, if the folder has one for each."""
    found = config.get("label_names") or _vars(config.get("pretrained_cfg")).get("label_names")
    fits = isinstance(found, list) and len(found) == classes
    return tuple(map(str, found)) if fits and found else ()


def _notes(config: Mapping[str, Any], heads: int, origin: str) -> tuple[str, ...]:
    """Return the notes for users of this model."""
    notes = [guess("heads", heads)] if origin == "convention" else []
    mode = str(_vars(config.get("pretrained_cfg")).get("crop_mode") or "center")
    if mode in MODES:
        return tuple(notes)
    return (
        *notes,
        f"This model's pictures were cut with timm's mode {mode!r}; here the shorter side is "
        "scaled and the middle kept, so that its edges can differ.",
    )
