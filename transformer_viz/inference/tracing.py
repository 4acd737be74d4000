"""Sentence + model + intervention -> Trace. The one door where tensors become numpy."""

from __future__ import annotations

import platform
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..capture import Capture, CaptureRequest
from ..capture.donations import Donation
from ..capture.records import AttentionRecord
from ..checkpoints.common.longer import longer, unlimited
from ..checkpoints.common.model import Model
from ..core.guesses import guess_entry
from ..core.interventions import Intervention, intervention_of
from ..core.sites import Site
from ..core.tiles import LONG
from ..core.trace import Trace
from ..core.trace_parts import Report
from ..core.version import __version__
from .capture_to_numpy import (
    MATRICES,
    attentions_of,
    gains_of,
    heads_of,
    hidden_of,
    norms_of,
    residuals_of,
    thumbnails_of,
    tiles_of,
    to_numpy,
    untiled,
)
from .decoding.read_sources import ReadSources, may_read_apart, watched
from .decoding.watched_calls import laws_of_notes, watched_call
from .donors import Lender, lends
from .long_texts import refuse_flood
from .model_inputs import Read, Source, read_source
from .outputs import gradients_of, logits_of, produced_of, vectors_of
from .proof.attempt import proof_or_reason
from .proof.prove import Changed, Proof, prove

