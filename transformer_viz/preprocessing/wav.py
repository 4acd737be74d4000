"""Reader and writer of WAV files: samples after a header with their format.

Python's ``wave`` module supports neither floats nor, before 3.12, extensible headers, so the chunks
of the file are parsed here.
"""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Iterator

import numpy as np

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE  # format tags of uncompressed samples
KNOWN = {*((PCM, bits) for bits in (8, 16, 24, 32)), (FLOAT, 32), (FLOAT, 64)}
MAX_CHANNELS = 8
FORMAT = struct.Struct("<HHIIHH")  # tag, channels, rate, bytes per second, bytes per frame, bits


def read_wav(content: bytes, name: str = "The file") -> tuple[np.ndarray, int]:
    """Return the samples of a WAV file and its rate.

    Args:
        content: The file's bytes; PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64.
        name: Name of the file in error messages.

    Returns:
        Floats ``[sample, channel]``, integers scaled to -1 to 1; and samples per second.

    Raises:
        ValueError: No WAV file, truncated, empty, or compressed. The message names the given and
            the expected format, and what to do.
    """
    data, tag, bits, channels, rate = _parts(content, name)
    return _numbers(data, tag, bits).reshape(-1, channels), rate


def is_wav(content: bytes) -> bool:
    """Return True if `read_wav` can read the file, and it is not empty."""
    try:
        return bool(_parts(content, "")[0])
    except ValueError:
        return False


def _parts(content: bytes, name: str) -> tuple[bytes, int, int, int, int]:
    """Return the bytes of the samples, their format tag and bits, the channels, and the rate."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError(
            f"{name} is no WAV file ({_beginning(content)}); save the sound as WAV, PCM of 16 bits."
        )
    chunks = dict(reversed(list(_chunks(content))))  # the first chunk of a name is used
    size, header = chunks.get(b"fmt ", (0, b""))
    if len(header) < FORMAT.size or b"data" not in chunks:
        lacks = "says not what its samples are" if b"data" in chunks else "holds no samples"
        raise ValueError(f"{name} is damaged: it {lacks}. Save or copy it again.")
    tag, channels, rate, _, width, bits = FORMAT.unpack_from(header)
    if tag == EXTENSIBLE and len(header) >= 26:
        (tag,) = struct.unpack_from("<H", header, 24)
    size, data = chunks[b"data"]
    if size > len(data):
        raise ValueError(
            f"{name} was cut off: it announces {size:,} bytes of samples and holds {len(data):,}. "
            "Copy or record it again."
        )
    if not 1 <= channels <= MAX_CHANNELS or width != channels * -(-bits // 8):
        raise ValueError(
            f"{name} is damaged: it announces {channels} channels of {bits} bits in {width} bytes. "
            f"Expected 1 to {MAX_CHANNELS} channels; save it again."
        )
    if (tag, bits) not in KNOWN:
        raise ValueError(
            f"{name} holds samples of format {tag} with {bits} bits; expected PCM of 8, 16, 24 or "
            "32 bits, or floats. Save it as WAV, PCM of 16 bits."
        )
    return data[: size - size % width], tag, bits, channels, rate


def _chunks(content: bytes) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
    """Yield the name of each chunk, its announced size, and its available bytes."""
    place = 12
    while place + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, place)
        yield name, (size, content[place + 8 : place + 8 + size])
        place += 8 + size + size % 2


def _numbers(data: bytes, tag: int, bits: int) -> np.ndarray:
    """Return interleaved samples from -1 to 1."""
    if tag == FLOAT:
        return np.frombuffer(data, f"<f{bits // 8}").astype(np.float64)
    if bits == 8:  # the only unsigned format
        return (np.frombuffer(data, np.uint8).astype(np.float64) - 128) / 128
    if bits == 24:
        bytes_ = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(bytes_), 4), np.uint8)
        wide[:, 1:] = bytes_  # the upper bytes of 32 bits keep the sign
        return wide.reshape(-1).view("<i4").astype(np.float64) / 2**31
    return np.frombuffer(data, f"<i{bits // 8}").astype(np.float64) / 2 ** (bits - 1)


def wav_bytes(samples: np.ndarray, rate: int) -> bytes:
    """Return a WAV file, PCM of 16 bits, of floats ``[sample]`` from -1 to 1."""
    whole = np.clip(np.rint(samples * 32767), -32768, 32767).astype("<i2")
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(whole.tobytes())
    return held.getvalue()


def _beginning(content: bytes) -> str:
    known = {b"ID3": "an MP3", b"\xff\xfb": "an MP3", b"fLaC": "a FLAC", b"OggS": "an Ogg",
             b"RF64": "an RF64", b"caff": "a CAF", b"\x1aE\xdf\xa3": "a WebM"}  # fmt: skip
    for start, kind in known.items():
        if content.startswith(start):
            return f"it begins as {kind} file"
    if content[4:8] == b"ftyp":
        return "it begins as an MP4 file"
    return f"it begins with {content[:4]!r}" if content else "it is empty"
