"""Image input of a model: safe decoding, resizing, and splitting into patches."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageOps, UnidentifiedImageError

from ..core.trace_parts import Tokens

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_BYTES = 20 * 10**6  # per file
MAX_PIXELS = 2**26  # per image; below Pillow's own limit
LEAST_CROP = 0.1  # of the image's shorter side; less would enlarge it too much
MAX_PATCHES = 2**12  # all pairs attend: a map of this size takes 64 MB
INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
}


@dataclass(frozen=True)
class ImageReader:
    """Image input of a model: size, channels, normalisation, and the grid of patches.

    Attributes:
        height, width: Pixels.
        channels: 1 for grey, 3 for colours.
        patch: Height and width of a patch in pixels.
        mean, std: One number, or one per channel: values from 0 to 1 become
            ``(value - mean) / std``.
        crop: None resizes the whole image to the size. A fraction resizes its shorter side to
            ``size / crop`` (both sides, if ``squeezed``) and crops the centre.
        prefix: Names of the tokens before the patches.

    Raises:
        ValueError: Invalid sizes, channels or interpolation. The message names them.
    """

    height: int
    width: int
    channels: int
    patch: tuple[int, int]
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    interpolation: str = "bicubic"
    crop: float | None = None
    squeezed: bool = False
    prefix: tuple[str, ...] = ("class",)

    def __post_init__(self) -> None:
        if min(self.height, self.width, self.channels, *self.patch) < 1 or 0 in self.grid:
            raise ValueError(
                f"Pictures of {self.height} x {self.width} pixels and {self.channels} channels "
                f"cannot be cut into patches of {self.patch[0]} x {self.patch[1]}."
            )
        if self.height * self.width > MAX_PIXELS:
            raise ValueError(
                f"A model that reads {self.height:,} x {self.width:,} pixels is beyond what can be "
                f"drawn; {MAX_PIXELS:,} in all are the most."
            )
        if (count := self.grid[0] * self.grid[1]) > MAX_PATCHES:
            raise ValueError(
                f"A model that cuts pictures into {count:,} patches is beyond what can be drawn; "
                f"{MAX_PATCHES:,} are the most."
            )
        for word, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.channels) or not np.isfinite(values).all():
                raise ValueError(
                    f"{word} needs one number, or one for each of {self.channels} channels; got "
                    f"{list(values)}."
                )
        if min(self.std) <= 0:
            raise ValueError(f"std divides, so it must be above 0; got {list(self.std)}.")
        if self.interpolation not in INTERPOLATIONS:
            raise ValueError(
                f"There is no interpolation {self.interpolation!r}; choose one of "
                f"{', '.join(INTERPOLATIONS)}."
            )
        if self.crop is not None and not LEAST_CROP <= self.crop <= 1:
            raise ValueError(f"crop is a fraction from {LEAST_CROP} to 1; got {self.crop}.")

    @property
    def grid(self) -> tuple[int, int]:
        """Number of rows and columns of patches."""
        return self.height // self.patch[0], self.width // self.patch[1]

    def tokens(self) -> Tokens:
        """Return the tokens: the prefix, then ``row,column`` of each patch, row by row."""
        rows, columns = self.grid
        patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        names = (*self.prefix, *patches)
        special = (True,) * len(self.prefix) + (False,) * len(patches)
        return Tokens((), names, names, tuple(range(len(names))), special)

    def pixels(self, picture: Any) -> np.ndarray:
        """Return the model's input for an image: float32 ``[channel, height, width]``.

        Args:
            picture: PIL image; path or bytes of a PNG, JPEG, WebP, GIF (first frame) or BMP file;
                or normalised floats ``[channel, height, width]``.

        Raises:
            ValueError: The file is missing, no image, damaged or too large, or floats have another
                shape. The message names the problem.
        """
        if isinstance(picture, np.ndarray):
            return self._normalised(picture)
        if self.channels not in (1, 3):
            raise ValueError(
                f"This model reads {self.channels} channels, which no picture file has; give "
                f"normalised floats {self._shape()}."
            )
        seen = self._resized(coloured(picture, "L" if self.channels == 1 else "RGB"))
        values = np.asarray(seen, np.float32).reshape(self.height, self.width, self.channels) / 255
        scaled = (values - _float32(self.mean)) / _float32(self.std)
        return np.ascontiguousarray(scaled.transpose(2, 0, 1))

    def shown(self, pixels: np.ndarray) -> np.ndarray:
        """Return `pixels` as a displayable image, uint8 ``[height, width, 3]``.

        With more than three channels the first three are shown, with two the first.
        """
        values = pixels.transpose(1, 2, 0) * _float32(self.std) + _float32(self.mean)
        bytes_ = np.clip(np.rint(values * 255), 0, 255).astype(np.uint8)
        return bytes_[..., :3] if self.channels >= 3 else np.repeat(bytes_[..., :1], 3, axis=2)

    def _shape(self) -> str:
        return f"[{self.channels}, {self.height}, {self.width}]"

    def _normalised(self, pixels: np.ndarray) -> np.ndarray:
        shape = (self.channels, self.height, self.width)
        if pixels.dtype.kind != "f" or pixels.shape != shape or not np.isfinite(pixels).all():
            raise ValueError(
                f"A picture as an array must be finite floats {self._shape()} as the model reads "
                f"them; got {pixels.dtype} {list(pixels.shape)}. Give other arrays as "
                "PIL.Image.fromarray(array)."
            )
        return np.ascontiguousarray(pixels, np.float32)

    def _resized(self, image: Image.Image) -> Image.Image:
        """Return the image in the model's size: resized, or scaled and cropped to the centre."""
        size = (self.width, self.height)
        if self.crop is None:
            return image if image.size == size else image.resize(size, self._filter)
        least = (int(self.width / self.crop), int(self.height / self.crop))
        whole = least if self.squeezed else _covering(image.size, least)
        if whole[0] * whole[1] > MAX_PIXELS:
            raise ValueError(
                f"A picture of {image.width:,} x {image.height:,} pixels is too long and thin to "
                f"be brought to {self.width} x {self.height}; cut out a part of it."
            )
        left, top = (round((one - kept) / 2) for one, kept in zip(whole, size, strict=True))
        scaled = image if image.size == whole else image.resize(whole, self._filter)
        return scaled.crop((left, top, left + self.width, top + self.height))

    @property
    def _filter(self) -> Image.Resampling:
        return INTERPOLATIONS[self.interpolation]


