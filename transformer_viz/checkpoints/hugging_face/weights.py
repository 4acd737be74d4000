"""Weights of a Hugging Face folder, compared with the library's class and then loaded into it.

The library renames and joins weights while it loads them. The comparison is therefore its own
loading, of tensors with shapes but no numbers, into a module without numbers.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..files.errors import CheckpointError
from ..files.reading import Weights, refuse_non_finite
from .calls import make_calls
from .library import plainly
from .parts import parts_of, takes
from .trial_run import try_out

#: The library's tables of classes, in the order in which they are tried if a config names none.
HEADS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING",
    "MODEL_FOR_QUESTION_ANSWERING_MAPPING",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING",
    "MODEL_FOR_CTC_MAPPING",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING",
    "MODEL_FOR_PRETRAINING_MAPPING",
    "MODEL_MAPPING",
)
MAX_COMPUTED = 2**30  # bytes of tables that are computed, not read
#: Masks that older versions saved beside the biases: one number, or a square of them.
OLD_MASK = re.compile(r"\.(attn|attention)\.(masked_)?bias$")
#: Replaces masked frames in training only; most files lack it.
TRAINED_WITH = "masked_spec_embed"
NUMBERS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
OTHERS = (torch.int64, torch.int32, torch.uint8, torch.bool)  # positions, masks


def class_of(transformers: Any, config: Any, weights: Weights) -> type:
    """Return the library's class for these weights: the config's, or the first that fits.

    A class that leaves weights unused is taken only if no class uses all.

    Raises:
        CheckpointError: The class does not exist, or no class fits the weights.
    """
    names = config.architectures
    if names:
        return _named(transformers, config, names[0])
    fits = [(cls, difference(cls, config, weights)) for cls in _candidates(transformers, config)]
    for strict in (True, False):
        for cls, (complaint, unknown) in fits:
            if not complaint and not (unknown and strict):
                return cls
    if not fits:
        raise CheckpointError(f"transformers has no model for a {config.model_type} config alone.")
    raise CheckpointError(
        f"config.json names no architecture, and none fits the weights; {fits[-1][0].__name__}: "
        f"{fits[-1][1][0]}"
    )


def _named(transformers: Any, config: Any, name: str) -> type:
    cls = getattr(transformers, name, None) if name.isidentifier() else None
    if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)):
        raise CheckpointError(
            f"transformers {transformers.__version__} has no architecture {name!r}; correct "
            "architectures in config.json, or build the module with its own code and give it to "
            "load(module, tokenizer=...)."
        )
    if not isinstance(config, getattr(cls, "config_class", None) or object):
        raise CheckpointError(
            f"The architecture {name} does not go with the model_type {config.model_type!r}; "
            "correct one of them in config.json."
        )
    return cls


def _candidates(transformers: Any, config: Any) -> list[type]:
    found: list[type] = []
    for table in HEADS:
        entry = getattr(transformers, table).get(type(config), ())
        found += entry if isinstance(entry, tuple | list) else (entry,)
    if getattr(config, "is_decoder", False):  # BERT as a decoder: its other heads look both ways
        found.sort(key=lambda cls: "MaskedLM" in cls.__name__)
    return list(dict.fromkeys(found))


def difference(cls: Any, config: Any, weights: Weights) -> tuple[str, list[str]]:
    """Return what a class lacks in the weights, as a sentence, and the weights unknown to it.

    The sentence is empty if nothing is missing. Names and shapes are compared after the library's
    own renaming; weights that it declares as not needed are left out.

    Raises:
        CheckpointError: Weights are no plain numbers.
    """
    file = weights.path.name
    check_dtypes(weights)
    try:
        module, info, missing = _rehearsed(cls, config, weights.tensors)
    except Exception as error:  # a config that the library cannot build, in many ways
        return f"{cls.__name__} cannot be built from config.json: {plainly(error)}.", []
    unknown = sorted(info.unexpected_keys)
    for name, found, wanted in sorted(info.mismatched_keys):
        return (
            f"{name} is {list(found)} in {file}, but the config makes it {list(wanted)}. Correct "
            "the config, or override its words."
        ), unknown
    for name in sorted(info.conversion_errors):
        return f"The weights of {name} in {file} do not fit together; some are missing.", unknown
    lost = _lost(module, info.missing_keys, missing)
    if lost:
        return (
            f"{file} lacks the weight {lost[0]}{_nearest(lost[0], unknown)}. Missing weights are "
            "not made up; check that the config fits the file."
        ), unknown
    return _computed(module), unknown


def require_input(cls: Any, config: Any) -> None:
    """Refuse a class whose input cannot be provided.

    Raises:
        CheckpointError: Names its input, and the parts that open alone.
    """
    try:
        takes(cls, config)
    except CheckpointError:
        try:
            parts = parts_that_open(empty(cls, config))
        except Exception:  # a config that the library cannot build, in many ways
            parts = ()
        takes(cls, config, parts)


def left_over(
    transformers: Any, cls: Any, config: Any, unknown: Sequence[str], weights: Weights
) -> str:
    """Return a note on weights that a class does not use, because they belong to other heads.

    ``bert-base-uncased`` holds a head for sentence pairs beside the one for masked tokens that it
    is opened with.

    Raises:
        CheckpointError: A weight belongs to no class of this architecture; names it.
    """
    file, tensors = weights.path.name, weights.tensors
    unknown = [n for n in unknown if not (OLD_MASK.search(n) and _is_mask(tensors.get(n)))]
    if not unknown:
        return ""
    own, known = _names(cls, config), set()
    for other in _candidates(transformers, config):
        names = _names(other, config)
        known |= names | {f"{cls.base_model_prefix}.{name}" for name in names}
    strange = [name for name in unknown if name not in known]
    if strange:
        raise CheckpointError(
            f"{file} has a weight {strange[0]} that {cls.__name__} does not know"
            f"{_nearest(strange[0], sorted(own))}. Check that the config fits the file."
        )
    return (
        f"{file} also holds {len(unknown)} weights that it does not use ({unknown[0]}, ...): they "
        "are for other tasks."
    )


def _is_mask(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dim() in (0, 4)


def _names(cls: Any, config: Any) -> set[str]:
    """Return the names of a class's weights; empty if it cannot be built from the config."""
    try:
        return set(empty(cls, config).state_dict())
    except Exception:  # a head that needs options which the config lacks
        return set()


