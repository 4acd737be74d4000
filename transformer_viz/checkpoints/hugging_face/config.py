"""``config.json`` of a Hugging Face folder: checked first, then converted to a library config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..files.errors import CheckpointError
from .library import plainly

#: Options that choose code instead of describing the model; foreign code is never fetched.
CODE = (
    "attn_implementation",
    "experts_implementation",
    "fusion_config",
    "kernel_config",
    "transformers_weights",
    "use_kernels",
    "distributed_config",
)
#: Options of every config that do not affect the computation.
SILENT = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "id2label", "label2id")
REPEATED = re.compile(
    r"layers?$|blocks?$|^depths?$|_depth$|hidden_groups$|stages$|dense_replace$|attention_types$"
)
COUNTED_BACK = re.compile(r"feature_layers?$")  # -2: features of the second to last layer
EXPERTS = re.compile(r"experts?$")
LISTED = re.compile(rf"{EXPERTS.pattern}|^num_labels$")
LONG = re.compile(r"position|seq_len|ctx$")
VOCABULARY = re.compile(r"vocab_size$")  # some architectures state more than they use
MAX_POSITIONS = 2**24
MAX_PIECES = 2**21
MAX_LISTED = 2**16  # classes with names, experts
FEW, MAX_LAYERS = 256, 1024  # layers that cost nothing, or seconds, to build and compare
MAX_EXPERTS = 2**15  # in all layers together
FEW_EXPERTS = 16  # built to see if each of them costs modules
#: Architectures whose attention is never a matrix of queries and keys, and what they do instead.
UNSHOWN = {
    "mamba": "a state space passes one state from token to token",
    "mamba2": "a state space passes one state from token to token",
    "falcon_mamba": "a state space passes one state from token to token",
    "rwkv": "a recurrence passes one state from token to token",
    "xlstm": "a recurrence passes one state from token to token",
    "fnet": "a Fourier transform mixes all tokens alike",
    "longformer": "each token looks at a band around it, and the whole map is never computed",
    "led": "each token looks at a band around it, and the whole map is never computed",
    "reformer": "tokens meet in buckets of a hash, and the whole map is never computed",
    "yoso": "tokens meet in buckets of a hash, and the whole map is never computed",
    "mra": "the map is approximated in blocks of several resolutions",
    "nystromformer": "the map is approximated through landmarks, and never computed whole",
}


class TooManyExperts(CheckpointError):
    """Config with more experts than the file has weights."""


def library_config(
    transformers: Any, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Any:
    """Return the library's config object for the content of a ``config.json``.

    Raises:
        CheckpointError: The architecture is unknown to the library, it refuses an option, or the
            file
            cannot hold such sizes.
    """
    kind = settings["model_type"]
    require_known(transformers, kind)
    _check_classes(settings.get("architectures"))
    check_sizes(_with_experts(settings, 1), tensors)
    try:
        check_sizes(settings, tensors)
    except TooManyExperts:
        # Experts that the model leaves out, or keeps as rows of one weight, cost nothing to build.
        if builds_each_expert(transformers, settings):
            raise
    try:
        return transformers.CONFIG_MAPPING[kind].from_dict(_read(settings), return_dict=True)
    except Exception as error:  # its own checks raise many kinds
        raise CheckpointError(
            f"config.json does not describe a {kind} model: {plainly(error)}. Correct the word."
        ) from error


def _check_classes(names: Any) -> None:
    """Refuse a value that is no list of names; some library versions raise unclear errors."""
    if names and not (
        isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    ):
        raise CheckpointError(
            f"architectures in config.json is {names!r}; it is a list of names of classes, such "
            f'as ["BertForMaskedLM"]. Correct it, or take it out.'
        )


def require_known(transformers: Any, kind: str) -> None:
    """Refuse an architecture that the installed library does not have.

    Raises:
        CheckpointError: Names the library's version and the solution.
    """
    if kind not in transformers.CONFIG_MAPPING:
        raise CheckpointError(
            f"transformers {transformers.__version__} does not know the model_type {kind!r}; "
            "install a version that does, or build the module with its own code and give it to "
            "load(module, tokenizer=...)."
        )


def refuse(settings: Mapping[str, Any]) -> None:
    """Refuse a model that its config alone rules out.

    Raises:
        CheckpointError: It has its own code, or an architecture whose attention cannot be shown;
            states which, and the solution.
    """
    if settings.get("auto_map"):
        raise CheckpointError(
            "This folder brings Python code of its own (auto_map in config.json), which is never "
            "run here. Build the module with that code yourself and give it to load(module, "
            "tokenizer=...), or take auto_map out if the library has this architecture."
        )
    require_shown(settings["model_type"])


def require_shown(kind: str) -> None:
    """Refuse an architecture whose attention is known to be no matrix of queries and keys.

    Raises:
        CheckpointError: States what it uses instead.
    """
    if kind in UNSHOWN:
        raise CheckpointError(
            f"A {kind} model has no attention that could be shown: {UNSHOWN[kind]}. "
            "tv.probe(module) still shows its norms and residual sums."
        )


def check_sizes(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Refuse sizes that would cost time or memory before the weights could contradict them.

    Raises:
        CheckpointError: Names the option, its value, and the content of the file.
    """
    sides = [max(t.shape, default=1) for t in tensors.values() if t.numel()]
    widest = min(max(sides, default=1), MAX_LISTED)
    for word, value in _numbers(settings):
        if value < 0 and REPEATED.search(word) and not COUNTED_BACK.search(word):
            raise CheckpointError(f"The config asks for {word}={value}; give a number from 0.")
        most = None
        if LONG.search(word) or VOCABULARY.search(word):
            most = MAX_POSITIONS if LONG.search(word) else MAX_PIECES
        elif REPEATED.search(word):
            most = min(max(len(tensors), FEW), MAX_LAYERS)
        elif LISTED.search(word):
            most = max(len(tensors), widest)
        if most is not None and value > most:
            raise (TooManyExperts if EXPERTS.search(word) else CheckpointError)(
                f"The config asks for {word}={value:,}, and {most:,} are the most."
                if most in (MAX_POSITIONS, MAX_PIECES, MAX_LAYERS)
                else f"The config asks for {word}={value:,}, but the file holds only "
                f"{len(tensors):,} weights; they do not belong together."
            )
    layers = max((n for word, n in _numbers(settings) if REPEATED.search(word)), default=1)
    experts = max((n for word, n in _numbers(settings) if EXPERTS.search(word)), default=1)
    if layers * experts > max(len(tensors), MAX_EXPERTS):
        raise TooManyExperts(
            f"The config asks for {experts:,} experts in {layers:,} layers, but the file holds "
            f"only {len(tensors):,} weights; they do not belong together."
        )


