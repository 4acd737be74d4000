"""File type by first bytes, independent of the file name."""

from __future__ import annotations

from pathlib import Path

from .errors import CheckpointError

HEAD = 512  # bytes that are read
#: First bytes of files often mistaken for weights, their type, and advice.
STRANGERS = (
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "Run git lfs pull"),
    (b"\x1f\x8b", "a packed file (gzip)", "Unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a packed file (7z)", "Unpack it first"),
    (b"BZh", "a packed file (bzip2)", "Unpack it first"),
    (b"\xfd7zXZ", "a packed file (xz)", "Unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a packed file (zstd)", "Unpack it first"),
    (b"Rar!", "a packed file (rar)", "Unpack it first"),
    (b"GGUF", "a GGUF file, whose weights are quantised", "Take the model's safetensors files"),
    (b"\x89HDF", "an HDF5 file of Keras", "Save the weights from PyTorch"),
    (b"\x93NUMPY", "an array of NumPy", "Save the whole state dict: torch.save"),
    (b"\x7fELF", "a program", "Choose the weights file"),
    (b"%PDF", "a PDF", "Choose the weights file"),
    (b"\x89PNG", "a picture", "Choose the weights file"),
)
PAGES = (b"<!doctype", b"<html", b"<?xml")


def kind_of(path: Path) -> str:
    """Return ``zip``, ``pickle`` or ``safetensors``.

    Raises:
        CheckpointError: The file has another type; the message names it if known.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise CheckpointError(
            f"{path.name} cannot be read ({error.strerror}); check its permissions."
        ) from error
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    if head[8:9] == b"{":
        return "safetensors"
    if head.startswith(b"\x80"):
        return "pickle"
    raise CheckpointError(f"{path.name} {_named(head, path.suffix == '.safetensors')}")


def _named(head: bytes, safetensors: bool) -> str:
    for start, what, advice in STRANGERS:
        if head.startswith(start):
            return f"is {what}. {advice}."
    if head[257:262] == b"ustar":
        return "is a packed folder (tar). Unpack it first."
    if head.lstrip().lower().startswith(PAGES):
        return "is a web page, not the file it stands for. Download the file itself."
    if head and all(32 <= byte < 127 or byte in b"\r\n\t" for byte in head):
        return "is a text file; weights are binary. Choose the file that torch.save wrote."
    if safetensors:
        return "is not a sound safetensors file: it does not begin with a header. Save it again."
    return (
        "cannot be read as weights: it is no file of torch.save and no safetensors file. It is "
        "damaged or of another kind; save the state dict again with torch.save, or as safetensors."
    )
