"""A stored run as plain data: its report as a page, and what proves it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...core.trace import Trace
from ...inference.findings import findings_of
from ..numbers import whose
from .html_report import report


def stored_report(trace: Trace) -> dict[str, Any]:
    """Return ``page``, ``said`` (whose run it is), ``manifest`` and ``findings`` of a run.

    Raises:
        ValueError: a run that kept no weights.
    """
    try:
        page = report(trace)
    except LookupError as error:
        raise ValueError(str(error)) from error
    return {
        "page": page,
        "said": whose(trace, marked=False),
        "manifest": trace.manifest,
        "findings": [asdict(one) for one in findings_of(trace)],
    }
