"""A stored run as plain data: its report page and its verification."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...core.trace import Trace
from ...inference.findings import findings_of
from ..numbers import whose
from .html_report import report

DAMAGED = "This trace file is damaged: its parts do not fit each other. Record the trace again."


def stored_report(trace: Trace) -> dict[str, Any]:
    """Return ``page``, ``said`` (description of the run), ``manifest`` and ``findings`` of a run.

    Raises:
        ValueError: A run that kept no weights, or a damaged file.
    """
    try:
        return {
            "page": report(trace),
            "said": whose(trace, marked=False),
            "manifest": trace.manifest,
            "findings": [asdict(one) for one in findings_of(trace)],
        }
    except LookupError as error:
        kept = trace.attentions or trace.tiles  # without them the message names what to keep
        raise ValueError(DAMAGED if kept else str(error)) from error
    except (MemoryError, ValueError):
        raise
    except Exception as error:  # parts of a damaged file need not fit each other
        raise ValueError(DAMAGED) from error
