"""Audio input of a Hugging Face model: the library's feature extractor, in plain numpy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...preprocessing.audio import MAX_FRAMES, MAX_RATE, MAX_SECONDS, MIN_RATE, AudioReader
from ..files.errors import CheckpointError
from ..files.reading import read_config
from .image_processor import PROCESSOR
from .library import plainly

WHISPER, SAMPLES = "WhisperFeatureExtractor", "Wav2Vec2FeatureExtractor"
#: Kinds of models with known frames, and the extractor that each was trained with.
EXTRACTORS = {
    "whisper": WHISPER,
    "moonshine": SAMPLES,
    "wav2vec2": SAMPLES,
    "hubert": SAMPLES,
    "wavlm": SAMPLES,
}
MOONSHINE = ((127, 64), (7, 3), (3, 2))  # kernels and strides, which no config states
#: Options of a preprocessor_config.json for reading one sound; dither would be noise.
WORDS = {
    WHISPER: ("feature_size", "sampling_rate", "hop_length", "chunk_length", "n_fft"),
    SAMPLES: ("sampling_rate", "do_normalize"),
}
MOST = {"feature_size": 1024, "hop_length": 2**16, "chunk_length": MAX_SECONDS, "n_fft": 2**14}


@dataclass(frozen=True)
class Extracted(AudioReader):
    """Audio reader with a feature extractor of the library."""

    extractor: Any = field(default=None, compare=False, repr=False)

    def features(self, samples: np.ndarray) -> np.ndarray:
        made = self.extractor(samples, sampling_rate=self.rate, return_tensors="np")
        given = next(made[name] for name in ("input_features", "input_values") if name in made)
        return np.asarray(given[0], np.float32)


def hearing_of(
    folder: Path | None, config: Any
) -> tuple[AudioReader, dict[str, Any], dict[str, str]]:
    """Return the audio reader of a model, its options, and their origins.

    Raises:
        CheckpointError: There is no ``preprocessor_config.json``, or its options are no sizes, or
            do
            not fit the model.
    """
    import transformers

    kind = EXTRACTORS[config.model_type]
    file = {} if folder is None else read_config(folder / PROCESSOR)
    if not file:
        raise CheckpointError(
            f"A {config.model_type} model needs a {PROCESSOR} beside its weights, which says how "
            f"sounds become numbers, and there is none; save one with {kind}(...)"
            ".save_pretrained(folder), and load the folder."
        )
    given = file.get("feature_extractor_type", kind)
    if given != kind:
        raise CheckpointError(
            f"{PROCESSOR} names {given!r}, and a {config.model_type} model hears through {kind}; "
            "take the file that belongs to it."
        )
    try:
        settings = {word: _size(word, file[word]) for word in WORDS[kind] if word in file}
        extractor = getattr(transformers, kind)(**settings)
        rate = extractor.sampling_rate
        reader = _whisper(extractor, config) if kind == WHISPER else _samples(extractor, config)
        if (frames := reader.frames(len(reader.example()))) > MAX_FRAMES:
            raise ValueError(f"{frames:,} frames of a second are beyond what can be drawn")
    except (TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise CheckpointError(f"{PROCESSOR} cannot be used: {plainly(error)}.") from error
    settings = {"sampling_rate": rate} | settings
    return reader, settings, {w: "sidecar" if w in file else "layout" for w in settings}


def _size(word: str, value: Any) -> Any:
    """Return a checked number.

    Raises:
        ValueError: Names the option.
    """
    if word == "do_normalize":
        return bool(value)
    least, most = (MIN_RATE, MAX_RATE) if word == "sampling_rate" else (1, MOST[word])
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{word} is a whole number from {least:,} to {most:,}, got {value!r}")
    return value


def _whisper(extractor: Any, config: Any) -> AudioReader:
    """Return Whisper's reader: fixed length of sound, two spectrum steps per frame."""
    steps, heard = extractor.nb_max_frames, 2 * config.max_source_positions
    if (extractor.feature_size, steps) != (config.num_mel_bins, heard):
        raise ValueError(
            f"it makes {extractor.feature_size} bands and {steps:,} steps of a sound, and the "
            f"model reads {config.num_mel_bins} and {heard:,}"
        )
    return Extracted(
        rate=extractor.sampling_rate,
        hop=2 * extractor.hop_length,
        window=1,
        fixed=config.max_source_positions,
        seconds=extractor.chunk_length,
        extractor=extractor,
    )


def _samples(extractor: Any, config: Any) -> AudioReader:
    """Return the reader of a model on samples: frames come from convolutions without padding."""
    fixed = config.model_type == "moonshine"
    convolutions = MOONSHINE if fixed else zip(config.conv_kernel, config.conv_stride, strict=True)
    hop, window = 1, 1
    for kernel, stride in convolutions:
        window += (kernel - 1) * hop
        hop *= stride
    return Extracted(extractor.sampling_rate, hop, window, extractor=extractor)
