"""WAV files read with care, rates changed without a trace, frames named by their time."""

from __future__ import annotations

import io
import struct
import wave
from itertools import product

import numpy as np
import pytest

from tests.support.cases import case
from tests.support.refusals import refuses
from transformer_viz.preprocessing import audio
from transformer_viz.preprocessing.audio import AudioReader, example_sound, resampled
from transformer_viz.preprocessing.wav import is_wav, read_wav, wav_bytes

READER = AudioReader(rate=16000, hop=320, window=400)
SOUND = example_sound(16000)
GOOD = wav_bytes(SOUND, 16000)


def by_wave(width: int, channels: int, numbers: np.ndarray, rate: int = 8000) -> bytes:
    """Return a file as Python's own module writes it, of whole numbers ``[sample, channel]``."""
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        wide = numbers.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :width]
        file.writeframes(wide.tobytes())
    return held.getvalue()


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(content) if size is None else size) + content


def riff(*chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + sum(map(len, chunks))) + b"WAVE" + b"".join(chunks)


def fmt(tag: int = 1, channels: int = 1, rate: int = 8000, bits: int = 16) -> bytes:
    width = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * width, width, bits))


def test_numbers_of_every_kind_become_minus_one_to_one():
    for (width, middle), channels in product(((1, 128), (2, 0), (3, 0), (4, 0)), (1, 2)):
        most = 2 ** (8 * width - 1)
        numbers = np.array([[-most, most - 1], [0, most // 2]])[:, :channels]
        found, rate = read_wav(by_wave(width, channels, numbers + middle))
        assert rate == 8000
        assert np.allclose(found, numbers / most, rtol=0, atol=1e-12), (width, channels)
        mixed = READER.samples((np.repeat(found.mean(axis=1), 4000), 8000))
        assert len(mixed) == 16000
    for bits in (32, 64):
        numbers = np.array([0.25, -0.5, 1.0], f"<f{bits // 8}")
        found, _ = read_wav(riff(fmt(3, bits=bits), chunk(b"data", numbers.tobytes())))
        assert (found[:, 0] == numbers).all(), bits
    # the header of newer programs
    inner = struct.pack("<HHIIHHHHIH", 0xFFFE, 1, 8000, 16000, 2, 16, 22, 16, 4, 1) + bytes(14)
    data = chunk(b"data", np.array([16384, -32768], "<i2").tobytes())
    found, _ = read_wav(riff(chunk(b"fmt ", inner), chunk(b"LIST", b"odd"), b"\0", data))
    assert found[:, 0].tolist() == [0.5, -1.0]
    # what is written is read
    found, rate = read_wav(GOOD)
    assert rate == 16000
    assert np.abs(found[:, 0] - SOUND).max() < 1e-4
    assert (READER.samples(GOOD) == READER.samples((found[:, 0], 16000))).all()


HOSTILE = (
    (b"", "is no WAV file (it is empty)"),
    (b"ID3\x04" + bytes(100), "begins as an MP3 file"),
    (b"\0\0\0\x20ftypM4A " + bytes(100), "begins as an MP4 file"),
    (b"\x1aE\xdf\xa3" + bytes(100), "begins as a WebM file"),
    (b"hello world, hello", "begins with b'hell'"),
    (GOOD[:5000], "was cut off: it announces 38,400 bytes"),
    (GOOD[:20], "is damaged"),
    (riff(fmt()), "holds no samples"),
    (riff(chunk(b"data", bytes(8))), "says not what its samples are"),
    (riff(fmt(), chunk(b"data", b"")), "has no samples"),
    (riff(fmt(), chunk(b"data", bytes(8), 2**32 - 1)), "announces 4,294,967,295 bytes"),
    (riff(fmt(85), chunk(b"data", bytes(8))), "format 85 with 16 bits"),
    (riff(fmt(channels=0), chunk(b"data", bytes(8))), "announces 0 channels"),
    (riff(fmt(channels=900), chunk(b"data", bytes(8))), "announces 900 channels"),
    (riff(fmt(bits=12), chunk(b"data", bytes(8))), "12 bits"),
)
#: WAV files as such, that are refused all the same.
READABLE = (
    (riff(fmt(rate=0), chunk(b"data", bytes(8))), "has 0 samples a second"),
    (
        riff(fmt(3, bits=32), chunk(b"data", np.full(9, np.nan, "<f4").tobytes())),
        "samples that are not finite",
    ),
    (wav_bytes(SOUND[:399], 16000), "needs at least 0.025 s"),
    (by_wave(1, 1, np.full((31_000, 1), 128), 1000), "lasts 31.0 s"),
)


def test_hostile_files_are_refused_in_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "voice.wav"
    for content, message in (*HOSTILE, *READABLE):
        path.write_bytes(content)
        for given, called in ((content, "The sound"), (path, "voice.wav")):
            with case(message), pytest.raises(ValueError) as caught:
                READER.samples(given)
            said = str(caught.value)
            assert message in said and "\n" not in said
            assert said.startswith(called) and said.endswith(".")
        assert is_wav(content) == ((content, message) in READABLE), message
    for end in range(60):
        with case(end):
            refuses(r"no WAV file|damaged|cut off|no samples", READER.samples, GOOD[:end])
    monkeypatch.setattr(audio, "MAX_BYTES", 1000)  # one that is too large is not read whole
    path.write_bytes(GOOD)
    refuses("more than 0 MB, which is the most", READER.samples, path)


def test_arrays_that_are_no_sound():
    for given, message in (
        (np.array([0.0, np.inf] * 500), "not finite"),
        (np.full(1000, 1e300), "not finite"),
        (np.zeros((2, 1000)), r"got float64 \[2, 1000\]"),
        (np.zeros(1000, np.int16), r"got int16 \[1000\]"),
        (np.zeros(0), "has no samples"),
        ((np.zeros(1000), 8000.5), "has 8000.5 samples a second"),
        ((np.zeros(1000), 10**9), "expected a whole number from 1,000 to 384,000"),
        (None, "got NoneType"),
    ):
        refuses(message, READER.samples, given)


def test_a_tone_stays_the_same_tone_at_another_rate():
    def tone(hertz: int, rate: int) -> np.ndarray:
        time = np.arange(rate) / rate
        return np.sin(2 * np.pi * hertz * time) * np.sin(np.pi * time) ** 2

    for rate in (44100, 8000, 22051):
        made = resampled(tone(440, rate), rate, 16000)
        assert made.dtype == np.float32 and len(made) == 16000, rate
        assert np.abs(made - tone(440, 16000)).max() < 1e-4, rate
    # what the lower rate cannot hold is left out
    assert np.abs(resampled(tone(12000, 48000), 48000, 16000)).max() < 1e-3


def test_frames_are_named_by_the_second_at_which_they_begin():
    tokens = READER.tokens(16000)
    assert len(tokens) == READER.frames(16000) == 49  # as wav2vec2 makes of a second
    assert tokens.labels[:3] == ("0.00 s", "0.02 s", "0.04 s")
    assert not any(tokens.special)
    assert AudioReader(16000, 384, 895).tokens(8000).labels[1] == "0.024 s"
    padded = AudioReader(16000, 320, 1, fixed=1500).tokens(16000)
    assert len(padded) == 1500
    assert padded.special.index(True) == 50
    odd = AudioReader(22050, 7, 7).tokens(4410).labels
    assert len(set(odd)) == len(odd)


def test_the_example_is_three_notes():
    assert (example_sound(16000) == example_sound(16000)).all()
    assert len(SOUND) == 19200
    for number, note in enumerate((523.25, 659.26, 783.99)):
        part = SOUND[number * 6400 :][:4800]
        strength = np.abs(np.fft.rfft(part, 160_000))
        assert abs(strength.argmax() / 10 - note) < 1, note
    assert np.abs(SOUND).max() == pytest.approx(0.5, abs=1e-3)
