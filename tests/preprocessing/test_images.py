"""Pictures become numbers as the model prepares them, or are refused in a sentence."""

from __future__ import annotations

import io
import struct
import zlib
from itertools import product
from typing import Any

import numpy as np
from PIL import Image

from tests.support.refusals import refuses
from transformer_viz.preprocessing import images
from transformer_viz.preprocessing.images import ImageReader

COLOURS = ImageReader(24, 24, 3, (8, 8))
GREY = ImageReader(8, 8, 1, (2, 2))
BICUBIC = Image.Resampling.BICUBIC


def noise(width: int, height: int, *channels: int, seed: int = 0) -> Image.Image:
    """Return a picture in which no two neighbours are alike."""
    draw = np.random.default_rng(seed)
    return Image.fromarray(draw.integers(0, 256, (height, width, *channels), dtype=np.uint8))


def content(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    held = io.BytesIO()
    image.save(held, kind, **options)
    return held.getvalue()


def test_the_shorter_side_is_scaled_and_the_middle_kept():
    """Held against the two steps written out: resize the shorter side, cut out the centre."""
    sizes = ((30, 20), (20, 31), (24, 24), (7, 61), (9, 9), (200, 199))
    for one in product(sizes, (0.875, 0.9, 1.0), ("bicubic", "bilinear")):
        (width, height), crop, interpolation = one
        image = noise(width, height, 3)
        reader = ImageReader(24, 24, 3, (8, 8), interpolation=interpolation, crop=crop)
        side = int(24 / crop)
        if width <= height:
            new = (side, int(side * height / width))
        else:
            new = (int(side * width / height), side)
        scaled = image.resize(new, images.INTERPOLATIONS[interpolation])
        left, top = round((new[0] - 24) / 2), round((new[1] - 24) / 2)
        expected = np.asarray(scaled)[top : top + 24, left : left + 24]
        assert np.array_equal(reader.shown(reader.pixels(image)), expected), one
    # an oblong size is covered and its middle kept
    reader = ImageReader(8, 16, 1, (4, 4), mean=(0.0,), std=(1.0,), crop=1.0)
    ramp = Image.fromarray(np.arange(16 * 32, dtype=np.uint16).reshape(16, 32).astype(np.uint8))
    wide = np.asarray(ramp.resize((16, 8), BICUBIC), np.float32)
    assert np.array_equal(reader.pixels(ramp)[0] * 255, wide)
    middle = np.asarray(noise(10, 40).resize((16, 64), BICUBIC))[28:36]
    assert np.allclose(reader.pixels(noise(10, 40))[0] * 255, middle, atol=1e-4)
    # without a crop the whole picture is squeezed; one that is squeezed can be cropped too
    image = noise(50, 30, 3)
    squeezed = np.asarray(image.resize((24, 24), BICUBIC))
    assert np.array_equal(COLOURS.shown(COLOURS.pixels(image)), squeezed)
    reader = ImageReader(24, 24, 3, (8, 8), crop=0.75, squeezed=True)
    scaled = np.asarray(image.resize((32, 32), BICUBIC))
    assert np.array_equal(reader.shown(reader.pixels(image)), scaled[4:28, 4:28])


def test_values_are_scaled_and_normalised_channel_by_channel():
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 0.125)
    reader = ImageReader(2, 2, 3, (1, 1), mean=mean, std=std)
    pixels = reader.pixels(Image.new("RGB", (2, 2), (51, 102, 204)))
    expected = [(51 / 255 - 0.1) / 0.5, (102 / 255 - 0.2) / 0.25, (204 / 255 - 0.3) / 0.125]
    assert pixels.shape == (3, 2, 2) and pixels.dtype == np.float32
    assert np.allclose(pixels[:, 1, 0], expected, atol=1e-6)
    assert reader.shown(pixels)[0, 1].tolist() == [51, 102, 204]
    # a small grey picture of the right size is not touched
    reader, image = ImageReader(8, 8, 1, (2, 2), crop=1.0), noise(8, 8)
    pixels = reader.pixels(image)
    assert np.allclose(pixels[0], np.asarray(image) / 255 * 2 - 1, atol=1e-6)
    assert np.array_equal(reader.shown(pixels), np.repeat(np.asarray(image)[..., None], 3, axis=2))
    # floats are taken as they are; others are refused with the shape that is wanted
    given = np.random.default_rng(1).normal(size=(3, 24, 24))
    assert np.array_equal(COLOURS.pixels(given), given.astype(np.float32))
    for other in (
        np.zeros((24, 24, 3), np.float32),
        np.zeros((3, 24, 24), np.uint8),
        np.full((3, 24, 24), np.nan, np.float32),
    ):
        refuses(r"finite floats \[3, 24, 24\].*fromarray", COLOURS.pixels, other)
    # more channels than files have need floats
    reader = ImageReader(4, 4, 5, (2, 2))
    refuses(r"5 channels.*\[5, 4, 4\]", reader.pixels, noise(4, 4))
    given = np.random.default_rng(2).uniform(-1, 1, (5, 4, 4))
    assert np.array_equal(reader.pixels(given), given.astype(np.float32))
    bytes_ = np.rint((given[:3].transpose(1, 2, 0) / 2 + 0.5) * 255)
    assert np.abs(reader.shown(reader.pixels(given)) - bytes_).max() <= 1


