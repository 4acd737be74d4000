"""Selection of the files to fetch: config, tokenizer, weights that hold only numbers."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...i18n import say
from ..common.bundled import CONFIG, WEIGHTS
from ..files.errors import CheckpointError, CheckpointMissing

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER, PICKLED_ADAPTER = "adapter_model.safetensors", "adapter_model.bin"
#: For each form of weights: the whole file, the index, and its parts.
SAFE = ("model.safetensors", "model.safetensors.index.json", r"model-\d+-of-(\d+)\.safetensors")
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", r"pytorch_model-\d+-of-(\d+)\.bin")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".chkpt")
#: Pickles that trainers leave beside weights.
BESIDE = ("training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "scheduler.bin")
#: Files beside weights that are read here: configs, vocabularies, tokenizers, preprocessing.
SIDE = re.compile(
    r"(config|generation_config|preprocessor_config|processor_config|adapter_config"
    r"|chat_template|normalizer|emoji|entity_vocab|word_shape|word_pronunciation"
    r"|special_tokens_map|added_tokens|target_vocab|vocab[\w-]*|tokenizer[\w-]*"
    r"|args|hparams|hyperparameters|params|model_args|model_config|training_args)\.json"
    r"|(config|hparams|args|params|model_config)\.ya?ml"
    r"|(vocab|dict|merges|char_vocab|subword_vocab)[\w.-]*\.txt"
    r"|[\w.-]+\.(model|spm|bpe|codes|tiktoken|jinja|tokenizer)|bpe\.codes|vocab\.bpe"
)
MAX_SIDE = 2**26  # bytes of one file beside the weights, the limit of a tokenizer
#: Other formats by file extension, and their names.
OTHERS = {
    (".gguf", ".ggml"): "GGUF",
    (".onnx", ".onnx_data"): "ONNX",
    (".h5", ".pb", ".tflite"): "TensorFlow",
    (".msgpack",): "Flax",
    (".mlmodel", ".mlpackage"): "Core ML",
}


def is_adapter(names: Collection[str]) -> bool:
    """Return True if a repository holds an adapter that peft saved."""
    return ADAPTER_CONFIG in names and not {ADAPTER, PICKLED_ADAPTER}.isdisjoint(names)


def side_files(names: Collection[str]) -> tuple[str, ...]:
    """Return the files beside the weights, config first."""
    return tuple(sorted(filter(SIDE.fullmatch, names), key=lambda name: (name != CONFIG, name)))


def weight_files(names: Collection[str], allow_pickle: bool = False) -> tuple[str, ...]:
    """Return the files that hold the weights, in the order in which a folder is searched.

    Empty if there are none that may be taken, or if parts are missing.
    """
    if is_adapter(names):
        if ADAPTER in names:
            return (ADAPTER,)
        return (PICKLED_ADAPTER,) if allow_pickle else ()
    if WEIGHTS in names:
        return (WEIGHTS,)
    for whole, index, part in (SAFE, PICKLED) if allow_pickle else (SAFE,):
        if whole in names:
            return (whole,)
        parts = tuple(name for name in sorted(names) if re.fullmatch(part, name))
        if index in names and parts and len(parts) == _count(part, parts[0]):
            return (index, *parts)
    ends = (".safetensors", *PICKLES) if allow_pickle else (".safetensors",)
    found = [name for name in names if name.endswith(ends) and "/" not in name]
    found = [name for name in found if name not in (*BESIDE, ADAPTER, PICKLED_ADAPTER)]
    return (found[0],) if len(found) == 1 else ()


def _count(part: str, name: str) -> int:
    match = re.fullmatch(part, name)
    return int(match.group(1)) if match else 0


def require_weights(repo: str, names: Collection[str], allow_pickle: bool) -> tuple[str, ...]:
    """Return the files of the weights.

    Raises:
        CheckpointMissing: There are no weights, or only in an unsupported format; states which.
        CheckpointError: There are several weights files, pickles that are not allowed, or it is a
            pipeline of the diffusers library.
    """
    if "model_index.json" in names:
        raise CheckpointError(
            say(
                "{model} is a pipeline of the diffusers library, several models that make "
                "pictures, and is not opened; name one Transformer that reads or writes.",
                model=repo,
            )
        )
    found = weight_files(names, allow_pickle)
    if found:
        return found
    top = [name for name in names if "/" not in name and name not in BESIDE]
    pickles = [name for name in top if name.endswith(PICKLES)]
    several = [name for name in top if name.endswith(".safetensors")]
    if pickles and not several and not allow_pickle:
        raise CheckpointError(
            say(
                "{model} has only pickled weights ({file}), which are not fetched unless they are "
                "allowed: in Python allow_pickle=True, on the command line --set allow_pickle=true."
                " Better take a revision or a copy with safetensors.",
                model=repo,
                file=pickles[0],
            )
        )
    if several or pickles:
        raise CheckpointError(
            say(
                "{model} has several weights files and none of a name that settles it, or parts of "
                "them are missing ({files}); fetch the right one yourself and open its folder.",
                model=repo,
                files=", ".join(sorted(several or pickles)[:4]),
            )
        )
    raise CheckpointMissing(_without_weights(repo, names))


def _without_weights(repo: str, names: Collection[str]) -> str:
    for ends, form in OTHERS.items():
        if any(name.endswith(ends) for name in names):
            return say(
                "{model} has weights only for {form}, which are not opened here; name the model "
                "that they were made from, with safetensors.",
                model=repo,
                form=form,
            )
    inner = sorted({n.rpartition("/")[0] for n in names if n.endswith((".safetensors", *PICKLES))})
    if inner:
        return say(
            "{model} has weights only in folders ({folders}); fetch one of them yourself and open "
            "it as a path.",
            model=repo,
            folders=", ".join(inner[:4]),
        )
    return say(
        "{model} has no weights; name a repository that holds model.safetensors.", model=repo
    )
