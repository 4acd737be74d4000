"""Any module in memory: watched as it is, called as its own forward asks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...core.numerics import task_of
from ...preprocessing.hugging_face import HuggingFaceText
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ...preprocessing.vocabularies import Vocabularies
from ..common.model import Calls, Model
from ..common.vocabularies import settled
from ..common.word_checks import checked_task
from ..files.reading import CheckpointError
from ..hugging_face import build
from ..hugging_face.adapter import without_peft
from ..hugging_face.side_files import of_library
from ..vocabularies.embedding_tables import look_up_tables

NAME = "module in memory"
KINDS = ("encoder-decoder", "encoder-only", "decoder-only")
WORDS = ("pad_id", "bos_id", "eos_id", "max_tokens")
#: Names under which modules take a mask of the source, and whether true means visible.
MASKS = {
    "source_mask": True,
    "attention_mask": True,
    "src_key_padding_mask": False,
    "memory_key_padding_mask": False,
}
#: Names of a second input that is no target, and the plain text's value of it.
BESIDE: dict[str, Callable[[Tensor], Tensor]] = {
    **dict.fromkeys(("token_type_ids", "segment_ids"), torch.zeros_like),
    "position_ids": lambda ids: torch.arange(ids.shape[1], device=ids.device).expand_as(ids),
    "lengths": lambda ids: torch.full_like(ids[:, 0], ids.shape[1]),
}
TRIED = 4  # ids of the trial run
TARGET = "decoder_input_ids"  # modules with this name take a target by name, others as the second


def wrap(
    module: nn.Module,
    tokenizer: Any = None,
    name: str = "",
    *,
    device: str | None = None,
    kind: str | None = None,
    task: str | None = None,
    **overrides: Any,
) -> Model:
    """A Model around any module, put into evaluation mode; its class gives the name.

    A model of the transformers library tells by its config, and by a trial run, what it is; one
    that peft wrapped is the model inside, its adapter at work. Of any
    other: ``kind`` None means that a forward with a target, or with two inputs that must be given,
    is that of an encoder-decoder, any other that of an encoder. ``tokenizer`` is one of ours, or
    `Vocabularies`; None reads ids typed as numbers. One vocabulary names the words of a target
    only where a trial run sees that source and target share a table of embeddings. A module that
    gives ``[batch, class]`` for a few ids is a classifier. ``task`` says what its numbers mean:
    ``single_label``, ``multi_label`` or ``regression``; None takes one output as a regression,
    several as one of several classes. With a task, ``[batch, token, class]`` are tags.
    ``overrides`` may say ``pad_id``, ``bos_id``, ``eos_id`` and ``max_tokens``.

    Raises:
        CheckpointError: an unknown kind, task or override, or vocabularies that do not fit; says
            what.
    """
    module = without_peft(module)
    if of_library(module) and kind is None:
        asked = {} if task is None else {"task": task}
        return build.wrap(module, tokenizer, name, device=device, **overrides, **asked)
    for word in overrides:
        if word not in WORDS:
            raise CheckpointError(
                f"A module in memory has no word {word!r}; it takes kind, task, {', '.join(WORDS)}."
            )
    if kind is not None and kind not in KINDS:
        raise CheckpointError(f"There is no kind {kind!r}; choose one of {', '.join(KINDS)}.")
    module.eval()
    if device is not None:
        module.to(device)
    first = next(module.parameters(), None)
    given = {"kind": kind, **overrides}
    device = "cpu" if first is None else str(first.device)
    kind = kind or _kind(module)
    calls = make_calls(module)
    shape = _trial_shape(calls, kind, device)
    if shape == (1, TRIED) and _trial_shape(calls, kind, device, TRIED + 1) != shape:
        shape = ()  # a number for each token, not for each class
    gives, task = _ending(shape, task)
    face, named, notes = _face(module, tokenizer, overrides, kind, calls)
    return Model(
        name=name or type(module).__name__,
        module=module,
        kind=kind,
        config={},
        tokenizer=face,
        device=device,
        calls=calls,
        layout=NAME,
        gives=gives,
        task=task,
        dtype="float32" if first is None else str(first.dtype).removeprefix("torch."),
        provenance={
            word: "default" if given.get(word) is None else "override" for word in ("kind", *WORDS)
        }
        | dict.fromkeys(named, "sidecar"),
        notes=notes,
        **{**named, **overrides},
    )


def make_calls(module: nn.Module) -> Calls:
    """A call of the module's own forward with the inputs it takes; its first tensor comes back.

    The mask goes under the names that the module has for it; a module that has none refuses one.
    """
    names = inspect.signature(module.forward).parameters
    needed = [name for name in _needed(module)[1:] if name in MASKS or name in BESIDE]

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        named = beside(source) | masks(source_mask)
        if target is not None and TARGET in names:
            return _with_batch(first_tensor(module(source, **{TARGET: target}, **named)))
        inputs = (source,) if target is None else (source, target)
        return _with_batch(first_tensor(module(*inputs, **named)))

    def beside(source: Tensor) -> dict[str, Tensor]:
        every = torch.ones_like(source, dtype=torch.bool)
        given = {name: BESIDE[name](source) for name in needed if name in BESIDE}
        return given | {
            name: every.long() if MASKS[name] else ~every for name in needed if name in MASKS
        }

    def masks(visible: Tensor | None) -> dict[str, Tensor]:
        if visible is None:
            return {}
        known = {name: keep for name, keep in MASKS.items() if name in names}
        if not known:
            raise ValueError(
                f"{type(module).__name__} takes no mask of the source; its forward knows "
                f"{', '.join(names)}."
            )
        return {name: visible if keep else ~visible for name, keep in known.items()}

    return Calls(forward)


def first_tensor(output: Any) -> Tensor:
    """The logits, or else the first tensor, of what a module gave; ``start_logits`` and
    ``end_logits`` come as ``[batch, 2, token]``.

    Raises:
        ValueError: there is none; names the type that came.
    """
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    ends = [_named_part(output, f"{end}_logits") for end in ("start", "end")]
    if all(isinstance(end, Tensor) for end in ends):
        return torch.stack(ends, 1)  # [batch, 2, token]
    parts = list(output.values()) if isinstance(output, Mapping) else output
    for part in parts if isinstance(parts, list | tuple) else ():
        if isinstance(part, Tensor):
            return part
    raise ValueError(
        f"The module gave a {type(output).__name__} without a tensor in it; wrap it in a module "
        "whose forward returns one."
    )


def _named_part(output: Any, name: str) -> Any:
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def _with_batch(output: Tensor) -> Tensor:
    """Return the output of a head that squeezes its one number away, ``[batch]``, as
    ``[batch, 1]``."""
    return output.reshape(-1, 1) if output.dim() < 2 else output


def _trial_shape(calls: Calls, kind: str, device: str, count: int = TRIED) -> tuple[int, ...]:
    """Return the shape that a few ids give, without changing the random state; empty if they do
    not run."""
    ids = torch.zeros(1, count, dtype=torch.long, device=device)
    target = ids if kind == "encoder-decoder" else None
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(calls.forward(ids, target).shape)
    except Exception:  # whatever a foreign forward pass may raise
        return ()


def _ending(shape: tuple[int, ...], task: str | None) -> tuple[str, str]:
    """Return what a module gives, and its task, by the shape of its output.

    Raises:
        CheckpointError: an unknown task.
    """
    named = None if task is None else checked_task(task)
    if named is None and shape == (1, 2, TRIED):
        return "spans", ""
    if len(shape) == 2 and shape[0] == 1:
        return "classes", named or task_of(shape[1])
    if named is None:
        return "words", ""
    return "classes" if not shape else "tags", named


def _face(
    module: nn.Module, tokenizer: Any, said: dict[str, Any], kind: str, calls: Calls
) -> tuple[Tokenizer, dict[str, int], tuple[str, ...]]:
    """The tokenizer, the special ids that the vocabularies name, and notes."""
    ids: dict[str, Any] = {word: said.get(word) for word in ("pad_id", "bos_id", "eos_id")}
    if tokenizer is None:
        return PlainIds(**ids), {}, ()
    if not isinstance(tokenizer, Vocabularies):
        given: Tokenizer = (
            HuggingFaceText(tokenizer, start_id=ids["bos_id"])
            if (of_library(tokenizer))
            else tokenizer
        )
        return given, {}, ()
    named = {word: i for word, i in tokenizer.named.items() if word not in said}
    names = inspect.signature(module.forward).parameters
    if not any(name in names for name in MASKS):
        named.pop("pad_id", None)  # the module hides padding itself, or not at all
    tables = look_up_tables(module, calls.forward, kind == "encoder-decoder")
    settings = {word: {**tokenizer.named, **said}.get(word) for word in ids}
    made, notes = settled(tokenizer, settings, tables)
    return made, named, notes


def _kind(module: nn.Module) -> str:
    """Return ``encoder-decoder`` if the forward needs a target, else ``encoder-only``."""
    targets = [name for name in _needed(module)[1:] if name not in MASKS and name not in BESIDE]
    has_target = bool(targets) or TARGET in inspect.signature(module.forward).parameters
    return "encoder-decoder" if has_target else "encoder-only"


def _needed(module: nn.Module) -> list[str]:
    """Return the names of the inputs that a module's forward cannot do without."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(module.forward).parameters.values()
    return [p.name for p in parameters if p.kind in kinds and p.default is p.empty]