def empty(cls: Any, config: Any) -> Any:
    """Return a module of the class whose weights have shapes but no numbers."""
    with contextlib.ExitStack() as stack, torch.random.fork_rng(devices=[]):
        for context in cls.get_init_context(torch.float32, False, False, False):
            stack.enter_context(context)
        return cls(copy.deepcopy(config))  # some classes change the config that they are given


def _rehearsed(cls: Any, config: Any, tensors: Mapping[str, Tensor]) -> tuple[Any, Any, set[str]]:
    """Return the module without numbers, the library's loading report, and all missing names.

    Missing names include those that the library excuses.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.modeling_utils import LoadStateDictConfig

    nowhere = torch.device("meta")
    module = empty(cls, config)
    shapes = {
        name: torch.empty(tensor.shape, dtype=tensor.dtype, device=nowhere)
        for name, tensor in tensors.items()
    }
    mapping: Any = get_model_conversion_mapping(module)
    settings = LoadStateDictConfig(
        device_map={"": nowhere},
        dtype=torch.float32,
        dtype_plan={},
        weight_mapping=mapping,
        ignore_mismatched_sizes=True,
    )
    info, _ = cls._load_pretrained_model(module, shapes, None, settings)
    info.missing_keys = {name for name in info.missing_keys if not name.endswith(TRAINED_WITH)}
    missing = set(info.missing_keys)
    module._adjust_missing_and_unexpected_keys(info)
    return module, info, missing


def _lost(module: Any, needed: set[str], missing: set[str]) -> list[str]:
    """Return the needed weights that neither the file nor a tie to one of its weights provides."""
    tied = dict(module.all_tied_weights_keys)
    given = {source for name, source in tied.items() if not {name, source} <= missing}
    return sorted(name for name in needed if tied.get(name, name) not in given)


def _computed(module: nn.Module) -> str:
    """Return an error text if the tables computed from the config would fill the memory."""
    stored = set(module.state_dict())
    tables = [table for name, table in module.named_buffers() if name not in stored]
    size = sum(table.numel() * table.element_size() for table in tables)
    if size > MAX_COMPUTED:
        return (
            f"The config asks for computed tables of {size:,} bytes, and {MAX_COMPUTED:,} are "
            "the most; give a smaller number of positions."
        )
    return ""


def check_dtypes(weights: Weights) -> None:
    """Refuse number types that the library would silently convert.

    Raises:
        CheckpointError: Names the weight and its type.
    """
    for name, tensor in weights.tensors.items():
        if tensor.dtype not in (*NUMBERS, *OTHERS):
            raise CheckpointError(
                f"{name} in {weights.path.name} holds {str(tensor.dtype).removeprefix('torch.')}, "
                "quantised or complex numbers; open the model with float weights that it was made "
                "from."
            )


def loaded(cls: Any, config: Any, weights: Weights, settings: Mapping[str, Any]) -> nn.Module:
    """Return the class filled with the file's weights, in evaluation mode.

    The caller has checked that they fit (`difference`, `left_over`). ``settings`` are the library's
    options of loading: type of number (``dtype``) and devices.

    Raises:
        CheckpointError: Weights are not finite.
    """
    if not weights.allow_nonfinite:
        for name, tensor in weights.tensors.items():
            refuse_non_finite(name, tensor, weights.path)
    try:
        with torch.random.fork_rng(devices=[]):
            module, info = cls.from_pretrained(
                None,
                config=config,
                state_dict=weights.tensors,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                **settings,
            )
    except ValueError as error:
        if "device_map" not in settings:
            raise
        if "offload" in str(error) and "offload_folder" not in settings:
            raise CheckpointError(
                "The model does not fit into what max_memory allows; allow more, or give an "
                "offload_folder for the rest."
            ) from error
        raise CheckpointError(
            f"accelerate cannot spread the model so: {plainly(error)}. Correct max_memory."
        ) from error
    for word in ("missing_keys", "mismatched_keys"):  # cannot happen after the comparison
        lost = sorted(name for name in info[word] if TRAINED_WITH not in str(name))
        if lost:
            raise CheckpointError(f"The library lost weights while loading: {lost}.")
    made: nn.Module = module.eval()
    return made


def _nearest(name: str, others: list[str]) -> str:
    close = difflib.get_close_matches(name, sorted(others), n=1, cutoff=0.5)
    return f" (the nearest name is {close[0]})" if close else ""


LARGEST = 10**9  # parameters of a part that is built again for a trial


def parts_that_open(module: nn.Module) -> tuple[str, ...]:
    """Return the paths of the parts that open alone, without those refused for their windows."""
    return tuple(path for path in parts_of(module) if _opens(module.get_submodule(path)))


def _opens(part: Any) -> bool:
    """Return False if a part reads pictures and a small copy of it is refused by its trial."""
    config = copy.deepcopy(part.config)
    window, patch = getattr(config, "window_size", None), getattr(config, "patch_size", None)
    if takes(type(part), config) != "image" or not isinstance(window, int):
        return True
    if not isinstance(patch, int) or sum(p.numel() for p in part.parameters()) > LARGEST:
        return True
    side = 4 * window * patch  # of a picture with several windows
    config.image_size = side
    pixels = torch.zeros(1, getattr(config, "num_channels", 3), side, side)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            made = type(part)(config).eval()
        try_out(made, make_calls(made), pixels, None)
    except CheckpointError:
        return False
    except Exception:  # a copy of another size may not be built, in many ways
        return True
    return True


def part_of(module: Any, part: object) -> Any:
    """Return the part of a model at a path; the whole model for None.

    Raises:
        CheckpointError: There is no such part; names those that open.
    """
    if part is None:
        return module
    if part not in parts_of(module):
        known = parts_that_open(module)
        raise CheckpointError(
            f"{type(module).__name__} has no part {part!r} that opens alone; "
            + (f"choose one of {', '.join(known)}." if known else "it has none, so leave part out.")
        )
    return module.get_submodule(part)
