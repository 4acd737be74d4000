"""Where a model that marks an answer in its text sees it: the best start and end."""

from __future__ import annotations

from ...core.numerics import best_span
from ...core.trace import Trace
from ...core.trace_parts import Tokens


def answer_tokens(trace: Trace) -> tuple[Tokens, int, int]:
    """Return the tokens of a run, and the first and last of its best answer.

    Raises:
        LookupError: a run of a model that marks no answer.
    """
    if not trace.marks_answer or trace.logits is None:
        raise LookupError("This run marks no answer; it comes from a question answering model.")
    return trace.source, *best_span(trace.logits)
