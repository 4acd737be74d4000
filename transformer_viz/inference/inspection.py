"""Contents of a checkpoint and their interpretation, as plain data for page and terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoints.common.model import Model
from ..checkpoints.common.parameter_counts import Block, parameter_blocks
from ..checkpoints.common.provenance import GUESSES, ORIGINS, settling
from ..core.errors import visible
from ..i18n import say
from ..preprocessing.tokenizers import PlainIds, target_side
from ..preprocessing.vocabularies import types_ids
from .decoding.progress import Progress
from .findings import AttentionSite, Finding, findings_of, sites_of
from .progress.proofs import OnProgress
from .seeing import see
from .token_ids import source_ids, target_ids
from .tracing import trace

SENTENCE = "The cat sat on the mat because it was tired."
TOKENS = 12  # maximum for the sample run
PIECES = 24  # vocabulary entries shown
CARDS = ("README.md", "MODEL_CARD.md", "README.txt", "README")
LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "NOTICE")
READ = 2**16  # bytes of a card that are read
LINES = {"card": 40, "licence": 4}  # lines shown


@dataclass(frozen=True)
class Word:
    """Key of the config: its value, the origin of the value, and an explanation of the origin."""

    word: str
    value: Any
    origin: str
    meaning: str
    guess: bool


@dataclass(frozen=True)
class Vocabulary:
    """Vocabulary of a model.

    Attributes:
        size: Number of tokens.
        sample: Some tokens from all over the vocabulary.
        special: Role, id and piece of each special token.
        typed: True if there is no vocabulary and ids are typed as numbers.
        two: True if the target has another vocabulary, which holds start and end.
    """

    size: int
    sample: tuple[str, ...]
    special: tuple[tuple[str, int, str], ...]
    typed: bool
    two: bool = False


@dataclass(frozen=True)
class Inspection:
    """Interpretation of a checkpoint, and results of a sample run.

    ``parameters`` is the number of trained parameters, ``size`` the file size in bytes.
    ``unwrapped`` lists containers around the weights; ``blocks`` sum to ``parameters``. ``card``
    and ``licence`` are the first lines of files next to the weights. ``findings`` and the sites are
    empty if no report was requested.
    """

    name: str
    title: str
    layout: str
    kind: str
    takes: str
    gives: str
    parameters: int
    size: int
    dtype: str
    file_dtype: str
    device: str
    hash: str
    config: tuple[Word, ...]
    unwrapped: tuple[str, ...]
    blocks: tuple[Block, ...]
    vocabulary: Vocabulary
    labels: tuple[str, ...]
    card: str
    licence: str
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    sites: tuple[AttentionSite, ...] = ()
    norms: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """Status of the report.

        ``green`` if every finding is, ``amber`` if any is, ``unchecked`` if the run was not proved,
        ``not run`` without findings.
        """
        found = {finding.status for finding in self.findings}
        return next((one for one in ("amber", "unchecked", "green") if one in found), "not run")

    @property
    def guesses(self) -> tuple[str, ...]:
        """Config keys that no file states for certain."""
        return tuple(row.word for row in self.config if row.guess)

    @property
    def guessed(self) -> dict[str, Any]:
        """Guessed config keys that need to be settled, with their values."""
        values = {row.word: row.value for row in self.config}
        return {word: values[word] for word in settling(self.guesses)}

    def to_dict(self) -> dict[str, Any]:
        """Return the inspection as JSON types; ``config`` and ``provenance`` by key."""
        found = dataclasses.asdict(self)
        found["config"] = {row.word: _plain(row.value) for row in self.config}
        found["provenance"] = {row.word: row.origin for row in self.config}
        return found | {"guesses": list(self.guesses), "report": self.status}


def inspect(
    model: Model,
    *,
    report: bool = True,
    source: Any = None,
    image: Any = None,
    check: bool | None = None,
    on_progress: OnProgress | None = None,
) -> Inspection:
    """Inspect an opened model.

    Args:
        model: Result of `load`.
        report: Also run a small sample through the model and report the capture.
        source: Input to run instead of the sample, as in `trace`.
        image: Picture beside the text, as in `trace`.
        check: True to prove the capture, as in `trace`.
        on_progress: Called with the passes of a long proof, as in `trace`.

    Raises:
        ValueError: The model cannot read the picture.
    """
    seen = None if image is None else see(model, image)
    about = Inspection(
        name=model.name,
        title=model.title,
        layout=model.layout,
        kind=model.kind,
        takes=model.takes,
        gives=model.gives,
        parameters=model.parameters,
        size=model.file_size,
        dtype=model.dtype,
        file_dtype=model.file_dtype,
        device=model.device,
        hash=model.hash,
        config=config_rows(model),
        unwrapped=model.unwrapped,
        blocks=parameter_blocks(model),
        vocabulary=vocabulary_of(model),
        labels=model.labels,
        card=_beside(model.folder, CARDS, LINES["card"]),
        licence=_beside(model.folder, LICENCES, LINES["licence"]),
        notes=model.notes,
    )
    options = {"check": check, "image": seen}
    return _watched(model, about, source, Progress(on_progress), options) if report else about


def config_rows(model: Model) -> tuple[Word, ...]:
    """Return each config key with its value and origin, and True if that is a guess."""
    rows = []
    for word, value in model.config.items():
        origin = model.provenance.get(word, "")
        rows.append(Word(word, value, origin, ORIGINS.get(origin, ""), origin in GUESSES))
    return tuple(rows)


def vocabulary_of(model: Model) -> Vocabulary:
    """Return the vocabulary's size, some tokens, and the special ones by role."""
    pieces, typed = model.tokenizer.pieces, types_ids(model.tokenizer)
    sizes = (model.config.get(word) for word in ("vocab_size", "source_vocab", "target_vocab"))
    size = len(pieces) or max((n for n in sizes if isinstance(n, int)), default=0)
    chosen = np.linspace(0, len(pieces) - 1, min(PIECES, len(pieces))).round().astype(int)
    written = target_side(model.tokenizer).pieces  # another vocabulary in a few models
    roles = (
        ("padding", model.pad_id, pieces),
        ("start", model.bos_id, written),
        *(("end", token, written) for token in model.end_ids),
        ("mask", model.mask_id, pieces),
    )
    special = tuple(
        (role, token, visible(known[token]) if token < len(known) else str(token))
        for role, token, known in roles
        if token is not None and token >= 0
    )
    sample = () if typed else tuple(visible(pieces[i]) for i in chosen)
    return Vocabulary(size, sample, special, typed, tuple(written) != tuple(pieces))


