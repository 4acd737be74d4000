"""Sentence + model + intervention -> Trace. The one door where tensors become numpy."""

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
    """Everything that happened when one sentence went through the model once.

    A text may be longer than the table of positions where that is one of sines and the model has
    one stack: they go on, and ``trace.manifest["beyond"]`` says how many tokens the model was made
    for. It was never trained on such a text.

    Args:
        model: what `load` gave.
        source: what the model takes: text, token ids as the model reads them, a pair of texts,
            vectors ``[token, d_model]``, a picture (an image, the path of one, or normalised
            floats ``[channel, height, width]``), or a sound (the path of a WAV file, floats
            ``[sample]`` at the model's rate, or ``(samples, rate)``).
        target: text, which is read as the model was trained to (start token, language, pieces; no
            end token), or the decoder's input ids with their start token; left out, it is decoded
            greedily under the same intervention. A decoder-only model appends it to the source.
        image: a picture beside the text, for models that read both: an image, the path or the
            bytes of one, or normalised floats ``[channel, height, width]``. It stands where the
            text names its place (``<image>``, as the model's own processor has it), or else at the
            beginning; its patches are tokens ``image 3,5``, by row and column from 0.
        intervention: what to change; None or the empty one is the clean run. Its JSON will do, or
            that as a dict: ``{"edits": [{"kind": "temperature", "value": 2}]}``.
        keep: of ``weights``, ``scores``, ``qkv``, ``hidden``, ``gradients``, ``tiles``; head
            statistics and thumbnails are always there, and the weights come with anything but
            ``hidden`` and ``tiles``. Tiles are queries, keys and a number a row in the place of the
            weights, from which ``trace.tile`` computes any part of a map. Left out: the weights,
            and of more than 1,024 tokens the tiles.
        only: keep matrices of these sites alone (a site's head is ignored); None keeps all.
        produced: the tokens the target rows are asked about; left out, the next input token and,
            for the last row, the most probable one (of a masked model: at masked places the most
            probable one, elsewhere the token itself; of a classifier: the most probable class).
            Holds the clean run's words under an edit.
        masked: numbers of source tokens (from 0) that a masked model is to guess.
        check: also prove the capture on a clean run of the same input (twenty or so more passes,
            which hold all maps); ``"full"`` tries every law by itself and exchanges each word
            alone, a pass a word. Left out: up to 1,024 tokens, if the memory holds the proof;
            ``report.left_out`` says where it does not. With False the report is ``unchecked``.
        on_progress: called with the passes done and the passes in all before each pass of a proof
            of over two seconds. If it returns False, the proof stops, the maps stay, and
            ``report.left_out`` says so; what it raises comes out here.

    Raises:
        ValueError: an input the model cannot read, an unknown word in ``keep``, an edit that
            matches no place, maps that the memory does not hold; each says what to do.
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
    """What `trace` gives, for whoever asks again and again.

    Args:
        known: what the encoder gave before, used again for the same source and the same weights.
    """
    given: dict[str, Any] = locals()
    if isinstance(given["model"], nn.Module):
        raise ValueError(
            f"tv.trace takes what tv.load gave; got a {type(model).__name__}. Open it with "
            "tv.load(module), or watch it as it is with tv.probe(module)."
        )
    words = None if keep is None else _words(keep)
    if "gradients" in (words or ()) and torch.is_inference_mode_enabled():
        with torch.inference_mode(False):  # what is made in it has no gradients
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
    del output  # as large as the maps where the vocabulary is
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
    """What a probe is to keep of a run, for these words of `keep` and these sites alone."""

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
    """One watched pass: the run, the model's output, and the leaves that collect gradients.

    ``asked``: sources that were read before, and what of a run is wanted.
    """
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
    """The run without edits, watched, against one that nothing watches.

    Attributes:
        capture: what was captured of it.
        difference: the largest difference of the outputs, relative to the largest number.
        gap: how far they are `apart`, as a proof has it.
        seconds: those of the pass that nothing watches.
    """

    capture: Capture
    difference: float
    gap: float
    seconds: float


def _clean_run(
    model: Model, read: Read, capture: Capture, output: Tensor, intervention: Intervention
) -> CleanRun:
    """Compare the clean run, made anew under an intervention, with one that nothing watches."""
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
    """What was captured, and the proof on the clean run of the same input."""
    capture = capture if clean is None else clean.capture
    errors = [row_sum_error(record) for record in capture.attentions]
    rebuilt = {str(record.site): rebuilt_error(record) for record in capture.attentions}
    progress = ProofProgress(model, on_progress, 0.0 if clean is None else clean.seconds)
    proof = difference = None  # a proof lets scores go
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
    """The proof of the clean run of an input; its batch holds the input and its reverse.

    Args:
        model: the model.
        read: the input.
        seen: the run and an unwatched pass, where they were made.
        asked: the edits that the run is made for.
        full: try each law by itself, remember nothing, and exchange each word alone too.
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
    """Calls on the same input with some words exchanged, then ``every`` word alone; special tokens
    and patches of a picture stay."""
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