KEEP = ("weights", "scores", "qkv", "hidden", "gradients", "tiles")
MOST_CHANGED = 12  # tokens of a text that may be exchanged, one at a time


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
    check: bool | None = None,
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
            which hold all maps). Left out: up to 1,024 tokens.

    Raises:
        ValueError: an input the model cannot read, an unknown word in ``keep``, an edit that
            matches no place, maps that the memory does not hold; each says what to do.
    """
    options: dict[str, Any] = {"keep": keep, "only": only, "check": check, "masked": masked}
    options |= {"image": image, "intervention": intervention, "produced": produced}
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
    check: bool | None = None,
    known: ReadSources | None = None,
) -> Trace:
    """What `trace` gives, for whoever asks again and again.

    Args:
        known: what the model's encoder gave before: taken from there, and kept there, where it is
            the same. The model's weights must not have changed since.
    """
    given: object = model
    if isinstance(given, nn.Module):
        raise ValueError(
            f"tv.trace takes what tv.load gave; got a {type(given).__name__}. Open it with "
            "tv.load(module), or watch it as it is with tv.probe(module)."
        )
    intervention = intervention_of(intervention)
    words = None if keep is None else _words(keep)
    read = read_source(unlimited(model), source, target, intervention, produced, masked, image)
    made_for, model = model.max_tokens, longer(model, len(read.source))
    long = max(len(read.source), len(read.target or ())) > LONG
    words = (("tiles",) if long else ("weights",)) if words is None else words
    check = not long if check is None else check
    refuse_flood(model, read, words, only, check)
    request = capture_request(model, words, only, read, check and not intervention)
    asked = None if known is None else (known, (words, None if only is None else tuple(only)))
    capture, output, leaves = _watch(model, read, intervention, request, words, asked)
    logits = logits_of(model, read, output, intervention)
    said = produced_of(model, read, logits)
    wanted = "gradients" in words
    gradients = gradients_of(model, read, output, said, leaves) if wanted else None
    report = _report(model, read, capture, output, intervention, check)
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
        output=vectors_of(model, output),
        report=report,
        manifest=_manifest(model, intervention, words)
        | _of_the_picture(model, read)
        | ({} if model.max_tokens == made_for else {"beyond": made_for})
        | untiled(capture, only),
        intervention=intervention,
        hiddens=hidden_of(capture) if "hidden" in words else {},
    )


def _words(keep: Iterable[str]) -> tuple[str, ...]:
    words = (keep,) if isinstance(keep, str) else tuple(keep)
    for word in words:
        if word not in KEEP:
            raise ValueError(f"keep has no word {word!r}; choose of {', '.join(KEEP)}.")
    return words


def capture_request(
    model: Model, words: tuple[str, ...], only: Sequence[Site] | None, read: Read, check: bool
) -> CaptureRequest:
    """What a probe is to keep of a run, for these words of `keep` and these sites alone."""

    def of(word: str) -> Callable[[Site], bool]:
        if word not in words:
            return lambda site: False
        if only is None:
            return lambda site: True
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
        with torch.no_grad():
            both = watched(model, read.tensors, intervention, request, asked[1], asked[0])
        return *both, []
    mode = torch.enable_grad() if grad else torch.no_grad()
    donations = lent_to(model, read, intervention)
    with mode:
        capture, output = watched_call(
            model, partial(read.through, model), intervention, request, donations
        )
    leaves = [(record.leaves, record.along) for record in capture.attentions]
    return capture, output, leaves


def lent_to(model: Model, read: Read, intervention: Intervention) -> tuple[Donation, ...]:
    """What other runs lend to this one, for the edits that say so."""
    if not lends(intervention):
        return ()
    source, target, _ = read.tensors
    if read.prompt is None:
        return Lender(model, intervention, read.source.ids, read.masked).donations(target)
    lender = Lender(model, intervention, read.source.ids[: read.prompt], read.masked)
    return lender.donations(target, source[:, read.prompt :])


def _report(
    model: Model,
    read: Read,
    capture: Capture,
    output: Tensor,
    intervention: Intervention,
    check: bool,
) -> Report:
    """What was captured, and the proof on the clean run of the same input."""
    if check and intervention:
        request = capture_request(model, (), None, read, check=True)
        capture, output, _ = _watch(model, read, Intervention(), request, ())
    difference = None
    if check:
        with torch.no_grad():
            plain = read.through(model)
        scale = plain.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
        difference = float((plain - output.detach()).abs().max() / scale)
    proof = proof_or_reason(partial(proved, model, read)) if check else None
    errors = [_row_sum_error(record) for record in capture.attentions]
    return Report(
        sites=tuple(str(site) for site in capture.sites),
        row_sum_error=max(errors, default=float("nan")),
        output_difference=difference,
        rebuilt={str(record.site): _rebuilt(record) for record in capture.attentions}
        if check
        else {},
        replaced=tuple(capture.replaced),
        unrecognised=tuple(capture.unrecognised),
        kernels=proof.kernels if proof else (),
        laws=laws_of_notes(proof.laws, model, partial(read.through, model), intervention)
        if proof
        else {},
        untold=proof.untold if proof else (),
        tolerance=proof.tolerance if proof else Report.tolerance,
        guessed=tuple(model.guessed),
    )


def proved(model: Model, read: Read) -> Proof:
    """The proof of the clean run of an input; its batch of two holds the input and its reverse."""
    lone = "decoder" if model.kind == "decoder-only" else "encoder"

    def alone() -> Tensor:
        return read.through(model)

    def together() -> Tensor:
        return doubled(read).through(model)

    others = [
        Changed(token, partial(other.through, model), stack)
        for token, stack, other in changed(model, read)
    ]
    return prove(model.module, alone, stack=lone, together=together, changed=others)


def changed(model: Model, read: Read) -> Iterator[tuple[int, str, Read]]:
    """Inputs with one token exchanged for another one of the same text: the token's number, the
    stack that reads it, and the input. The token in the middle comes first; none where all tokens
    are the same."""
    for side, ids in enumerate(read.tensors[:2]):
        if ids is None or ids.is_floating_point() or ids.dim() != 2:
            continue
        places = read.beside.places if side == 0 and read.beside is not None else ()
        words = [n for n in range(ids.shape[1]) if n not in places]  # a patch is no word
        middle = len(words) // 2
        kept = ids[0, [n for n in words if n]]
        for token in (words[middle:] + words[:middle])[:MOST_CHANGED]:
            others = kept[kept != ids[0, token]]
            if not len(others):
                continue
            made = ids.clone()
            made[0, token] = others[0]
            stack = "decoder" if side or model.kind == "decoder-only" else "encoder"
            tensors = (read.tensors[0], made) if side else (made, read.tensors[1])
            yield token, stack, replace(read, tensors=(*tensors, read.tensors[2]))


def doubled(read: Read) -> Read:
    """A batch of two: the input, and the same with its tokens (or columns) in reverse."""

    def both(x: Tensor | None) -> Tensor | None:
        return None if x is None else torch.cat((x, x.flip(-1 if x.dim() != 3 else 1)))

    source, target, mask = read.tensors
    twice = None if mask is None else mask.repeat(2, *[1] * (mask.dim() - 1))
    segments = None if read.segments is None else read.segments.repeat(2, 1)
    tensors = (cast(Tensor, both(source)), both(target), twice)
    return replace(read, tensors=tensors, segments=segments)


def _row_sum_error(record: AttentionRecord) -> float:
    """How far rows are from summing to 1, counting what a sink took beside the words."""
    weights, scores = record.weights, record.scores
    if weights is None or scores is None or scores.shape[-1] <= weights.shape[-1]:
        return float(record.statistics["row_sum_error"][0].max())
    sunk = torch.softmax(scores.double(), -1)[..., weights.shape[-1] :].sum(-1)
    return float((weights.double().sum(-1) + sunk - 1).abs().max())


def _rebuilt(record: AttentionRecord) -> float | None:
    """The worse of: the output rebuilt from the captured weights; softmax(scores) against them."""
    if record.rebuilt is None or record.scores is None or record.weights is None:
        return record.rebuilt
    if record.scores.shape != record.weights.shape or record.form != "softmax":
        return record.rebuilt
    again = torch.softmax(record.scores.double(), -1).nan_to_num(0.0)
    off = float((again - record.weights.double().nan_to_num(0.0)).abs().max())
    return max(record.rebuilt, off)


def _manifest(model: Model, intervention: Intervention, words: tuple[str, ...]) -> dict[str, Any]:
    """What one needs to repeat this run."""
    return {
        "model": model.name,
        "layout": model.layout,
        "hash": model.hash,
        "parameters": model.parameters,
        "dtype": model.dtype,
        "device": model.device,
        "kind": model.kind,
        "versions": {
            "transformer_viz": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "seed": 0,
        "keep": list(words),
        "intervention": intervention.to_json(),
        **guess_entry(model.guessed),
    }


def _of_the_picture(model: Model, read: Read) -> dict[str, Any]:
    """What a reader of patches, classes and answers needs beside the numbers."""
    notes: dict[str, Any] = {}
    if read.beside is not None:
        notes["image"] = {"grid": list(read.beside.seen.grid), "prefix": read.beside.patches}
    if model.image is not None:
        notes["image"] = {"grid": list(model.image.grid), "prefix": len(model.image.prefix)}
    if model.gives == "classes":
        notes["labels"] = list(model.labels)
    told = {"task": model.task, "gives": "spans" if model.gives == "spans" else ""}
    return notes | {name: word for name, word in told.items() if word}
