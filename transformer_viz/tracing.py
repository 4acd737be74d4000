"""Sentence + model + intervention -> Trace. The one door where tensors become numpy."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .checkpoints.model import Model
from .decode import translate
from .inputs import padded_source, source_ids, target_ids, vocabulary_ids
from .interventions import Intervention, Pad
from .records import Produced, Report, Tokens, Trace, read_only
from .sites import Site
from .tables import (
    MATRICES,
    attentions_of,
    gains_of,
    heads_of,
    hidden_of,
    norms_of,
    residuals_of,
    thumbnails_of,
)
from .watch import Run, Want, probe

KEEP = ("weights", "scores", "qkv", "hidden", "gradients")
Text = str | Sequence[int] | np.ndarray


def trace(
    model: Model,
    source: Text,
    target: Text | None = None,
    *,
    intervention: Intervention | None = None,
    keep: Iterable[str] = ("weights",),
    only: Sequence[Site] | None = None,
    produced: Sequence[int] | None = None,
    check: bool = True,
) -> Trace:
    """Everything that happened when one sentence went through the model once.

    Args:
        model: what `load` gave.
        source: text, token ids as the model reads them, or vectors ``[token, d_model]``.
        target: text, or the decoder's input ids with their start token; left out, it is decoded
            greedily under the same intervention. A decoder-only model appends it to the source.
        intervention: what to change; None or the empty one is the clean run.
        keep: of ``weights``, ``scores``, ``qkv``, ``hidden``, ``gradients``; head statistics and
            thumbnails are always there, and the weights come with anything but ``hidden``.
        only: keep matrices of these sites alone (a site's head is ignored); None keeps all.
        produced: the tokens the target rows are asked about; left out, the next input token and,
            for the last row, the most probable one. Holds the clean run's words under an edit.
        check: also prove the capture on a clean run of the same input (two or three more passes).

    Raises:
        ValueError: an input the model cannot read, an unknown word in ``keep``, an edit that
            matches no place; each says what to do.
    """
    intervention = intervention or Intervention()
    words = _words(keep)
    read = _read(model, source, target, intervention, produced)
    want = _want(model, words, only, read, check and not intervention)
    run, output, leaves = _watch(model, read, intervention, want, words)
    logits = _logits(model, read, output, intervention)
    said = _produced(model, read, logits)
    gradients = _gradients(output, said, leaves) if "gradients" in words else None
    report = _report(model, read, run, output, intervention, check)
    return Trace(
        source=read.source,
        target=read.target,
        produced=said,
        heads=heads_of(run),
        thumbnails=thumbnails_of(run),
        attentions=attentions_of(run, words, only, model.kind, gradients),
        norms=norms_of(run),
        gains=gains_of(run),
        residuals=residuals_of(run),
        positions={name: _numpy(table) for name, table in run.positions.items()},
        logits=logits,
        report=report,
        manifest=_manifest(model, intervention, words),
        intervention=intervention,
        hiddens=hidden_of(run) if "hidden" in words else {},
    )


@dataclass(frozen=True)
class _Read:
    """One input, ready to go: tensors with a batch of one, and the tokens they stand for."""

    source: Tokens
    target: Tokens | None
    tensors: tuple[Tensor, Tensor | None, Tensor | None]
    produced: tuple[int, ...] | None


def _words(keep: Iterable[str]) -> tuple[str, ...]:
    words = (keep,) if isinstance(keep, str) else tuple(keep)
    for word in words:
        if word not in KEEP:
            raise ValueError(f"keep has no word {word!r}; choose of {', '.join(KEEP)}.")
    return words


def _read(
    model: Model,
    source: Text,
    target: Text | None,
    intervention: Intervention,
    produced: Sequence[int] | None,
) -> _Read:
    if isinstance(source, np.ndarray) and source.dtype.kind == "f":
        return _read_vectors(model, source, target, intervention)
    ids = source_ids(model, source)
    if model.kind == "encoder-decoder":
        if target is None:
            best = translate(model, ids, intervention=intervention)[0]
            body = best.ids[:-1] if best.finished else best.ids
            start = [] if model.bos_id is None else [model.bos_id]
            rows, said = [*start, *body], tuple(best.ids) if best.finished else None
        else:
            rows, said = target_ids(model, target), None
        tokens = model.tokenizer.tokens(rows)
    elif target is not None and model.kind == "decoder-only":
        ids = source_ids(model, [*ids, *_appended(model, target)])
        rows, tokens, said = None, None, None
    elif target is not None:
        raise ValueError(f"The model {model.name!r} has no decoder; leave the target out.")
    else:
        rows, tokens, said = None, None, None
    padded, visible = padded_source(ids, intervention, model.pad_id)
    mask = None if all(visible) and len(padded) == len(ids) else torch.tensor([visible])
    tensors = (
        torch.tensor([padded], device=model.device),
        None if rows is None else torch.tensor([rows], device=model.device),
        None if mask is None else mask.to(model.device),
    )
    held = said if produced is None else tuple(vocabulary_ids(model, "target", produced))
    return _Read(model.tokenizer.tokens(padded), tokens, tensors, held)


def _appended(model: Model, target: Text) -> list[int]:
    """What a target adds to the text of a decoder-only model: ids as given, or pieces alone."""
    if isinstance(target, str):
        return [i for i in model.tokenizer.target_ids(target) if i != model.bos_id]
    return vocabulary_ids(model, "target", target)


def _read_vectors(
    model: Model, source: np.ndarray, target: Text | None, intervention: Intervention
) -> _Read:
    """Vectors ``[token, d_model]`` for a core without embeddings; tokens are numbered."""
    if model.config.get("source_vocab"):
        raise ValueError("This model reads token ids; give text or ids instead of vectors.")
    if target is None and model.kind == "encoder-decoder":
        raise ValueError("Vectors are not decoded; give the target's vectors too: target=array.")
    if any(isinstance(edit, Pad) for edit in intervention):
        raise ValueError("The edit 'pad' needs a padding token, and vectors have none.")
    parts: list[Tensor] = []
    for name, array in (("source", source), ("target", target)):
        if array is None:
            continue
        given = isinstance(array, np.ndarray) and array.ndim == 2 and array.size > 0
        if not given or not np.isfinite(array).all():
            raise ValueError(
                f"The {name} must be finite numbers [token, d_model]; got "
                f"{getattr(array, 'shape', type(array).__name__)}."
            )
        parts.append(torch.as_tensor(array, dtype=torch.float32, device=model.device)[None])
    tokens = [_numbered(part.shape[1]) for part in parts]
    pair = (parts[0], parts[1] if len(parts) > 1 else None, None)
    return _Read(tokens[0], tokens[1] if len(tokens) > 1 else None, pair, None)


def _numbered(count: int) -> Tokens:
    names = tuple(map(str, range(count)))
    return Tokens((), names, names, tuple(range(count)), (False,) * count)


def _want(
    model: Model, words: tuple[str, ...], only: Sequence[Site] | None, read: _Read, check: bool
) -> Want:
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
    return Want(
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


def _watch(
    model: Model, read: _Read, intervention: Intervention, want: Want, words: tuple[str, ...]
) -> tuple[Run, Tensor, list[tuple[Tensor, ...]]]:
    """One watched pass: the run, the model's output, and the leaves that collect gradients."""
    grad = "gradients" in words
    mode = torch.enable_grad() if grad else torch.inference_mode()
    with mode, probe(model.module, intervention.of_the_pass(), want) as run:
        output = model.calls.forward(*read.tensors)
    leaves = [record.leaves for record in run.attentions]
    return run, output, leaves


def _logits(
    model: Model, read: _Read, output: Tensor, intervention: Intervention
) -> np.ndarray | None:
    """The output before the last softmax, ``[position, vocabulary]`` or ``[class]``; None if the
    model ends in states and not in an output layer.

    Raises:
        ValueError: an edit made the numbers so large that nothing is left of them.
    """
    if intervention and bool(output[0].isnan().all()):
        raise ValueError(
            f"Under this change ({intervention.describe()}) the model's output is not a number "
            "(NaN): its numbers became too large. Give the edit a smaller value."
        )
    if not model.config.get("target_vocab", bool(read.source.ids)):
        return None  # also a core that reads vectors: it gives vectors
    return _numpy(output[0])


def _produced(model: Model, read: _Read, logits: np.ndarray | None) -> Produced | None:
    """For each row the token it predicts, its probability and rank."""
    if logits is None or logits.ndim != 2 or model.kind == "encoder-only":
        return None
    rows = read.source if read.target is None else read.target
    if not rows.ids or len(rows) != len(logits):
        return None
    ids = read.produced
    if ids is None:
        ids = (*rows.ids[1:], int(logits[-1].argmax()))
    if len(ids) != len(rows):
        raise ValueError(
            f"produced names {len(ids)} tokens for {len(rows)} target rows; give one a row."
        )
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=1, keepdims=True)
    chosen = exact[np.arange(len(ids)), ids]
    probability = np.exp(chosen - np.log(np.exp(exact).sum(axis=1)))
    rank = 1 + (exact > chosen[:, None]).sum(axis=1)
    tokens = model.tokenizer.tokens(ids)
    return Produced(
        ids=tuple(int(i) for i in ids),
        pieces=tokens.pieces,
        labels=tokens.labels,
        probability=read_only(probability.astype(np.float32)),
        rank=read_only(rank.astype(np.int64)),
    )