def sample_source(model: Model) -> Any:
    """Return a small fixed input for this model.

    A few words, ids, a picture with a soft grey gradient, three notes, or seeded vectors.
    """
    if model.audio is not None:
        return model.audio.example()
    if model.takes == "image":
        assert model.image is not None
        shape = (model.image.channels, model.image.height, model.image.width)
        slope = np.add.outer(np.linspace(-1, 1, shape[1]), np.linspace(-1, 1, shape[2])) / 2
        return np.broadcast_to(slope, shape).astype(np.float32)
    if model.takes == "vectors":
        return _vectors(model, seed=0)
    if types_ids(model.tokenizer):
        size = model.config.get("source_vocab") or len(model.tokenizer.pieces)
        return _ids(model, size)
    return _sentence(model, source_ids, model.tokenizer.pieces)


def sample_target(model: Model) -> Any:
    """Return the decoder's input for `sample_source`; None without a decoder and source."""
    if model.kind != "encoder-decoder":
        return None
    if model.takes == "vectors":
        return _vectors(model, seed=1)
    if isinstance(target_side(model.tokenizer), PlainIds):
        size = model.config.get("target_vocab") or len(target_side(model.tokenizer).pieces)
        start = [] if model.bos_id is None else [model.bos_id]
        return [*start, *_ids(model, size)][: _length(model)]
    return _sentence(model, target_ids, target_side(model.tokenizer).pieces)


def _sentence(
    model: Model, encode: Callable[[Model, str], list[int]], pieces: Sequence[str]
) -> list[int]:
    """Return the ids of the sample sentence, or sample ids if the vocabulary cannot encode it."""
    try:
        return encode(_unlimited(model), SENTENCE)[: _length(model)]
    except ValueError:  # the vocabulary has no unknown token
        return _ids(model, len(pieces))


def _length(model: Model) -> int:
    return min(TOKENS, model.max_tokens or TOKENS)


def _unlimited(model: Model) -> Model:
    """Return the model without its length limit, since the ids are cut afterwards."""
    return dataclasses.replace(model, max_tokens=None)


def _vectors(model: Model, seed: int) -> np.ndarray:
    shape = (_length(model), int(model.config.get("d_model", 1)))
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _ids(model: Model, size: int) -> list[int]:
    """Return ids from all over a vocabulary of known size only."""
    special = {model.pad_id, model.bos_id, *model.end_ids, model.mask_id}
    ordinary = [i for i in range(min(size or TOKENS, 10**6)) if i not in special]
    chosen = ordinary or list(range(max(1, size)))
    count = min(_length(model), len(chosen))
    return [chosen[i * len(chosen) // count] for i in range(count)]


def _watched(
    model: Model, about: Inspection, source: Any, on_progress: Progress, options: dict[str, Any]
) -> Inspection:
    """Return the inspection with the results of a captured sample run."""
    given = sample_source(model) if source is None else source
    try:
        run = trace(model, given, sample_target(model), keep=(), on_progress=on_progress, **options)
    except Exception as error:  # an unknown module may raise anything
        if on_progress.error is not None:
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        said = say("A sample could not be run through this model: {reason}", reason=reason)
        failed = Finding(said, "amber")
        return dataclasses.replace(about, findings=(failed,))
    return dataclasses.replace(
        about,
        findings=findings_of(run),
        sites=sites_of(run),
        norms=tuple(run.norms["site"].unique()),
        positions=tuple(run.positions),
    )


def _beside(folder: Path | None, names: tuple[str, ...], lines: int) -> str:
    """Return the first lines of the first of these files in the folder; empty without one."""
    places = [] if folder is None else [folder / name for name in names]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return ""
    with path.open("rb") as file:
        text = file.read(READ).decode("utf-8", "replace")
    return "\n".join(text.strip().splitlines()[:lines])


def _plain(value: Any) -> Any:
    """Return a config value as JSON types."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
