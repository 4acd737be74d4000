"""Measures of every head over sentences, with its roles and example sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ...checkpoints.common.model import Model
from ...metrics.head_measures.evidence import HeadEvidence
from ...metrics.head_measures.registry import MEASURES
from ...metrics.head_measures.role_examples import role_examples
from ...metrics.head_measures.role_rules import roles
from ...metrics.head_measures.tables import table_of
from ..run_card import model_card
from .pooled import runs_of
from .telling import Tell


def evidence(
    model: Model, sentences: Sequence[Any], on_progress: Tell | None = None, *, seed: int = 0
) -> HeadEvidence:
    """Measure every head over sentences, as `metrics` does, and find example sentences per role.

    Raises:
        ValueError: No sentences, or one that the model cannot read.
    """
    runs = runs_of(model, sentences, on_progress, "content", seed)
    table = roles(table_of(runs, seed if len(runs) > 1 else None))
    examples = {
        (row, role): role_examples(runs, row, role)
        for row, given in enumerate(table["roles"])
        for role in given
    }
    made = hashlib.sha256("\n".join(map(repr, sentences)).encode()).hexdigest()
    card = {
        **model_card(model),
        "sentences": len(sentences),
        "sentences_hash": made,
        "rows": int(table["entropy_rows"].max()),
        "seed": seed,
        "view": "content",
        "measures": [measure.name for measure in MEASURES],
    }
    return HeadEvidence(table, examples, card)