def test_colours_grey_transparency_depth_and_a_turned_camera():
    def shown(image: Image.Image, **options: Any) -> np.ndarray:
        return GREY.shown(GREY.pixels(content(image, **options)))

    image = noise(8, 8, 3)
    red, green, blue = np.asarray(image, np.float64).transpose(2, 0, 1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue  # ITU-R BT.601
    assert np.abs((GREY.pixels(image)[0] / 2 + 0.5) * 255 - luma).max() <= 0.51
    pixels = ImageReader(8, 8, 3, (2, 2)).pixels(noise(8, 8))
    assert np.array_equal(pixels[0], pixels[1]) and np.array_equal(pixels[0], pixels[2])
    for mode in ("RGBA", "LA", "P"):  # what is transparent is put on white
        image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
        image.paste((0, 0, 0, 255), (0, 0, 4, 8))
        made = shown(image.convert(mode))
        assert (made[:, :4] == 0).all() and (made[:, 4:] == 255).all(), mode
    half = Image.new("RGBA", (8, 8), (0, 0, 0, 102))  # half transparent black on white is grey
    assert set(GREY.shown(GREY.pixels(half)).ravel()) == {153}
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by 90 degrees clockwise
    read = GREY.pixels(content(noise(8, 8), exif=turned))
    assert np.array_equal(read[0], np.rot90(GREY.pixels(noise(8, 8))[0], -1))
    deep = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    assert np.abs(shown(Image.fromarray(deep))[..., 0] - deep / 257).max() <= 0.5
    # of an animation the first frame is read
    frames = {"save_all": True, "append_images": [Image.new("L", (8, 8), 255)]}
    assert (shown(Image.new("L", (8, 8), 0), kind="GIF", **frames) == 0).all()


def test_every_kind_of_file_opens_from_a_path_and_from_bytes(tmp_path):
    path = tmp_path / "picture"
    for kind in images.FORMATS:
        file = content(noise(8, 8), kind, **({"lossless": True} if kind == "WEBP" else {}))
        path.write_bytes(file)
        for given in (path, str(path)):
            assert np.array_equal(COLOURS.pixels(given), COLOURS.pixels(file)), kind
        if kind != "JPEG":
            assert np.array_equal(GREY.pixels(file), GREY.pixels(noise(8, 8))), kind


def png_claiming(width: int, height: int) -> bytes:
    """Return a PNG whose header promises a size that its few bytes do not hold."""

    def chunk(name: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes(64)))
    return b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b"")


def test_what_is_no_picture_is_refused_in_a_sentence():
    for given, said in (
        (b"", "no picture that can be read"),
        (b"%PDF-1.7 and so on", "no picture that can be read"),
        (content(Image.new("L", (8, 8)), "TIFF"), "no picture that can be read"),
        (content(noise(64, 64, 3))[:2000], "damaged"),
        (png_claiming(8, 8)[:-20], "damaged"),
        (png_claiming(9000, 9000), "81|9,000 x 9,000 pixels"),
        (png_claiming(60000, 60000), "far too many pixels"),
        (bytes(images.MAX_BYTES + 1), "more than 20 MB"),
        ("nowhere/at-all.png", "There is no picture 'nowhere/at-all.png'"),
        (42, "got int"),
        (Image.new("F", (8, 8)), "mode 'F'"),
        (Image.new("I", (8, 8)), "mode 'I'"),
        (Image.new("L", (0, 5)), "0 x 5 pixels"),
    ):
        refuses(said, GREY.pixels, given)
    strip = Image.new("L", (1, 400_000))  # which would fill the memory
    refuses("too long and thin", ImageReader(224, 224, 1, (16, 16), crop=0.9).pixels, strip)


def test_tokens_are_those_in_front_and_then_the_patches_row_by_row():
    reader = ImageReader(7, 6, 1, (3, 2), prefix=("class", "register 0"))
    tokens = reader.tokens()
    assert reader.grid == (2, 3)
    assert tokens.labels == ("class", "register 0", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert tokens.special == (True, True, *[False] * 6)
    assert tokens.ids == () and len(set(tokens.words)) == len(tokens) == 8


def test_readers_that_cannot_be_are_refused():
    assert ImageReader(64, 64, 1, (1, 1)).grid == (64, 64)
    refuses("into 4,160 patches is beyond", ImageReader, 64, 65, 1, (1, 1))
    sizes = {"height": 24, "width": 24, "channels": 3, "patch": (8, 8)}
    for words, said in (
        ({"height": 7, "patch": (8, 8)}, "cannot be cut into patches"),
        ({"channels": 0}, "0 channels"),
        ({"height": 10**6, "width": 10**6}, "1,000,000 x 1,000,000 pixels is beyond"),
        ({"mean": (0.5, 0.5)}, "mean needs one number, or one for each of 3 channels"),
        ({"std": (0.0,)}, "above 0"),
        ({"std": (float("nan"),)}, "std needs"),
        ({"interpolation": "cubic"}, "no interpolation 'cubic'; choose one of nearest"),
        ({"crop": 1.5}, "crop is a fraction"),
    ):
        refuses(said, ImageReader, **(sizes | words))
