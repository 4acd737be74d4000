"""Adapters merged into their base model in memory: LoRA here, other kinds by peft.

LoRA adds a product of two thin matrices to a weight, W + (alpha / r) B A (Hu et al. 2021; rsLoRA
divides by the root of r). All other kinds are merged by peft, if it is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from ..files.adapters import Adapter
from ..files.errors import CheckpointError
from ..files.reading import Weights
from .adapter_tables import resize_tables, saved
from .library import plainly

#: Options of a peft config that change nothing in W + (alpha / r) B A.
PLAIN = (
    *("peft_type", "peft_version", "task_type", "auto_mapping", "base_model_name_or_path"),
    *("revision", "inference_mode", "r", "lora_alpha", "lora_dropout", "bias", "use_rslora"),
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    *("rank_pattern", "alpha_pattern", "fan_in_fan_out", "modules_to_save", "init_lora_weights"),
    *("megatron_core", "qalora_group_size", "ensure_weight_tying"),
)
UNCHANGED = (True, False, None, "gaussian")  # initialisations that keep the model's weights
#: Kinds that change no weight but put trained tokens before each text.
PROMPTS = ("PREFIX_TUNING", "PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "CPT")
BEFORE = "puts tokens of its own before each text, which have no words to be shown"
#: Task names of peft, and the library's table of the classes that they train.
TASKS = {
    "CAUSAL_LM": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "SEQ_2_SEQ_LM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "SEQ_CLS": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "TOKEN_CLS": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING",
    "QUESTION_ANS": "MODEL_FOR_QUESTION_ANSWERING_MAPPING",
    "FEATURE_EXTRACTION": "MODEL_MAPPING",
}
SLOW = re.compile(r"\)\s*[*+{]|([*+{].*){4}")  # repeated groups, or many repeats in a row
MAX_NAME = 300  # characters of a part's name, and of a pattern for such names
FACTORS = re.compile(r"(.+)\.lora_(?:embedding_)?([AB])(?:\.weight)?")


def unlike_lora(adapter: Adapter) -> str:
    """Return the part of an adapter that is not plain LoRA; empty if all of it is."""
    if adapter.kind != "LORA":
        return f"its kind is {adapter.kind or 'not said'}"
    for word, value in adapter.words.items():
        if word not in PLAIN and value:
            return f"it sets {word}"
    begun = adapter.words.get("init_lora_weights")
    if begun not in UNCHANGED:
        return f"its training began by changing the model (init_lora_weights={begun!r})"
    odd = next((n for n in adapter.tensors if "lora_" in n and not FACTORS.fullmatch(n)), None)
    return "" if odd is None else f"it holds {odd}"


def refuse_adapter(adapter: Adapter, quantized: str = "") -> None:
    """Refuse an adapter that can be merged neither here nor by peft, before its model is read.

    ``quantized`` is the quantisation of the base model's weights, empty if there is none.

    Raises:
        CheckpointError: States what cannot be merged, and what to do.
    """
    if quantized:
        raise CheckpointError(
            f"The adapter {adapter.name} is merged into the weights, and those of its model are "
            f"quantised ({quantized}); give the model that they were made from as base."
        )
    if adapter.kind in PROMPTS:
        raise CheckpointError(
            f"The adapter {adapter.name} ({adapter.kind}) {BEFORE}, so it cannot be merged; load "
            "it with peft and call the module inside `with tv.probe(module)`."
        )
    odd = unlike_lora(adapter)
    if odd and find_spec("peft") is None:
        raise CheckpointError(
            f"The adapter {adapter.name} is no plain LoRA ({odd}), and only that is merged here "
            "without the package peft: pip install peft, or save the model with the adapter merged."
        )


def head_of(transformers: Any, config: Any, adapter: Adapter) -> dict[str, Any]:
    """Return config options that open the base model with the head that the adapter trained.

    An adapter for token classes is saved without the model, whose folder may hold another head.
    """
    table = getattr(transformers, TASKS.get(str(adapter.words.get("task_type")), ""), {})
    found = table.get(type(config), ()) if table else ()
    classes = [cls.__name__ for cls in (found if isinstance(found, tuple) else (found,))]
    if not classes or set(classes) & set(config.architectures or ()):
        return {}
    said: dict[str, Any] = {"architectures": classes[:1]}
    heads = [t for n, t in saved(adapter).items() if n in ("classifier.weight", "score.weight")]
    return said | ({"num_labels": heads[0].shape[0]} if heads else {})


def with_heads(weights: Weights, adapter: Adapter) -> Weights:
    """Return the model's weights and those that the adapter stores whole.

    A token table that grew stays as the model has it; :func:`resize_tables` follows.
    """
    own, more = weights.tensors, saved(adapter)
    grown = {name for name in more if name in own and own[name].shape != more[name].shape}
    return replace(weights, tensors=own | {n: t for n, t in more.items() if n not in grown})


def merged(module: nn.Module, adapter: Adapter) -> nn.Module:
    """Return the model with the adapter merged into its weights, in place for plain LoRA.

    Raises:
        CheckpointError: Parts are missing in the model or have other sizes, weights are not in
            memory, or peft is needed and fails.
    """
    if any(p.is_meta for p in module.parameters()):
        raise CheckpointError(
            f"The adapter {adapter.name} is merged in memory, and parts of the model lie on disk; "
            "allow more max_memory, or save the model with the adapter merged."
        )
    resize_tables(module, adapter)
    if unlike_lora(adapter):
        return _merged_by_peft(module, adapter)
    with torch.no_grad():
        for name, tensor in saved(adapter).items():
            part, word = _place(module, adapter, name)
            weight = getattr(part, word)
            _same_size(tensor, weight, adapter, name)
            if _is_trained_whole(adapter, name):
                _put(part, word, tensor.to(weight.device, weight.dtype))
            else:  # a table that only grew: what is tied to it grows too
                weight.copy_(tensor)
        for name, (a, b) in _factors(adapter):
            part, word = _place(module, adapter, f"{name}.weight")
            weight = getattr(part, word)
            change = scale(adapter.words, name, a.shape[0]) * (b.float() @ a.float())
            if _is_transposed(part):
                change = change.T
            _same_size(change, weight, adapter, f"{name}.weight")
            whole = weight.float() + change.to(weight.device)
            _put(part, word, whole.to(weight.dtype))
    return module


def _is_trained_whole(adapter: Adapter, name: str) -> bool:
    """Return True if peft trained a copy of this part beside it (``modules_to_save``)."""
    chosen = adapter.words.get("modules_to_save") or ()
    return any(part in chosen for part in name.split(".")[:-1]) if chosen else False


def scale(words: Mapping[str, Any], name: str, rank: int) -> float:
    """Return the scale of the product of a part's two factors.

    Raises:
        CheckpointError: The alpha is no number, or a name pattern cannot be used.
    """
    patterns = words.get("alpha_pattern") or {}
    if not isinstance(patterns, Mapping):
        raise CheckpointError(f"alpha_pattern is names with numbers; got {patterns!r}.")
    fits = (alpha for pattern, alpha in patterns.items() if _fits(pattern, name))
    alpha = next(fits, words.get("lora_alpha", 8))
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        raise CheckpointError(f"The alpha of {name} is a number; got {alpha!r}.")
    return float(alpha) / (rank**0.5 if words.get("use_rslora") else rank)


def _fits(pattern: str, name: str) -> bool:
    """Return True if an untrusted pattern of peft's config matches a part's name.

    Raises:
        CheckpointError: The pattern is damaged, or could take for ever.
    """
    try:
        if SLOW.search(pattern) or max(len(pattern), len(name)) > MAX_NAME:
            raise re.error("it could take for ever")
        return re.match(rf"(.*\.)?({pattern})$", name) is not None
    except re.error as error:
        raise CheckpointError(
            f"The pattern {pattern[:40]!r} in alpha_pattern cannot be used: {error}. Write the "
            "names of the parts instead."
        ) from error


def _factors(adapter: Adapter) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Yield each part's two factors: A ``[r, in]`` and B ``[out, r]``."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in adapter.tensors.items():
        if match := FACTORS.fullmatch(name):
            found.setdefault(match[1], {})[match[2]] = tensor
    for name, pair in found.items():
        sizes = {side: list(tensor.shape) for side, tensor in pair.items()}
        if set(pair) != {"A", "B"} or {len(size) for size in sizes.values()} != {2}:
            raise CheckpointError(
                f"The adapter {adapter.name} has {sizes} for {name}; plain LoRA has two matrices, "
                "A and B. Save the model with the adapter merged."
            )
        if pair["A"].shape[0] != pair["B"].shape[1]:
            raise CheckpointError(
                f"The two factors of {name} in {adapter.name} do not fit together ({sizes}); the "
                "file is damaged."
            )
        yield name, (pair["A"], pair["B"])


def _is_transposed(part: nn.Module) -> bool:
    """Return True if a weight is ``[in, out]``: GPT-2's linear layer, and embedding tables."""
    return isinstance(part, nn.Embedding) or type(part).__name__ == "Conv1D"


