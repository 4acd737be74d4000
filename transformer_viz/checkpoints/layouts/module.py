"""Modules in memory of any class, captured unchanged and called through their own forward."""

from __future__ import annotations

import inspect
from typing import Any

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
from .own_forward.plan import Plan
from .own_forward.search import Found, find_plan

NAME = "module in memory"
KINDS = ("encoder-decoder", "encoder-only", "decoder-only")
WORDS = ("pad_id", "bos_id", "eos_id", "max_tokens")
#: Arrangements of an output with a row for each token.
BY_TOKEN = ("rows", "tokens first", "classes second", "flat")


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
    """Return a Model of any module, put into evaluation mode; its class gives the name.

    A model of the transformers library is described by its config and a trial run. For one wrapped
    by peft this is the inner model, with its adapter active. For other modules, trial runs find the
    role of each input (text, mask, target) and its form.

    A module that gives ``[batch, class]`` for a few ids is a classifier. With a task,
    ``[batch, token, class]`` are tags.

    Args:
        module: The module.
        tokenizer: Ours, or `Vocabularies`; None reads ids typed as numbers. A single vocabulary is
            used for a target only if a trial run finds shared embeddings.
        name: Name of the model.
        device: Target device; None leaves the module where it is.
        kind: None means encoder-decoder for a forward with a target, decoder-only if no row
            attends to a later token, else encoder-only.
        task: ``single_label``, ``multi_label`` or ``regression``. None means a regression for one
            output, and one of several classes for several.
        overrides: ``pad_id``, ``bos_id``, ``eos_id`` and ``max_tokens``.

    Raises:
        CheckpointError: Unknown kind, task or override, vocabularies that do not fit, or inputs
            of the forward that cannot be determined; states which.
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
    if task is not None:
        checked_task(task)
    found = find_plan(module, kind, device)
    kind, calls = found.kind, make_calls(module, found.plan)
    gives, task = _ending(found, task)
    face, named, notes = _face(module, tokenizer, overrides, found, calls)
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
        | dict.fromkeys(named, "sidecar")
        | ({"kind": "module"} if found.shown else {}),
        notes=(*found.notes, *notes),
        **{**named, **overrides},
    )


def make_calls(module: nn.Module, plan: Plan) -> Calls:
    """Return calls of the module's own forward by a plan; they return its first tensor.

    The mask is passed under the module's name for it. A module without one refuses a mask.
    """

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        if source_mask is not None and not plan.hides and not plan.counts:
            raise ValueError(
                f"{type(module).__name__} takes no mask of the source; its forward knows "
                f"{', '.join(inspect.signature(module.forward).parameters)}."
            )
        return plan.run(module, source, target, source_mask)

    return Calls(forward)


def _ending(found: Found, task: str | None) -> tuple[str, str]:
    """Return the output kind of a module, and its task, by the arrangement of its output.

    Raises:
        CheckpointError: The task is unknown.
    """
    named = None if task is None else checked_task(task)
    if found.plan.arrangement == "spans" and named is None:
        return "spans", ""
    if found.classes:
        return "classes", named or task_of(found.classes)
    if named is None:
        return "words", ""
    return "tags" if found.plan.arrangement in BY_TOKEN else "classes", named


def _face(
    module: nn.Module, tokenizer: Any, said: dict[str, Any], found: Found, calls: Calls
) -> tuple[Tokenizer, dict[str, int], tuple[str, ...]]:
    """Return the tokenizer, the special ids that the vocabularies name, and notes."""
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
    if not found.plan.hides:
        named.pop("pad_id", None)  # the module hides padding itself, or not at all
    tables = look_up_tables(module, calls.forward, found.kind == "encoder-decoder")
    settings = {word: {**tokenizer.named, **said}.get(word) for word in ids}
    made, notes = settled(tokenizer, settings, tables)
    return made, named, notes