def builds_each_expert(transformers: Any, settings: Mapping[str, Any]) -> bool:
    """Return True if more experts need more modules.

    A few are built, without numbers, then twice as many.
    """
    counts = set()
    for few in (FEW_EXPERTS, 2 * FEW_EXPERTS):
        try:
            words = _read(_with_experts(settings, few))
            config = transformers.CONFIG_MAPPING[settings["model_type"]].from_dict(words)
            with torch.random.fork_rng(devices=[]), torch.device("meta"):
                module = transformers.AutoModel.from_config(config)
        except Exception:  # its own checks raise many kinds
            return True
        counts.add(sum(1 for _ in module.modules()))
    return len(counts) > 1


def _with_experts(settings: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the settings with another number of experts, nested configs included."""
    return {
        word: _with_experts(value, count)
        if isinstance(value, Mapping)
        else count
        if EXPERTS.search(word) and isinstance(value, int) and not isinstance(value, bool)
        else value
        for word, value in settings.items()
    }


def _numbers(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield every integer of a config with its name, nested configs and lists included."""
    for word, value in settings.items():
        if isinstance(value, Mapping):
            yield from _numbers({str(k): v for k, v in value.items()})
        elif isinstance(value, list):
            for part in value:
                yield from _numbers({word: part})
        elif isinstance(value, int) and not isinstance(value, bool):
            yield word, value


def _read(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as the library reads them, without those that choose code."""
    return {
        word: _value(value)
        for word, value in settings.items()
        if word.strip("_").removesuffix("_internal") not in CODE
    }


def _value(value: Any) -> Any:
    """Return a config value; infinite numbers are written ``{"__float__": "Infinity"}``."""
    if isinstance(value, list):
        return [_value(part) for part in value]
    if isinstance(value, Mapping):
        endless = set(value) == {"__float__"} and value["__float__"] in ("Infinity", "-Infinity")
        return float(value["__float__"]) if endless else _read(value)
    return value
