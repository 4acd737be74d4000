"""Type of number of a model's computation: float32, that of its file, or the requested one."""

from __future__ import annotations

import torch

from ..files.errors import CheckpointError

TYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}
OF_THE_FILE = "auto"
DIGITS = {"float16": 3, "bfloat16": 2}  # decimal digits that a number of this type holds


def number_type(dtype: object, of_the_file: str) -> torch.dtype:
    """Return the dtype of a name or a torch dtype; ``auto`` is that of the file, None float32.

    Raises:
        CheckpointError: Unknown name; the message lists the known ones.
    """
    if dtype is None:
        return torch.float32
    if dtype == OF_THE_FILE:
        return TYPES.get(of_the_file, torch.float32)
    if isinstance(dtype, str) and dtype in TYPES:
        return TYPES[dtype]
    if isinstance(dtype, torch.dtype) and dtype in TYPES.values():
        return dtype
    raise CheckpointError(
        f"dtype is {', '.join(TYPES)}, auto (that of the file) or a torch dtype of that name; "
        f"got {dtype!r}."
    )


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype without the library's: ``bfloat16``."""
    return str(dtype).removeprefix("torch.")


def rounding_note(dtype: str) -> tuple[str, ...]:
    """Return the note on half-precision numbers; empty for other types."""
    if dtype not in DIGITS:
        return ()
    return (
        f"It computes in {dtype}: its numbers hold about {DIGITS[dtype]} digits, and so do the "
        "maps.",
    )