def _gradients(
    output: Tensor, said: Produced | None, leaves: list[tuple[Tensor, ...]]
) -> list[np.ndarray]:
    """d(sum of the chosen logits) / d(weights) for each attention in call order."""
    first = output[0]
    if said is not None:
        chosen = first[torch.arange(len(said.ids)), torch.tensor(said.ids, device=first.device)]
    else:
        chosen = first.amax(-1)
    flat = [leaf for heads in leaves for leaf in heads]
    found = torch.autograd.grad(chosen.sum(), flat, allow_unused=True)
    grads = iter(torch.zeros_like(x) if g is None else g for x, g in zip(flat, found, strict=True))
    return [_numpy(torch.cat([next(grads)[0] for _ in heads])) for heads in leaves]


def _report(
    model: Model,
    read: _Read,
    run: Run,
    output: Tensor,
    intervention: Intervention,
    check: bool,
) -> Report:
    """What was captured, and the proof on the clean run of the same input."""
    if check and intervention:
        want = _want(model, (), None, read, check=True)
        run, output, _ = _watch(model, read, Intervention(), want, ())
    difference = None
    if check:
        with torch.inference_mode():
            plain = model.calls.forward(*read.tensors)
        scale = plain.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
        difference = float((plain - output.detach()).abs().max() / scale)
    errors = [r.statistics["row_sum_error"][0].max() for r in run.attentions]
    return Report(
        sites=tuple(str(site) for site in run.sites),
        row_sum_error=float(max(errors, default=torch.tensor(float("nan")))),
        output_difference=difference,
        rebuilt={str(record.site): _rebuilt(record) for record in run.attentions} if check else {},
        replaced=tuple(run.replaced),
        unrecognised=tuple(run.unrecognised),
    )


def _rebuilt(record: Any) -> float | None:
    """The worse of: the output rebuilt from the captured weights; softmax(scores) against them."""
    if record.rebuilt is None or record.scores is None or record.weights is None:
        return record.rebuilt
    if record.scores.shape != record.weights.shape or record.form != "softmax":
        return record.rebuilt
    again = torch.softmax(record.scores.double(), -1).nan_to_num(0.0)
    off = float((again - record.weights.double().nan_to_num(0.0)).abs().max())
    return max(record.rebuilt, off)


@cache
def _own_version() -> str:
    try:
        return version("transformer_viz")
    except PackageNotFoundError:
        return "not installed"


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
            "transformer_viz": _own_version(),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "seed": 0,
        "keep": list(words),
        "intervention": intervention.to_json(),
    }


def _numpy(x: Tensor) -> np.ndarray:
    """A tensor as a read-only array that owns its data."""
    return read_only(x.detach().to("cpu", torch.float32, copy=True).numpy())
