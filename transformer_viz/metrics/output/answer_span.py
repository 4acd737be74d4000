"""Output of a classifier, or of a model that marks an answer, as a sentence."""

from __future__ import annotations

from ...core.numerics import LOGIT, best_span, probabilities, unit_of
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from ...i18n import mark, numeral, say
from ..attention.word_merging import sentence_of

SHOWN = 5  # classes named in a sentence
#: Note on an answer that is only the start mark.
NO_ANSWER = mark("The start mark alone means “no answer” in models that were trained so.")


def answer_tokens(trace: Trace) -> tuple[Tokens, int, int]:
    """Return the tokens of a run, and the first and last of its best answer.

    Raises:
        LookupError: The model marks no answer.
    """
    if not trace.marks_answer or trace.logits is None:
        raise LookupError("This run marks no answer; it comes from a question answering model.")
    return trace.source, *best_span(trace.logits)


def answer_words(trace: Trace) -> str:
    """Return the words between the best start and end; names of special tokens if alone."""
    tokens, first, last = answer_tokens(trace)
    part = slice(first, last + 1)
    own = Tokens(
        tokens.ids[part],
        tokens.pieces[part],
        tokens.labels[part],
        tokens.words[part],
        tokens.special[part],
    )
    return sentence_of(own) or " ".join(own.labels)


def is_mark_alone(trace: Trace) -> bool:
    """Return True if the best answer is the start mark (``[CLS]``): the text has no answer."""
    tokens, first, last = answer_tokens(trace)
    return first == last == 0 and tokens.special[0]


def said_of_output(trace: Trace) -> str:
    """Return the answer, the scores or the top probabilities of a run; empty for generated text."""
    if trace.logits is None:
        return ""
    if trace.marks_answer:
        found = say("Answer: “{text}”", text=answer_words(trace))
        return f"{found}. {say(NO_ANSWER)}" if is_mark_alone(trace) else found
    if trace.logits.ndim != 1:
        return ""
    scored = unit_of(trace.task) == LOGIT
    values = trace.logits if scored else probabilities(trace.logits, trace.task)
    names = trace.manifest.get("labels") or ()
    order = range(len(values)) if scored else (-values).argsort(kind="stable").tolist()
    form = "+.3f" if scored else ".3f"
    told = [
        f"{names[n] if n < len(names) else n} {numeral(float(values[n]), form)}"
        for n in list(order)[:SHOWN]
    ]
    title = say("Scores (logits)") if scored else say("Probabilities")
    return f"{title}: {', '.join(told)}."
