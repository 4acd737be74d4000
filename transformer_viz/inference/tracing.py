"""Trace of a model run on one input; the only module that converts captured tensors to numpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..capture import Capture, CaptureRequest
from ..checkpoints.common.longer import longer, unlimited
from ..checkpoints.common.model import Model
from ..core.interventions import Intervention, intervention_of
from ..core.sites import Site
from ..core.tiles import LONG
from ..core.trace import Trace
from ..core.trace_parts import LEFT_OUT, Report
from .capture_to_numpy import (
    MATRICES,
    attentions_of,
    gains_of,
    heads_of,
    hidden_of,
    holds_all,
    left_out,
    norms_of,
    rebuilt_error,
    residuals_of,
    row_sum_error,
    thumbnails_of,
    tiles_of,
    to_numpy,
    untiled,
)
from .decoding.read_sources import ReadSources, may_read_apart, watched
from .decoding.watched_calls import laws_of_notes, watched_call, without_gradients
from .donors import lends, lent_to
from .long_texts import proof_too_large, refuse_flood
from .model_inputs import (
    Read,
    Source,
    batch_of,
    between,
    doubled,
    joined,
    read_source,
    text_of,
)
from .outputs import gradients_of, logits_of, output_difference, produced_of, vectors_of
from .progress.proofs import OnProgress, ProofProgress
from .proof import token_order
from .proof.accounts import apart
from .proof.mixing import Changed
from .proof.prove import Proof, Seen, proof_or_reason, prove
from .run_card import manifest_of, notes_of_input

FULL = "full"
KEEP = ("weights", "scores", "qkv", "hidden", "gradients", "tiles")


def trace(
    model: Model,
    source: Source,
    target: Source | None = None,
    *,
    image: Any = None,
    intervention: Intervention | None = None,
    keep: Iterable[str] | None = None,
    only: Sequence[Site] | None = None,
    produced: Sequence[int] | None = None,
    masked: Sequence[int] = (),
    check: bool | str | None = None,
    on_progress: OnProgress | None = None,
) -> Trace:
    """Run a model once on one input and return everything captured.

    A text may be longer than the position table if that is sinusoidal and the model has one stack.
    Then the table is extended, and ``trace.manifest["beyond"]`` is the original number of tokens.
    The model was never trained on such a text.

    Args:
        model: Result of `load`.
        source: Text, token ids as the model reads them, a pair of texts, or vectors ``[token,
            d_model]``. A picture is an image, the path of one, or normalized floats ``[channel,
            height, width]``. A sound is the path of a WAV file, floats ``[sample]`` at the model's
            rate, or ``(samples, rate)``.
        target: Text, encoded as in training (start token, language, pieces; no end token), or the
            decoder's input ids with their start token. The default is greedy decoding under the
            same intervention. A decoder-only model appends it to the source.
        image: Picture beside the text, for models that read both: an image, the path or the bytes
            of one, or normalized floats ``[channel, height, width]``. It replaces the placeholder
            in the text (``<image>``, as in the model's processor), or comes first. Its patches are
            tokens ``image 3,5``, by row and column from 0.
        intervention: Edits; None or the empty one is the clean run. JSON or a dict is accepted:
            ``{"edits": [{"kind": "temperature", "value": 2}]}``.
        keep: Any of ``weights``, ``scores``, ``qkv``, ``hidden``, ``gradients``, ``tiles``; head
            statistics and thumbnails are always there. Weights are included with anything but
            ``hidden`` and ``tiles``. Tiles are queries, keys and one number per row; ``trace.tile``
            computes any part of a map from them. The default is the weights, above 1,024 tokens the
            tiles.
        only: Keep matrices of these sites only (a site's head is ignored); None keeps all.
        produced: Tokens whose scores are reported for the target rows. The default is the next
            input token and, for the last row, the most probable one. For a masked model: at masked
            positions the most probable one, elsewhere the token itself. For a classifier: the most
            probable class. Use it to keep the clean run's tokens under an edit.
        masked: Positions of source tokens (from 0) that a masked model has to predict.
        check: Also prove the capture on a clean run of the same input (about twenty more passes,
            which hold all maps). ``"full"`` tests every law separately and exchanges each token
            alone, one pass per token. The default proves up to 1,024 tokens, if memory suffices;
            otherwise see ``report.left_out``. With False the report is ``unchecked``.
        on_progress: Called with the passes done and in all before each pass of a proof of over two
            seconds. If it returns False, the proof stops, the maps stay, and ``report.left_out`` is
            set. Its exceptions propagate.

    Raises:
        ValueError: An unreadable input, an unknown value in ``keep``, an edit without a matching
            site, or maps that exceed the memory.
    """
    options: dict[str, Any] = {"keep": keep, "only": only, "check": check, "masked": masked}
    options |= {"image": image, "intervention": intervention, "produced": produced}
    options |= {"on_progress": on_progress}
    return traced(model, source, target, **options)


def traced(
    model: Model,
    source: Source,
    target: Source | None = None,
    *,
    image: Any = None,
    intervention: Intervention | None = None,
    keep: Iterable[str] | None = None,
    only: Sequence[Site] | None = None,
    produced: Sequence[int] | None = None,
    masked: Sequence[int] = (),
    check: bool | str | None = None,
    on_progress: OnProgress | None = None,
    known: ReadSources | None = None,
) -> Trace:
    """Return the result of `trace`; ``known`` caches encoder outputs for repeated calls.

    They are reused for the same source and weights.
    """
    given: dict[str, Any] = locals()
    if isinstance(given["model"], nn.Module):
        raise ValueError(
            f"tv.trace takes what tv.load gave; got a {type(model).__name__}. Open it with "
            "tv.load(module), or watch it as it is with tv.probe(module)."
        )
    words = None if keep is None else _words(keep)
    if "gradients" in (words or ()) and torch.is_inference_mode_enabled():
        with torch.inference_mode(False):  # its tensors have no gradients
            return traced(**given | {"keep": words})
    intervention = intervention_of(intervention)
    read = read_source(unlimited(model), source, target, intervention, produced, masked, image)
    made_for, model = model.max_tokens, longer(model, len(read.source))
    long = max(len(read.source), len(read.target or ())) > LONG
    words = (("tiles",) if long else ("weights",)) if words is None else words
    why = proof_too_large(model, read, words, only) if check is None and not long else ""
    check = not (long or why) if check is None else check
    if check not in (True, False, FULL):
        raise ValueError(f"check is {check!r}; give True, False or {FULL!r}.")
    refuse_flood(model, read, words, only, bool(check))
    request = capture_request(model, words, only, read, bool(check) and not intervention)
    asked = None if known is None else (known, (words, None if only is None else tuple(only)))
    capture, output, leaves = _watch(model, read, intervention, request, words, asked)
    logits = logits_of(model, read, output, intervention)
    said = produced_of(model, read, logits)
    wanted = "gradients" in words
    gradients = gradients_of(model, read, output, said, leaves) if wanted else None
    vectors = vectors_of(model, output)
    clean = _clean_run(model, read, capture, output, intervention) if check else None
    del output  # as large as the maps for a large vocabulary
    report = _report(model, read, capture, intervention, check == FULL, on_progress, words, clean)
    why = why or report.left_out
    report = replace(report, left_out=why)
    return Trace(
        source=read.source,
        target=read.target,
        produced=said,
        heads=heads_of(capture),
        thumbnails=thumbnails_of(capture),
        attentions=attentions_of(capture, words, only, model.kind, gradients),
        tiles=tiles_of(capture, only, model.kind),
        norms=norms_of(capture),
        gains=gains_of(capture),
        residuals=residuals_of(capture),
        positions={name: to_numpy(table) for name, table in capture.positions.items()},
        logits=logits,
        output=vectors,
        report=report,
        manifest=manifest_of(model, intervention, words)
        | notes_of_input(model, read)
        | ({} if model.max_tokens == made_for else {"beyond": made_for})
        | ({LEFT_OUT: why} if why else {})
        | untiled(capture, only),
        intervention=intervention,
        hiddens=hidden_of(capture) if "hidden" in words else {},
    )


def _words(keep: Iterable[str]) -> tuple[str, ...]:
    words = (keep,) if isinstance(keep, str) else tuple(keep)
    if unknown := next((word for word in words if word not in KEEP), None):
        raise ValueError(f"keep has no word {unknown!r}; choose of {', '.join(KEEP)}.")
    return words


def capture_request(
    model: Model, words: tuple[str, ...], only: Sequence[Site] | None, read: Read, check: bool
) -> CaptureRequest:
    """Return the capture request for these values of `keep` and these sites."""

    def of(word: str) -> Callable[[Site], bool]:
        if word not in words or only is None:
            return lambda site: word in words
        blocks = {(site.stack, site.block, site.layer) for site in only}
        return lambda site: (site.stack, site.block, site.layer) in blocks

    lone = "decoder" if model.kind == "decoder-only" else "encoder"
    special = {lone: read.source.special}
    if read.target is not None:
        special["decoder"] = read.target.special
    request = CaptureRequest(
        weights=of(next(filter(MATRICES.__contains__, words), "weights")),
        scores=of("scores"),
        qkv=of("qkv"),
        positions=True,
        hidden="hidden" in words,
        gradients="gradients" in words,
        check=check,
        stack=lone,
        special=special,
    )
    if check and "gradients" not in words:
        everywhere: dict[str, Any] = dict.fromkeys(("weights", "scores", "qkv"), lambda site: True)
        request = replace(request, **everywhere)
    return replace(request, tiles=of("tiles")) if "tiles" in words else request


def _watch(
    model: Model,
    read: Read,
    intervention: Intervention,
    request: CaptureRequest,
    words: tuple[str, ...],
    asked: tuple[ReadSources, Hashable] | None = None,
) -> tuple[Capture, Tensor, list[tuple[tuple[Tensor, ...], int]]]:
    """Run a captured pass; ``asked`` is a cache of encoder outputs, and its key."""
    grad = "gradients" in words
    plain = not (grad or request.check or lends(intervention))
    if asked is not None and plain and may_read_apart(model, read.tensors[0], intervention):
        with without_gradients(model):
            both = watched(model, read.tensors, intervention, request, asked[1], asked[0])
        return *both, []
    mode = torch.enable_grad() if grad else without_gradients(model)
    donations = lent_to(model, read, intervention)
    with mode:
        capture, output = watched_call(
            model, partial(read.through, model), intervention, request, donations
        )
    leaves = [(record.leaves, record.along) for record in capture.attentions]
    return capture, output, leaves


class CleanRun(NamedTuple):
    """Captured run without edits, compared with a plain one.

    Attributes:
        capture: Capture of the run.
        difference: Largest difference of the outputs, relative to the largest number.
        gap: Difference as computed by `apart` in a proof.
        seconds: Duration of the plain pass.
    """

    capture: Capture
    difference: float
    gap: float
    seconds: float


def _clean_run(
    model: Model, read: Read, capture: Capture, output: Tensor, intervention: Intervention
) -> CleanRun:
    """Compare the clean run, repeated if there is an intervention, with a plain one."""
    if intervention:
        request = capture_request(model, (), None, read, check=True)
        capture, output, _ = _watch(model, read, Intervention(), request, ())
    start = time.perf_counter()
    with without_gradients(model):
        plain = read.through(model)
    seconds, seen = time.perf_counter() - start, output.detach()
    return CleanRun(capture, output_difference(seen, plain), apart([seen], [plain]), seconds)


def _report(
    model: Model,
    read: Read,
    capture: Capture,
    intervention: Intervention,
    full: bool,
    on_progress: OnProgress | None,
    words: tuple[str, ...],
    clean: CleanRun | None,
) -> Report:
    """Return the capture report, with the proof on the clean run of the same input."""
    capture = capture if clean is None else clean.capture
    errors = [row_sum_error(record) for record in capture.attentions]
    rebuilt = {str(record.site): rebuilt_error(record) for record in capture.attentions}
    progress = ProofProgress(model, on_progress, 0.0 if clean is None else clean.seconds)
    proof = difference = None  # a proof releases scores
    if clean is not None:
        keep = () if intervention else words
        seen = Seen(capture, clean.gap, keep) if holds_all(capture) else None
        proof = progress.run(
            lambda counted: proof_or_reason(
                partial(proved, counted, read, seen, intervention, full)
            )
        )
        difference = None if progress.stopped else clean.difference
    return Report(
        sites=tuple(str(site) for site in capture.sites),
        row_sum_error=max(errors, default=float("nan")),
        output_difference=difference,
        rebuilt=rebuilt if clean is not None else {},
        replaced=tuple(capture.replaced),
        unrecognised=tuple(capture.unrecognised),
        kernels=proof.kernels if proof else (),
        laws=laws_of_notes(proof.laws, model, partial(read.through, model), intervention)
        if proof
        else {},
        untold=(*proof.untold, *left_out(capture)) if proof else (),
        tolerance=proof.tolerance if proof else Report.tolerance,
        guessed=tuple(model.guessed),
        left_out=progress.stopped,
    )


def proved(
    model: Model,
    read: Read,
    seen: Seen | None = None,
    asked: Intervention | None = None,
    full: bool = False,
) -> Proof:
    """Return the proof of the clean run of an input, with the input and its reverse as batch.

    Args:
        model: The model.
        read: The input.
        seen: Captured and plain run, if they were made.
        asked: Edits that the run is made for.
        full: Test each law separately, without cache, and exchange each token alone too.
    """
    lone = "decoder" if model.kind == "decoder-only" else "encoder"

    def alone() -> Tensor:
        return read.through(model)

    def together() -> Tensor:
        return (doubled(read) if full else between(read)).through(model)

    return prove(
        model.module,
        alone,
        stack=lone,
        together=together,
        changed=list(exchanges(model, read, full)),
        join=lambda some: joined(read, some).through(model),
        seen=seen,
        brief=not full,
        asked=asked,
    )


def exchanges(model: Model, read: Read, every: bool = False) -> Iterator[Changed]:
    """Yield calls on the same input with some tokens exchanged, then ``every`` token alone.

    Special tokens and patches of a picture stay.
    """
    for side, ids in enumerate(read.tensors[:2]):
        if ids is None or ids.is_floating_point() or ids.dim() != 2:
            continue
        tokens = read.target if side else read.source
        kept = set(read.beside.places) if side == 0 and read.beside is not None else set()
        kept |= set() if tokens is None else {n for n, one in enumerate(tokens.special) if one}
        stack = None
        if read.tensors[1] is not None:
            stack = "decoder" if side else "encoder"
        size = ids.shape[1]
        words = [n for n in range(size) if n not in kept]
        for one in token_order.exchanges(ids, words, every):
            other = batch_of(read, [text_of(read, one.made, stack)])
            yield Changed(one.tokens, size, partial(other.through, model), stack, one.made)
