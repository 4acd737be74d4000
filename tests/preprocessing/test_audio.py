"""WAV files read with care, rates changed without a trace, frames named by their time."""

from __future__ import annotations

import io
import struct
import wave
from typing import Any

import numpy as np
import pytest

from transformer_viz.preprocessing import audio
from transformer_viz.preprocessing.audio import AudioReader, example_sound, resampled
from transformer_viz.preprocessing.wav import is_wav, read_wav, wav_bytes

READER = AudioReader(rate=16000, hop=320, window=400)
SOUND = example_sound(16000)
GOOD = wav_bytes(SOUND, 16000)


def by_wave(width: int, channels: int, numbers: np.ndarray, rate: int = 8000) -> bytes:
    """A file as Python's own module writes it, of whole numbers ``[sample, channel]``."""
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


@pytest.mark.parametrize(("width", "middle"), [(1, 128), (2, 0), (3, 0), (4, 0)])
@pytest.mark.parametrize("channels", [1, 2])
def test_whole_numbers_become_minus_one_to_one(width, middle, channels):
    most = 2 ** (8 * width - 1)
    numbers = np.array([[-most, most - 1], [0, most // 2]])[:, :channels]
    found, rate = read_wav(by_wave(width, channels, numbers + middle))
    assert rate == 8000
    assert np.allclose(found, numbers / most, rtol=0, atol=1e-12)
    mixed = READER.samples((np.repeat(found.mean(axis=1), 4000), 8000))
    assert len(mixed) == 16000


@pytest.mark.parametrize("bits", [32, 64])
def test_floats_and_the_header_of_newer_programs(bits):
    numbers = np.array([0.25, -0.5, 1.0], f"<f{bits // 8}")
    found, _ = read_wav(riff(fmt(3, bits=bits), chunk(b"data", numbers.tobytes())))
    assert (found[:, 0] == numbers).all()
    inner = struct.pack("<HHIIHHHHIH", 0xFFFE, 1, 8000, 16000, 2, 16, 22, 16, 4, 1) + bytes(14)
    whole = np.array([16384, -32768], "<i2").tobytes()
    found, _ = read_wav(riff(chunk(b"fmt ", inner), chunk(b"LIST", b"odd"), b"\0",
                             chunk(b"data", whole)))  # fmt: skip
    assert found[:, 0].tolist() == [0.5, -1.0]


def test_what_is_written_is_read():
    found, rate = read_wav(GOOD)
    assert rate == 16000
    assert np.abs(found[:, 0] - SOUND).max() < 1e-4
    assert (READER.samples(GOOD) == READER.samples((found[:, 0], 16000))).all()


CASES = {
    "empty": (b"", "is no WAV file (it is empty)"),
    "mp3": (b"ID3\x04" + bytes(100), "begins as an MP3 file"),
    "mp4": (b"\0\0\0\x20ftypM4A " + bytes(100), "begins as an MP4 file"),
    "webm": (b"\x1aE\xdf\xa3" + bytes(100), "begins as a WebM file"),
    "text": (b"hello world, hello", "begins with b'hell'"),
    "cut off": (GOOD[:5000], "was cut off: it announces 38,400 bytes"),
    "header alone": (GOOD[:20], "is damaged"),
    "no samples": (riff(fmt()), "holds no samples"),
    "no format": (riff(chunk(b"data", bytes(8))), "says not what its samples are"),
    "zero length": (riff(fmt(), chunk(b"data", b"")), "has no samples"),
    "4 GB": (riff(fmt(), chunk(b"data", bytes(8), 2**32 - 1)), "announces 4,294,967,295 bytes"),
    "compressed": (riff(fmt(85), chunk(b"data", bytes(8))), "format 85 with 16 bits"),
    "no channels": (riff(fmt(channels=0), chunk(b"data", bytes(8))), "announces 0 channels"),
    "many channels": (riff(fmt(channels=900), chunk(b"data", bytes(8))), "announces 900 channels"),
    "12 bits": (riff(fmt(bits=12), chunk(b"data", bytes(8))), "12 bits"),
    "no rate": (riff(fmt(rate=0), chunk(b"data", bytes(8))), "has 0 samples a second"),
    "NaN": (riff(fmt(3, bits=32), chunk(b"data", np.full(9, np.nan, "<f4").tobytes())),
            "samples that are not finite"),
    "too short": (wav_bytes(SOUND[:399], 16000), "needs at least 0.025 s"),
    "too long": (by_wave(1, 1, np.full((31_000, 1), 128), 1000), "lasts 31.0 s"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_hostile_files_are_refused_in_a_sentence(name, tmp_path):
    content, message = CASES[name]
    path = tmp_path / "voice.wav"
    path.write_bytes(content)
    for given, called in ((content, "The sound"), (path, "voice.wav")):
        with pytest.raises(ValueError) as caught:
            READER.samples(given)
        assert message in str(caught.value)
        assert str(caught.value).startswith(called)
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith(".")
    assert is_wav(content) == (name in ("no rate", "NaN", "too short", "too long"))


@pytest.mark.parametrize("end", range(0, 60, 1))
def test_a_file_cut_anywhere_is_refused_in_a_sentence(end):
    with pytest.raises(ValueError, match=r"no WAV file|damaged|cut off|no samples"):
        READER.samples(GOOD[:end])


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(audio, "MAX_BYTES", 1000)
    (tmp_path / "voice.wav").write_bytes(GOOD)
    with pytest.raises(ValueError, match="more than 0 MB, which is the most"):
        READER.samples(tmp_path / "voice.wav")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([0.0, np.inf] * 500), "not finite"),
        (np.full(1000, 1e300), "not finite"),
        (np.zeros((2, 1000)), r"got float64 \[2, 1000\]"),
        (np.zeros(1000, np.int16), r"got int16 \[1000\]"),
        (np.zeros(0), "has no samples"),
        ((np.zeros(1000), 8000.5), "has 8000.5 samples a second"),
        ((np.zeros(1000), 10**9), "expected a whole number from 1,000 to 384,000"),
        (None, "got NoneType"),
    ],
)
def test_arrays_that_are_no_sound(given, message):
    with pytest.raises(ValueError, match=message):
        READER.samples(given)


@pytest.mark.parametrize(("rate", "wanted"), [(44100, 16000), (8000, 16000), (22051, 16000)])
def test_a_tone_stays_the_same_tone_at_another_rate(rate, wanted):
    def tone(at: int) -> Any:
        time = np.arange(at) / at
        return np.sin(2 * np.pi * 440 * time) * np.sin(np.pi * time) ** 2

    made = resampled(tone(rate), rate, wanted)
    assert made.dtype == np.float32
    assert len(made) == wanted
    assert np.abs(made - tone(wanted)).max() < 1e-4


def test_what_the_lower_rate_cannot_hold_is_left_out():
    time = np.arange(48000) / 48000
    shrill = np.sin(2 * np.pi * 12000 * time) * np.sin(np.pi * time) ** 2
    assert np.abs(resampled(shrill, 48000, 16000)).max() < 1e-3


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
        assert abs(strength.argmax() / 10 - note) < 1
    assert np.abs(SOUND).max() == pytest.approx(0.5, abs=1e-3)