def _place(module: nn.Module, adapter: Adapter, name: str) -> tuple[nn.Module, str]:
    """Return the submodule and the attribute name of a weight."""
    path, _, word = name.rpartition(".")
    try:
        part = module.get_submodule(path)
        if isinstance(getattr(part, word), Tensor):
            return part, word
    except AttributeError:
        pass
    raise CheckpointError(
        f"The adapter {adapter.name} changes {name}, which {type(module).__name__} does not have; "
        "it was trained on another model. Give that one as base."
    )


def _same_size(new: Tensor, old: Tensor, adapter: Adapter, name: str) -> None:
    if new.shape != old.shape:
        raise CheckpointError(
            f"The adapter {adapter.name} has {name} as {list(new.shape)}, and the model as "
            f"{list(old.shape)}; it was trained on another model. Give that one as base."
        )


def _put(part: nn.Module, word: str, tensor: Tensor) -> None:
    """Replace a weight; a table tied to the old one keeps it, as under peft."""
    setattr(part, word, nn.Parameter(tensor, requires_grad=False))


def _merged_by_peft(module: nn.Module, adapter: Adapter) -> nn.Module:
    from peft import PeftModel

    try:
        with torch.random.fork_rng(devices=[]):
            wrapped = PeftModel.from_pretrained(module, str(adapter.path.parent))
        whole: nn.Module = wrapped.merge_and_unload()
    except Exception as error:  # each kind fails in its own way
        raise CheckpointError(
            f"peft cannot merge the adapter {adapter.name} ({adapter.kind}): {plainly(error)}. "
            "Give the model with its adapter to tv.load as a module in memory, or to tv.probe."
        ) from error
    return whole.eval()


def without_peft(module: nn.Module) -> nn.Module:
    """Return the model inside peft's wrapper, its adapter still active; others unchanged.

    Raises:
        CheckpointError: The adapter puts trained tokens before each text.
    """
    kinds = {base.__name__ for base in type(module).__mro__ if base.__module__.startswith("peft.")}
    wrapped: Any = module
    if "BaseTuner" in kinds:
        return wrapped.model
    if "PeftModel" not in kinds:
        return module
    config = wrapped.active_peft_config
    if config.is_prompt_learning:
        raise CheckpointError(
            f"The adapter of this module ({config.peft_type.value}) {BEFORE}; call it inside "
            "`with tv.probe(module)`."
        )
    return wrapped.get_base_model()
