"""The bundled models: the content of ``pretrained/``. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from ...paths import ROOT

PRETRAINED = ROOT / "pretrained"
LABS = "labs"  # folder of the tiny models
SHARED = "en-de-small"  # model whose vocabulary the tiny models share
CONFIG, WEIGHTS, VOCABULARY = "config.json", "weights.safetensors", "vocabulary.model"
NAMES_FILE = "names.json"  # beside weights: a table of their names, see :mod:`.names`
#: File names of weights in a folder, by priority. An index lists the parts of a checkpoint.
PREFERRED = (
    WEIGHTS,
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
EXAMPLE = "example.safetensors"  # a stored trace, shown before torch is loaded
HEADS = "heads.json"  # roles of the heads, and the cost of ablating each
SENTENCES = "sentences.tsv"  # beside the models: sentences of these measurements
SNAPSHOTS = "snapshots.json"  # quality of a model at each of its snapshots


def available() -> tuple[str, ...]:
    """Return the names of the bundled models in alphabetical order."""
    return tuple(sorted(path.parent.name for path in PRETRAINED.glob(f"*/{WEIGHTS}")))


def tiny() -> tuple[str, ...]:
    """Return the names of the tiny models that the labs compare (``labs/additive``)."""
    return tuple(sorted(f"{LABS}/{p.parent.name}" for p in PRETRAINED.glob(f"{LABS}/*/{WEIGHTS}")))


def called(folder: Path) -> str:
    """Return the name that opens a folder: its path below ``pretrained/``, or its base name."""
    below = folder.is_relative_to(PRETRAINED)
    return folder.relative_to(PRETRAINED).as_posix() if below else folder.name


def shelved(name: str) -> Path | None:
    """Return the folder of a bundled model, or the file of one of its snapshots
    (``en-de/step-64``).
    """
    model, _, snapshot = name.partition("/")
    if model == LABS:
        return PRETRAINED / name if name in tiny() else None
    if model not in available():
        return None
    folder = PRETRAINED / model
    if not snapshot:
        return folder
    steps = {path.stem: path for path in folder.glob("step-*.safetensors")}
    return steps.get(snapshot)


def is_bundled(file: Path) -> bool:
    """Return True if a file belongs to a bundled model, also through another path."""
    return file.resolve().is_relative_to(PRETRAINED.resolve())


def vocabulary_of(folder: Path) -> Path:
    """Return the path of a native checkpoint's vocabulary file, even if it does not exist.

    The tiny models of the labs were trained with the vocabulary of `SHARED`.
    """
    own = folder / VOCABULARY
    shared = folder.parent == PRETRAINED / LABS and not own.is_file()
    return PRETRAINED / SHARED / VOCABULARY if shared else own
