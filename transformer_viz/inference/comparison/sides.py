"""`tv.compare`: two of anything, each run on its sentence, and their heads compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ...checkpoints import load
from ...checkpoints.common.model import Model
from ...core.interventions import Intervention
from ...core.renamed import accept_old_keywords
from ...core.trace import Trace
from ...metrics.comparison.comparing import Comparison, compared
from ...preprocessing.tokenizers import target_side
from ..model_inputs import Source, model_of, source_and_target
from ..run_card import hash_of
from ..tracing import trace

#: Hears how many runs of how many are done; what it raises ends the comparison.
Tell = Callable[[int, int], None]
#: What can be opened as a model.
Opened = Model | nn.Module | str | os.PathLike[str]

WANTED = (
    "Two traces, two models (or checkpoints) with sentence=, or with model= two sentences, or two "
    "interventions with sentence=, can be compared"
)


@accept_old_keywords(tell="on_progress")
def compare(
    a: Any,
    b: Any,
    sentence: Source | Sequence[Source] | None = None,
    *,
    model: Opened | None = None,
    target: Source | None = None,
    view: str = "raw",
    within: int | None = None,
    on_progress: Tell | None = None,
    seed: int = 0,
) -> Comparison:
    """How two of anything differ, head by head, on the words that both read.

    ``compare(trace, trace)``; ``compare(model, model, "The cat sat.")``, where a model may be the
    name or path of a checkpoint; ``compare("The cat sat.", "The dog sat.", model=model)``;
    ``compare(None, Intervention(...), "The cat sat.", model=model)``, None being no edit. Every
    head gets its mean Jensen-Shannon divergence over rows, in bits from 0 to 1, and its counterpart
    on the other side with a margin. Where tokens differ, pieces become words: columns added, rows
    averaged; what a row gives to words that the other side lacks is one column, *elsewhere*.
    Models and interventions hold the same output words, those that the first side (the unedited
    model) writes.

    Args:
        a: the first side.
        b: the second side.
        sentence: what both read; a list of them, or of (source, target) pairs, is measured
            together, with intervals.
        model: the one model of two sentences or interventions.
        target: the output words that both hold; left out, the first side decodes them greedily.
            Two sentences each have their own.
        view: ``raw`` takes weights as they are; ``content`` leaves special tokens out and divides
            by what remains, since heads that park their weight there are all alike. Rows of special
            tokens (that of ``[CLS]`` too) are asked in neither.
        within: how many layers apart matched heads may stand; None lets them stand anywhere.
        on_progress: hears after each run how many are done, of how many; what it raises comes out.
        seed: of the bootstrap over several sentences.

    Raises:
        ValueError: no sentence, sides of different kinds, or with nothing in common.
        LookupError: a trace kept no weights.
        CheckpointError: a path that is no checkpoint.
    """
    traces = isinstance(a, Trace), isinstance(b, Trace)
    if any(traces):
        if not all(traces) or sentence is not None or model is not None:
            raise ValueError(
                f"A trace is compared with a trace, which has its sentence and model; got "
                f"{_called(a)} and {_called(b)}. {WANTED}."
            )
        return compared([(a, b)], view, within, seed)
    edited = _intervention(a) and _intervention(b)
    if model is not None and not edited:
        if sentence is not None:
            raise ValueError(
                f"Two sentences of one model are a and b themselves; with sentence= both sides are "
                f"interventions. Got {_called(a)} and {_called(b)}. {WANTED}."
            )
        ready = _opened(model)
        runs = _Runs(on_progress, 2)
        pairs = [(runs.run(ready, a, target), runs.run(ready, b, target))]
        return compared(pairs, view, within, seed)
    if sentence is None or (edited and model is None):
        raise ValueError(f"Got {_called(a)} and {_called(b)}. {WANTED}.")
    sentences = _listed(sentence)
    if not sentences:
        raise ValueError("There is no sentence to compare on; give at least one.")
    if edited:
        assert model is not None
        pairs = _of_interventions(_opened(model), a, b, sentences, target, on_progress)
    else:
        pairs = _of_models(_opened(a), _opened(b), sentences, target, on_progress)
    return compared(pairs, view, within, seed)


class _Runs:
    """Runs that say how many are done."""

    def __init__(self, on_progress: Tell | None, total: int):
        self.on_progress, self.total, self.done = on_progress, total, 0

    def run(
        self,
        model: Model,
        source: Source,
        target: Source | None,
        intervention: Intervention | None = None,
    ) -> Trace:
        found = trace(
            model,
            source,
            target,
            intervention=intervention,
            keep=("weights", "scores"),
            check=False,
        )
        if not found.manifest.get("hash"):
            found = replace(found, manifest=found.manifest | {"hash": hash_of(model)})
        self.done += 1
        if self.on_progress is not None:
            self.on_progress(min(self.done, self.total), self.total)
        return found


def _of_models(
    a: Model, b: Model, sentences: Sequence[Source], target: Source | None, on_progress: Tell | None
) -> list[tuple[Trace, Trace]]:
    runs, pairs = _Runs(on_progress, 2 * len(sentences)), []
    for sentence in sentences:
        source, own = source_and_target(a, sentence)
        given = own if target is None else target
        first = runs.run(a, source, given)
        pairs.append((first, runs.run(b, source, held(a, b, first) if given is None else given)))
    return pairs


def _of_interventions(
    model: Model,
    a: Intervention | None,
    b: Intervention | None,
    sentences: Sequence[Source],
    target: Source | None,
    on_progress: Tell | None,
) -> list[tuple[Trace, Trace]]:
    runs, pairs = _Runs(on_progress, 3 * len(sentences)), []
    for sentence in sentences:
        source, own = source_and_target(model, sentence)
        given = own if target is None else target
        clean = runs.run(model, source, given)
        same = held(model, model, clean) if given is None else given
        pairs.append(
            tuple(runs.run(model, source, same, edit) if edit else clean for edit in (a, b))
        )
    return pairs  # type: ignore[return-value]


def held(a: Model, b: Model, run: Trace) -> Source | None:
    """The output words of a run of ``a``, as ``b`` is to read them; None where there are none.

    Ids where both have one vocabulary, otherwise the text.
    """
    if run.target is None or b.kind != "encoder-decoder":
        return None
    ours, theirs = target_side(a.tokenizer), target_side(b.tokenizer)
    if a is b or tuple(ours.pieces) == tuple(theirs.pieces):
        return list(run.target.ids)
    return ours.decode(run.target.ids)


def _intervention(thing: Any) -> bool:
    return thing is None or isinstance(thing, Intervention)


def _opened(thing: Any) -> Model:
    """A model, a module, or the checkpoint of this name or path."""
    if isinstance(thing, Model | nn.Module):
        return model_of(thing)
    if isinstance(thing, str | os.PathLike):
        return load(thing)
    raise ValueError(f"{_called(thing)} is no model. {WANTED}.")


def _listed(sentence: Any) -> list[Any]:
    """Several sentences, or one as a list of one; a list of numbers is one."""
    if isinstance(sentence, list) and not (sentence and isinstance(sentence[0], int | float)):
        return sentence
    return [sentence]


def _called(thing: Any) -> str:
    if thing is None:
        return "nothing"
    return repr(thing) if isinstance(thing, str) else f"a {type(thing).__name__}"
