"""Sounds as a model hears them: samples with their rate, and the frames that it makes of them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from ..core.trace_parts import Tokens
from .wav import read_wav

MAX_BYTES = 20 * 10**6  # of a file
MAX_SECONDS = 30.0
MAX_FRAMES = 2**12  # each attends to each: a map of so many has 64 MB
MIN_RATE, MAX_RATE = 1_000, 384_000  # samples a second of what is given
NOTES = (523.25, 659.26, 783.99)  # Hz of the example: C, E and G
NOTE, PAUSE = 0.3, 0.1  # seconds


@dataclass(frozen=True)
class AudioReader:
    """How a model hears a sound: its rate, and which samples make one frame.

    ``rate`` is in samples a second. A frame begins ``hop`` samples after the one before it and
    needs ``window`` samples. ``fixed`` is the number of frames of a model that fills each sound up
    with silence; 0 makes as many as the sound holds. A sound has at most ``seconds``.
    """

    rate: int
    hop: int
    window: int
    fixed: int = 0
    seconds: float = MAX_SECONDS

    def samples(self, sound: Any) -> np.ndarray:
        """A sound at the model's rate: float32 ``[sample]``, one channel, from -1 to 1.

        Args:
            sound: the path or the bytes of a WAV file; floats ``[sample]`` at the model's rate; or
                such floats and their own rate, ``(samples, rate)``. Several channels are averaged,
                and another rate is brought to the model's (see `resampled`).

        Raises:
            ValueError: no such file, no WAV, a damaged, empty, too short, too long or too large
                one, or samples that are no finite floats; says which.
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
        """What the model itself reads of `samples`: float32 ``[sample]``, or ``[mel, time]``."""
        return samples

    def frames(self, samples: int) -> int:
        """How many frames a sound of so many samples has, silence that fills it up included."""
        return self.fixed or 1 + (samples - self.window) // self.hop

    def tokens(self, samples: int) -> Tokens:
        """What the rows of the attention are: frames, named by the second at which they begin.

        Frames after the sound's end, of a model that always hears the same length, are marked as
        special, like padding.
        """
        names = tuple(self._name(number * self.hop) for number in range(self.frames(samples)))
        after = tuple(number * self.hop >= samples for number in range(len(names)))
        return Tokens((), names, names, tuple(range(len(names))), after)

    def example(self) -> np.ndarray:
        """A sound made by code, the same each time: three notes that rise, float32 ``[sample]``."""
        return example_sound(self.rate)[: int(self.seconds * self.rate)]

    def _name(self, sample: int) -> str:
        digits = next((d for d in (2, 3, 4) if self.hop * 10**d % self.rate == 0), 5)
        return f"{sample / self.rate:.{digits}f} s"


def example_sound(rate: int) -> np.ndarray:
    """Three notes that rise (C, E, G), 0.3 s each with soft ends and a pause after them.

    They are sines made here, nobody's recording.

    Returns:
        float32 ``[sample]`` at ``rate`` samples a second.
    """
    time = np.arange(int(NOTE * rate)) / rate
    swell = np.sin(np.pi * time / NOTE) ** 2
    silence = np.zeros(int(PAUSE * rate))
    parts = [np.concatenate((0.5 * swell * np.sin(2 * np.pi * f * time), silence)) for f in NOTES]
    return np.concatenate(parts).astype(np.float32)


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """A sound at another rate, through its spectrum: what both rates can hold stays as it is.

    Args:
        samples: floats ``[sample]``; silence is assumed after them.
        rate: their samples a second.
        wanted: those of what comes out.

    Returns:
        float32 ``[sample]``, lasting as long.
    """
    if rate == wanted:
        return np.ascontiguousarray(samples, np.float32)
    common = gcd(rate, wanted)
    before, after = rate // common, wanted // common  # samples of a stretch that both divide
    stretches = -(-len(samples) // before) + 1
    spectrum = np.fft.rfft(samples, stretches * before)
    # the inverse leaves out, or fills with zeros, the frequencies that only one rate can hold
    whole = np.fft.irfft(spectrum, stretches * after) * (after / before)
    return whole[: -(-len(samples) * wanted // rate)].astype(np.float32)


def _opened(sound: Any, rate: int) -> tuple[str, np.ndarray, int]:
    """How a sound is called in a sentence, its samples ``[sample]``, and its rate."""
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
