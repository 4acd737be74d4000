"""Audio input of a model: samples with their rate, and the frames computed from them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from ..core.trace_parts import Tokens
from .wav import read_wav

MAX_BYTES = 20 * 10**6  # per file
MAX_SECONDS = 30.0
MAX_FRAMES = 2**12  # all pairs attend: a map of this size takes 64 MB
MIN_RATE, MAX_RATE = 1_000, 384_000  # samples per second of the input
NOTES = (523.25, 659.26, 783.99)  # Hz of the example: C, E and G
NOTE, PAUSE = 0.3, 0.1  # seconds


@dataclass(frozen=True)
class AudioReader:
    """Audio input of a model: sample rate, and the samples of each frame.

    Attributes:
        rate: Samples per second.
        hop: Samples between the starts of two frames.
        window: Samples of a frame.
        fixed: Number of frames of a model that pads each sound with silence; 0 if the number
            depends on the sound.
        seconds: Maximum length of a sound.
    """

    rate: int
    hop: int
    window: int
    fixed: int = 0
    seconds: float = MAX_SECONDS

    def samples(self, sound: Any) -> np.ndarray:
        """Return a sound at the model's rate: float32 ``[sample]``, one channel, from -1 to 1.

        Args:
            sound: Path or bytes of a WAV file; floats ``[sample]`` at the model's rate; or such
                floats with their rate, ``(samples, rate)``. Several channels are averaged, and
                another rate is resampled (see `resampled`).

        Raises:
            ValueError: The file is missing, is not a WAV file, is damaged, empty, too short, too
                long or too large, or samples are not finite floats. The message names the problem.
        """
        name, given, rate = _opened(sound, self.rate)
        if len(given) > self.seconds * rate:
            raise ValueError(
                f"{name} lasts {len(given) / rate:,.1f} s and this model hears at most "
                f"{self.seconds:g} s; cut out a part of it."
            )
        heard = resampled(given, rate, self.rate)
        if len(heard) < self.window:
            raise ValueError(
                f"{name} lasts {len(given) / rate:.3f} s and this model needs at least "
                f"{self.window / self.rate:.3f} s; give a longer one."
            )
        if self.frames(len(heard)) > MAX_FRAMES:
            raise ValueError(
                f"{name} has {self.frames(len(heard)):,} frames for this model, and {MAX_FRAMES:,} "
                "are the most that can be drawn; give a shorter one."
            )
        return heard

    def features(self, samples: np.ndarray) -> np.ndarray:
        """Return the model's input for `samples`: float32 ``[sample]``, or ``[mel, time]``."""
        return samples

    def frames(self, samples: int) -> int:
        """Return the number of frames of a sound with this many samples, padding included."""
        return self.fixed or 1 + (samples - self.window) // self.hop

    def tokens(self, samples: int) -> Tokens:
        """Return one token per frame, labelled with the second at which the frame begins.

        Frames after the end of the sound, in a model of fixed length, are marked as special, like
        padding.
        """
        names = tuple(self._name(number * self.hop) for number in range(self.frames(samples)))
        after = tuple(number * self.hop >= samples for number in range(len(names)))
        return Tokens((), names, names, tuple(range(len(names))), after)

    def example(self) -> np.ndarray:
        """Return a generated sound, always the same: three rising notes, float32 ``[sample]``."""
        return example_sound(self.rate)[: int(self.seconds * self.rate)]

    def _name(self, sample: int) -> str:
        digits = next((d for d in (2, 3, 4) if self.hop * 10**d % self.rate == 0), 5)
        return f"{sample / self.rate:.{digits}f} s"


def example_sound(rate: int) -> np.ndarray:
    """Return three rising notes (C, E, G), 0.3 s each with soft ends and a pause after them.

    They are generated sine waves, not a recording.

    Returns:
        float32 ``[sample]`` at ``rate`` samples per second.
    """
    time = np.arange(int(NOTE * rate)) / rate
    swell = np.sin(np.pi * time / NOTE) ** 2
    silence = np.zeros(int(PAUSE * rate))
    parts = [np.concatenate((0.5 * swell * np.sin(2 * np.pi * f * time), silence)) for f in NOTES]
    return np.concatenate(parts).astype(np.float32)


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Return a sound at another rate, computed by FFT; frequencies common to both rates are kept.

    Args:
        samples: Floats ``[sample]``; silence is assumed after them.
        rate: Samples per second of the input.
        wanted: Samples per second of the output.

    Returns:
        float32 ``[sample]`` of the same duration.
    """
    if rate == wanted:
        return np.ascontiguousarray(samples, np.float32)
    common = gcd(rate, wanted)
    before, after = rate // common, wanted // common  # samples of the common period
    stretches = -(-len(samples) // before) + 1
    spectrum = np.fft.rfft(samples, stretches * before)
    # the inverse drops, or fills with zeros, frequencies that only one rate can represent
    whole = np.fft.irfft(spectrum, stretches * after) * (after / before)
    return whole[: -(-len(samples) * wanted // rate)].astype(np.float32)


def _opened(sound: Any, rate: int) -> tuple[str, np.ndarray, int]:
    """Return the name of a sound for messages, its samples ``[sample]``, and its rate."""
    if isinstance(sound, bytes):
        return "The sound", *_parsed("The sound", sound)
    if isinstance(sound, str | Path):
        name = Path(sound).name
        return name, *_parsed(name, _content(Path(sound)))
    if isinstance(sound, tuple) and len(sound) == 2 and isinstance(sound[0], np.ndarray):
        return "The sound", _checked(sound[0]), _rate(sound[1])
    if isinstance(sound, np.ndarray):
        return "The sound", _checked(sound), rate
    raise ValueError(
        "A sound is the path or the bytes of a WAV file, floats [sample], or (samples, rate); got "
        f"{type(sound).__name__}."
    )


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"There is no sound {str(path)!r}; give the path of a WAV file.")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _parsed(name: str, content: bytes) -> tuple[np.ndarray, int]:
    if len(content) > MAX_BYTES:
        raise ValueError(
            f"{name} has more than {MAX_BYTES // 10**6} MB, which is the most; cut it, or save it "
            "at a lower rate."
        )
    samples, rate = read_wav(content, name)
    return _checked(samples.mean(axis=1, dtype=np.float64), name), _rate(rate, name)


def _checked(samples: np.ndarray, name: str = "The sound") -> np.ndarray:
    if samples.dtype.kind != "f" or samples.ndim != 1:
        raise ValueError(
            f"{name} must be floats [sample] from -1 to 1, of one channel; got {samples.dtype} "
            f"{list(samples.shape)}. Divide whole numbers by their largest, and average channels."
        )
    if not len(samples):
        raise ValueError(f"{name} has no samples; give one that lasts a moment.")
    if not np.isfinite(samples).all() or np.abs(samples).max() > np.finfo(np.float32).max:
        raise ValueError(
            f"{name} has samples that are not finite (NaN or infinite), and a sound has numbers "
            "from -1 to 1; save it again."
        )
    return samples


def _rate(rate: Any, name: str = "The sound") -> int:
    try:
        whole = operator.index(rate)
    except TypeError:
        whole = 0
    if not MIN_RATE <= whole <= MAX_RATE:
        raise ValueError(
            f"{name} has {rate!r} samples a second; expected a whole number from {MIN_RATE:,} to "
            f"{MAX_RATE:,}."
        )
    return whole
