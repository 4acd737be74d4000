"""Folders with quantised weights (8 or 4 bits a number), opened as the library opens them.

bitsandbytes and torchao compute with the small numbers themselves. fp8 and mxfp4 need kernels of a
GPU for that; the library dequantises them, as it does on every CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from ..files.errors import CheckpointError
from ..files.reading import Weights, refuse_non_finite
from .adapter import MAX_NAME, SLOW
from .library import plainly
from .weights import empty

#: Quantisation methods, and the packages that the library needs for each.
PACKAGES = {
    "bitsandbytes": ("bitsandbytes", "accelerate"),
    "torchao": ("torchao",),
    "fp8": ("accelerate",),
    "mxfp4": ("accelerate",),
}
TURNED_BACK = ("fp8", "mxfp4")
FILES = ("model.safetensors", "model.safetensors.index.json")
ADAPTER = "adapter_config.json"
PACKED = 2  # weights that fit into one byte
WAY_OUT = "open the model that they were made from"


def method_of(settings: Mapping[str, Any]) -> str:
    """Return the quantisation method of a folder, in the library's term; empty if plain."""
    given = settings.get("quantization_config")
    if not given:
        return ""
    words = given if isinstance(given, Mapping) else {}
    if words.get("load_in_8bit") or words.get("load_in_4bit"):
        return "bitsandbytes"  # its first folders name no method
    return str(words.get("quant_method") or "not said how")


def refuse_quantized(settings: Mapping[str, Any]) -> None:
    """Refuse quantised weights that cannot be computed with here.

    Raises:
        CheckpointError: Names the method, the packages to install, and the alternative.
    """
    method = method_of(settings)
    if not method:
        return
    if method not in PACKAGES:
        raise CheckpointError(
            f"The weights are quantised ({method}), which is not opened here; of quantised folders "
            f"those of {', '.join(PACKAGES)} are. Open the model that they were made from."
        )
    lacking = [name for name in PACKAGES[method] if find_spec(name) is None]
    if lacking:
        raise CheckpointError(
            f"The weights are quantised ({method}), which needs the package "
            f"{' and '.join(lacking)}: pip install {' '.join(lacking)}; or {WAY_OUT}."
        )
    for text in _texts(settings["quantization_config"]):
        if len(text) > MAX_NAME or SLOW.search(text):
            raise CheckpointError(
                f"quantization_config has the pattern {text[:40]!r}, which could take for ever; "
                "write the names of the parts instead."
            )
    if not settings.get("architectures"):
        raise CheckpointError(
            "config.json names no architecture, and quantised weights do not tell it; add the "
            "name of the class under architectures."
        )


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a config, names of options included."""
    if isinstance(value, str):
        yield value
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(parts, str) or not hasattr(parts, "__iter__"):
        return
    yield from (str(word) for word in value if isinstance(value, Mapping))
    for part in parts:
        yield from _texts(part)


def loaded_quantized(
    cls: Any, config: Any, weights: Weights, settings: Mapping[str, Any], asked: object
) -> nn.Module:
    """Return the class filled with a folder's quantised weights, in evaluation mode.

    Dequantised weights get the dtype of ``settings``; others keep that of their file. ``asked`` is
    the ``dtype`` that the user gave, None for none.

    Raises:
        CheckpointError: Weights do not fit, are in a file of another name, or are not finite; or
            the
            dtype or devices are not possible for quantised weights.
    """
    method = method_of(config.to_dict())
    _refuse_way(method, weights, settings, asked)
    if not weights.allow_nonfinite:
        for name, tensor in weights.tensors.items():
            refuse_non_finite(name, tensor, weights.path)
    _refuse_larger(cls, config, weights)
    if method in TURNED_BACK:
        config.quantization_config["dequantize"] = True
    try:
        with torch.random.fork_rng(devices=[]):
            module, info = cls.from_pretrained(
                weights.path.parent,
                config=config,
                dtype="auto",
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as error:  # each method has checks of its own
        raise CheckpointError(
            f"The quantised weights of {weights.path.name} ({method}) cannot be opened: "
            f"{plainly(error)}. Check that config.json fits the file, or {WAY_OUT}."
        ) from error
    for word in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = sorted(map(str, info[word]))
        if names:
            raise CheckpointError(
                f"{weights.path.name} does not fit config.json: {word.replace('_keys', '')} "
                f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}. Correct the "
                f"config, or {WAY_OUT}."
            )
    made: nn.Module = module.eval()
    return made.to(settings["dtype"]) if method in TURNED_BACK else made


def _refuse_way(method: str, weights: Weights, settings: Mapping[str, Any], asked: object) -> None:
    """Refuse options that quantised weights do not support.

    Raises:
        CheckpointError: Names the option.
    """
    if "device_map" in settings:
        raise CheckpointError(
            f"Quantised weights ({method}) are opened on one device; leave device='auto', "
            "max_memory and offload_folder out."
        )
    if asked not in (None, "auto") and method not in TURNED_BACK:
        raise CheckpointError(
            f"Quantised weights ({method}) compute in the type of number that their file says; "
            f"leave dtype={asked!r} out."
        )
    if weights.path.name not in FILES or (weights.path.parent / ADAPTER).exists():
        raise CheckpointError(
            f"Quantised weights are read from a folder with {' or '.join(FILES)} and without "
            f"{ADAPTER}; got {weights.path.name}. Save the model with save_pretrained."
        )


def _refuse_larger(cls: Any, config: Any, weights: Weights) -> None:
    """Refuse a config with more weights than any packing fits into the file.

    Raises:
        CheckpointError: States both numbers.
    """
    try:
        wanted = sum(p.numel() for p in empty(cls, config).parameters())
    except Exception as error:  # a config that the library cannot build, in many ways
        raise CheckpointError(
            f"{cls.__name__} cannot be built from config.json: {plainly(error)}."
        ) from error
    held = PACKED * sum(t.numel() * t.element_size() for t in weights.tensors.values())
    if wanted > held:
        raise CheckpointError(
            f"The config asks for {wanted:,} weights, and {weights.path.name} can hold {held:,} "
            "at most; they do not belong together."
        )


def quantized_note(module: nn.Module, settings: Mapping[str, Any]) -> str:
    """Return the note on quantised weights; empty for plain ones."""
    method = method_of(settings)
    if not method:
        return ""
    if method in TURNED_BACK:
        kind = str(next(module.parameters()).dtype).removeprefix("torch.")
        return (
            f"Its weights are quantised in the file ({method}); they are turned back into {kind}, "
            "and the model computes with these."
        )
    return f"Its weights are quantised ({method}), and the model computes with them as they are."