def _float32(values: tuple[float, ...]) -> np.ndarray:
    return np.array(values, np.float32)


def _covering(size: tuple[int, int], least: tuple[int, int]) -> tuple[int, int]:
    """Return the smallest size that covers another one, with the image's proportions."""
    (width, height), (w, h) = size, least
    if w * height >= h * width:
        return w, height * w // width
    return width * h // height, h


def example_picture() -> Image.Image:
    """Return a generated image of a house, a tree and the sun, 96 x 64 pixels."""
    made = Image.new("RGB", (96, 64), (176, 214, 240))
    draw = ImageDraw.Draw(made)
    draw.rectangle((0, 46, 96, 64), fill=(112, 160, 84))
    draw.ellipse((70, 6, 88, 24), fill=(246, 196, 60))
    draw.rectangle((14, 30, 42, 54), fill=(206, 116, 88))
    draw.polygon(((10, 30), (28, 14), (46, 30)), fill=(120, 62, 50))
    draw.rectangle((24, 40, 32, 54), fill=(84, 56, 44))
    draw.rectangle((62, 38, 66, 54), fill=(106, 76, 48))
    draw.ellipse((54, 20, 74, 42), fill=(58, 118, 62))
    return made


def coloured(picture: Any, mode: str) -> Image.Image:
    """Return an image in grey (``L``) or colours (``RGB``), in its own size and orientation.

    Raises:
        ValueError: The file is missing, no image, damaged or too large. The message names the
            problem.
    """
    return _coloured(_opened(picture), mode)


def _opened(picture: Any) -> Image.Image:
    """Return the first frame of an image, decoded and oriented by its EXIF data."""
    if isinstance(picture, bytes):
        name, image = "The picture", _parsed("The picture", picture)
    elif isinstance(picture, str | Path):
        name = Path(picture).name
        image = _parsed(name, _content(Path(picture)))
    elif isinstance(picture, Image.Image):
        name, image = "The picture", picture
    else:
        raise ValueError(
            f"A picture is a PIL image, a path, or bytes of a file; got {type(picture).__name__}."
        )
    if not 0 < image.width * image.height <= MAX_PIXELS:
        raise ValueError(
            f"{name} has {image.width:,} x {image.height:,} pixels; {MAX_PIXELS:,} in all are the "
            "most. Make it smaller."
        )
    try:
        return ImageOps.exif_transpose(image)
    except Exception as error:  # a damaged image can raise any error
        raise _damaged(name, error) from error


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"There is no picture {str(path)!r}; give the path of a file.")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _parsed(name: str, content: bytes) -> Image.Image:
    if len(content) > MAX_BYTES:
        raise ValueError(
            f"{name} has more than {MAX_BYTES // 10**6} MB, which is the most; make it smaller."
        )
    try:
        return Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(
            f"{name} is no picture that can be read; expected {', '.join(FORMATS)}."
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"{name} would unpack to far too many pixels; make it smaller.") from error
    except Exception as error:
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> ValueError:
    reason = str(error).partition("\n")[0][:120] or type(error).__name__
    return ValueError(f"{name} is damaged: {reason}. Save or copy it again.")


def _coloured(image: Image.Image, mode: str) -> Image.Image:
    """Return the image in grey (``L``) or colours (``RGB``), transparency on white."""
    if image.mode in ("I", "F"):
        raise ValueError(
            f"The picture has numbers of mode {image.mode!r}, and nobody knows their white; "
            "convert it to grey (L) or colours (RGB) first."
        )
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image, np.float32) / 257).round().astype(np.uint8))
    if image.has_transparency_data:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    return image.convert(mode)
