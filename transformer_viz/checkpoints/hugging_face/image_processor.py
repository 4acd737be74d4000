"""Image input of a Hugging Face model: the steps of its processor, without torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ...preprocessing.images import MAX_PIXELS, ImageReader
from ..files.errors import CheckpointError
from ..files.reading import read_config
from .library import plainly
from .trial_run import ADVICE

PROCESSOR, WHOLE = "preprocessor_config.json", "processor_config.json"
MAX_SIZE = 2**22  # pixels that a model reads at once
SAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


@dataclass(frozen=True)
class Processed(ImageReader):
    """Image reader with the steps of the library's processors: resize, then crop the centre.

    ``scaled`` is a height and a width, independent of the picture's proportions, or a number of
    pixels for its shorter side.
    """

    scaled: tuple[int, int] | int = 0

    def _resized(self, image: Image.Image) -> Image.Image:
        if isinstance(self.scaled, int):
            short = min(image.size)
            width, height = (int(self.scaled * side / short) for side in image.size)
        else:
            height, width = self.scaled
        if width * height > MAX_PIXELS:
            raise ValueError(
                f"A picture of {image.width:,} x {image.height:,} pixels is too long and thin to "
                f"be brought to {self.width} x {self.height}; cut out a part of it."
            )
        whole = (
            image if image.size == (width, height) else image.resize((width, height), self._filter)
        )
        left, top = (width - self.width) // 2, (height - self.height) // 2
        return whole.crop((left, top, left + self.width, top + self.height))


def processor_words(folder: Path | None) -> dict[str, Any]:
    """Return the processor options of a folder; empty if it has none.

    Newer versions of the library write them into ``processor_config.json``, beside other options.
    """
    if folder is None:
        return {}
    found = read_config(folder / PROCESSOR)
    whole = {} if found else read_config(folder / WHOLE).get("image_processor")
    return found or (dict(whole) if isinstance(whole, Mapping) else {})


def reader_of(
    folder: Path | None, config: Any, words: Mapping[str, Any] | None = None
) -> tuple[ImageReader, dict[str, Any], dict[str, str]]:
    """Return the picture reader of a model, its options, and the origin of each.

    Options come from ``preprocessor_config.json``. Missing ones are guessed as usual: the picture
    is resized to the model's size, with values from -1 to 1. ``words`` is the content of the file
    if it was read already.

    Raises:
        CheckpointError: Options of the processor are no sizes.
    """
    if not hasattr(config, "patch_size") or not hasattr(config, "image_size"):
        raise CheckpointError(
            f"A {config.model_type} model does not cut a picture into one grid of patches, so its "
            f"tokens have no places on it. {ADVICE}"
        )
    file = processor_words(folder) if words is None else words
    try:
        normalised = bool(file.get("do_normalize", True))
        settings: dict[str, Any] = {
            "image_mean": _numbers(file.get("image_mean", 0.5) if normalised else 0.0),
            "image_std": _numbers(file.get("image_std", 0.5) if normalised else 1.0),
            "resample": SAMPLING.get(file.get("resample", 2), "bilinear"),
        }
        scaled, (height, width) = _sizes(file, _pair(config.image_size))
        if height * width > MAX_SIZE:
            raise ValueError(f"pictures of {height:,} x {width:,} pixels are too large")
        reader = Processed(
            height=height,
            width=width,
            channels=int(getattr(config, "num_channels", 3)),
            patch=_pair(config.patch_size),
            mean=tuple(settings["image_mean"]),
            std=tuple(settings["image_std"]),
            interpolation=settings["resample"],
            prefix=(),
            scaled=scaled,
        )
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise CheckpointError(f"{PROCESSOR} cannot be used: {plainly(error)}.") from error
    said = {w: "sidecar" if w in file or not normalised else "convention" for w in settings}
    return reader, settings, said


def _sizes(
    file: Mapping[str, Any], own: tuple[int, int]
) -> tuple[tuple[int, int] | int, tuple[int, int]]:
    """Return the size a picture is scaled to, and the size of its centre crop."""
    size, cut = file.get("size", own), file.get("crop_size")
    kept = _pair(cut) if cut is not None and file.get("do_center_crop", True) else None
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return int(size["shortest_edge"]), kept or own
    if isinstance(size, int) and kept is not None:  # form of older processors
        return size, kept
    return _pair(size), kept or _pair(size)


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        return int(size["height"]), int(size["width"])
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[1])
    return int(size), int(size)


def _numbers(given: Any) -> list[float]:
    return [float(x) for x in (given if isinstance(given, list) else [given])]


def prefix(count: int, registers: int) -> tuple[str, ...]:
    """Return names of the tokens before the patches: class token, distilled one, registers."""
    names = ["class"] if count > registers else []
    if count - registers == 2:
        names.append("distillation")
    names += [f"register {i}" for i in range(registers)]
    return tuple(names) if len(names) == count else tuple(f"token {i}" for i in range(count))


def registers_of(config: Any) -> int:
    """Return the number of register tokens before the patches."""
    return int(getattr(config, "num_register_tokens", 0) or 0)
