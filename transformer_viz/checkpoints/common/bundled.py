"""The models in the box: what stands in ``pretrained/``. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from ...paths import ROOT

PRETRAINED = ROOT / "pretrained"
LABS = "labs"  # the folder of the tiny models
SHARED = "en-de-small"  # the model whose vocabulary they share
CONFIG, WEIGHTS, VOCABULARY = "config.json", "weights.safetensors", "vocabulary.model"
NAMES_FILE = "names.json"  # beside weights: a table of their names, see :mod:`.names`
#: Which file of a folder holds the weights, the first that is there; an index names its parts.
PREFERRED = (
    WEIGHTS,
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
EXAMPLE = "example.safetensors"  # a stored trace, so that a picture stands before torch does
HEADS = "heads.json"  # what its heads do, and what the removal of each costs
SENTENCES = "sentences.tsv"  # beside the models: what that was measured on
SNAPSHOTS = "snapshots.json"  # how good a model was at each of its snapshots


def available() -> tuple[str, ...]:
    """The names of the models in the box, in alphabetical order."""
    return tuple(sorted(path.parent.name for path in PRETRAINED.glob(f"*/{WEIGHTS}")))


def tiny() -> tuple[str, ...]:
    """The names of the tiny models that the labs compare (``labs/additive``)."""
    return tuple(sorted(f"{LABS}/{p.parent.name}" for p in PRETRAINED.glob(f"{LABS}/*/{WEIGHTS}")))


def called(folder: Path) -> str:
    """The name by which a folder is opened: its place in the box, or else its own."""
    below = folder.is_relative_to(PRETRAINED)
    return folder.relative_to(PRETRAINED).as_posix() if below else folder.name


def shelved(name: str) -> Path | None:
    """The folder of a model in the box, or the file of one of its snapshots (``en-de/step-64``)."""
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
    """Whether a file is one of a bundled model, by whatever path it was reached."""
    return file.resolve().is_relative_to(PRETRAINED.resolve())


def vocabulary_of(folder: Path) -> Path:
    """Return the file of a native checkpoint's vocabulary, whether it is there or not.

    The tiny models of the labs were trained with that of `SHARED`.
    """
    own = folder / VOCABULARY
    shared = folder.parent == PRETRAINED / LABS and not own.is_file()
    return PRETRAINED / SHARED / VOCABULARY if shared else own
