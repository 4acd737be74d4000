"""A proof whose passes PyTorch refuses becomes a reason in the report, and not its end."""

from __future__ import annotations

from collections.abc import Callable

from .prove import Proof


def proof_or_reason(make: Callable[[], Proof]) -> Proof:
    """Return the proof that ``make`` makes, or an empty one with the error that PyTorch raised."""
    try:
        return make()
    except (RuntimeError, TypeError, IndexError) as error:
        reason = f"the passes of the proof ended in an error ({type(error).__name__}: {error}"
        return Proof(float("nan"), untold=(reason.partition("\n")[0] + ")",))
