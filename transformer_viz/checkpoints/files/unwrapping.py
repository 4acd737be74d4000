"""The state dict inside the containers and prefixes of trainers.

A file can hold more than one model (a running average, a teacher) and tensors that belong to no
model (weights of a loss, states of metrics). Known ones of these are left out, by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

#: Keys under which trainers store the weights, and their running average.
CONTAINERS = (
    *("model", "state_dict", "model_state_dict", "net", "module", "model_state", "network"),
    *("net_state_dict", "network_state_dict", "weights", "student", "generator", "params"),
)
AVERAGES = (
    *("ema", "state_dict_ema", "model_ema", "ema_model", "ema_state_dict", "model_ema_state_dict"),
    *("ema_model_state_dict", "ema_state", "averaged_model", "swa_model", "swa_state_dict"),
    "shadow",
)
LIGHTNING = "pytorch-lightning_version"  # key of Lightning's checkpoints
#: Name prefixes of data-parallel and compiled modules, and of the field of a Lightning module.
PREFIXES, FIELDS = ("module.", "_orig_mod."), ("model.", "net.")
#: Name parts that wrappers of one layer insert: compiled, checkpointed, sharded.
WRAPPERS = (
    *("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_forward_module"),
    *("_fpw_module", "_ddp_module"),
)
#: Field names of a model in a larger module that has other fields too.
MAIN = ("model", "net", "network", "student", "online_model", "module", "lm", "gpt", "backbone")
AVERAGE = re.compile(r"(\w+_)?(ema|swa|shadow|averaged?)(_\w+)?", re.I)
#: Fields of a training that belong to no model: losses, metrics, other networks.
ASIDE = re.compile(
    r"(\w+_)?(criterion|criteria|loss(es)?|objective|lossfn)(_\w+)?|(\w+_)?metrics?(_\w+)?"
    r"|(train|training|val|valid|validation|test|eval)_\w+|(pos|class|label|loss)_weights?"
    r"|(\w+_)?(accuracy|acc|f1|auroc|precision|recall|bleu|perplexity|confusion_matrix|confmat)"
    r"|(\w+_)?(teacher|discriminator|critic|target_network|reward_model|ref_model|old_policy)"
    r"|log_vars?|normalizer|lpips|perceptual\w*",
    re.I,
)
#: Counters that trainers keep as tensors of one number.
COUNTERS = re.compile(
    r"n_averaged|initted|(global_)?steps?|epochs?|num_updates|(ema_)?decay|iterations?|best_\w+",
    re.I,
)
AVERAGED = "running average (EMA) of the weights stood"  # in the note if no others are read
LEFT = "were left out"  # in the note on weights that are not opened
DEEPEST = 3  # nested containers
MOST_CHANGES = 20  # changes of names
MOST_PARTS = 30  # of a name that are checked
MOST_SHOWN = 3  # names in a note


def unwrap(
    content: Any, averaged: bool = False, other_networks: bool = False
) -> tuple[dict[str, Tensor], dict[str, Any], tuple[str, ...]]:
    """Return the tensors by name in a file's content, the other content, and the changes made.

    Args:
        content: Content of the file.
        averaged: Take the running average of the weights, if the file holds one too.
        other_networks: Keep weights of losses and metrics, and name parts that may be the model's
            own, for a library that knows the model.
    """
    inner, extra, notes = state_dict_of(content, averaged)
    found = {str(name): value for name, value in inner.items() if isinstance(value, Tensor)}
    if found:
        rest = {str(name): value for name, value in inner.items() if str(name) not in found}
        extra = rest | extra
    tensors, taken = strip(found, LIGHTNING in extra, averaged, other_networks)
    return tensors, extra, (*notes, *taken)


def state_dict_of(
    content: Any, averaged: bool = False
) -> tuple[Mapping[Any, Any], dict[str, Any], list[str]]:
    """Return the container of the weights in a file's content, the content around it, and notes."""
    words = (*AVERAGES, *CONTAINERS) if averaged else (*CONTAINERS, *AVERAGES)
    inner = content if isinstance(content, Mapping) else {}
    extra: dict[str, Any] = {}
    notes: list[str] = []
    for _ in range(DEEPEST):
        word = next((word for word in words if _holds_tensors(inner.get(word))), None)
        if word is None:
            break
        extra = {str(name): value for name, value in inner.items() if name != word} | extra
        inner = inner[word]
        said = f"a {AVERAGED}" if word in AVERAGES else "the weights stood"
        notes.append(f"{said} under {word!r}")
    also = [word for word in AVERAGES if not averaged and _holds_tensors(extra.get(word))]
    notes += [f"their running average stands beside them, under {word!r}" for word in also]
    return inner, extra, notes


def bared(tensors: dict[str, Tensor]) -> list[tuple[dict[str, Tensor], tuple[str, ...]]]:
    """Return the tensors of each field that may hold the model in a larger module, with notes.

    If all names share a field, it is that one. Otherwise it is each of the usual fields. The rest
    is left out: a copy of the model, single numbers and vectors, but never a matrix, which may be a
    part of the model.
    """
    fields = list(dict.fromkeys(name.partition(".")[0] for name in tensors))
    found = []
    for field in fields if len(fields) == 1 else (one for one in MAIN if one in fields):
        prefix = f"{field}."
        inner = {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix) and name != prefix
        }
        if not all(
            _may_go(name, tensors, inner) for name in tensors if name[: len(prefix)] != prefix
        ):
            continue
        every = "every name" if len(inner) == len(tensors) else f"{len(inner)} names"
        notes = [f"the prefix {prefix!r} was taken off {every}"]
        notes += _left(f"weights outside {prefix!r}", tensors, prefix)
        if inner:
            found.append((inner, tuple(notes)))
    return found


def _may_go(name: str, tensors: Mapping[str, Tensor], inner: Mapping[str, Tensor]) -> bool:
    """Return True if a weight beside a field is not the model's: a small one, or part of a copy."""
    copied = inner.get(name.partition(".")[2])
    same = copied is not None and copied.shape == tensors[name].shape
    return same or tensors[name].dim() < 2 or not tensors[name].is_floating_point()


def strip(
    tensors: dict[str, Tensor],
    lightning: bool = False,
    averaged: bool = False,
    other_networks: bool = False,
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the tensors without the prefixes that every name carries, with a note on each.

    Wrapper names inside names are removed too, and tensors that are not the model's.

    Args:
        tensors: Tensors by name.
        lightning: Remove the name of the module's field, as Lightning writes it.
        averaged: Take the running average if it is beside the weights.
        other_networks: As in :func:`unwrap`.
    """
    changes = (_unwrapped, _one_model, _without_modules, _without_others, _average_alone)
    notes: list[str] = []
    prefixes = (*PREFIXES, *FIELDS) if lightning else PREFIXES
    for _ in range(MOST_CHANGES if tensors else 0):
        prefix = next((p for p in prefixes if _all_begin(tensors, p)), None)
        if prefix is not None:
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
            notes.append(f"the prefix {prefix!r} was taken off every name")
            continue
        for change in (*changes[:2], _average_alone) if other_networks else changes:
            changed, said = change(tensors, averaged)
            if said:
                break
        else:
            break
        tensors = changed
        notes += said
    return tensors, tuple(notes)


def _unwrapped(
    tensors: dict[str, Tensor], averaged: bool
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the tensors without the name parts that wrappers insert."""
    parts = {part for name in tensors for part in name.split(".")}
    for wrapper in WRAPPERS:
        if wrapper in parts:
            inner = {_without(name, wrapper): tensor for name, tensor in tensors.items()}
            if len(inner) == len(tensors) and "" not in inner:
                count = sum(wrapper in name.split(".") for name in tensors)
                return inner, (f"the part {wrapper + '.'!r} was taken out of {count} names",)
    return tensors, ()


def _without_modules(
    tensors: dict[str, Tensor], averaged: bool
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the tensors without ``module`` where it is the only name at its level, as in DDP."""
    wrapped = _wrapped(tensors)
    inner = {_less_modules(name, wrapped): tensor for name, tensor in tensors.items()}
    if not wrapped or len(inner) < len(tensors):
        return tensors, ()
    count = sum(_less_modules(name, wrapped) != name for name in tensors)
    return inner, (f"the part 'module.' was taken out of {count} names",)


def _wrapped(names: Iterable[str]) -> set[tuple[str, ...]]:
    """Return the name prefixes followed only by ``module``, as wrappers write them."""
    below: dict[tuple[str, ...], set[str]] = {}
    for name in names:
        parts = name.split(".")[:MOST_PARTS]
        for at in range(1, len(parts)):
            below.setdefault(tuple(parts[:at]), set()).add(parts[at])
    return {place for place, parts in below.items() if parts == {"module"}}


def _less_modules(name: str, wrapped: set[tuple[str, ...]]) -> str:
    parts = name.split(".")
    kept = [part for at, part in enumerate(parts) if tuple(parts[:at]) not in wrapped]
    return ".".join(kept)


def _without(name: str, part: str) -> str:
    return ".".join(one for one in name.split(".") if one != part)


def _one_model(
    tensors: dict[str, Tensor], averaged: bool
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the trained weights or their running average, if the names hold both.

    An average is recognised by its field's name, and by names and shapes equal to the weights'.
    """
    fields = _fields(tensors)
    for field, average in fields.items():
        if not AVERAGE.fullmatch(field.rstrip(".").rpartition(".")[2]):
            continue
        others = {name: w for name, w in tensors.items() if not name.startswith(field)}
        inner = {name.removeprefix(field): tensor for name, tensor in average.items()}
        inner = _as_trained(inner, others)
        trained = [one for one in fields if one != field and _alike(fields[one], one, inner)]
        if not trained and not _alike(others, "", inner):
            continue
        if not averaged:
            return others, (f"their running average stands beside them, under {field!r}",)
        before = trained[0] if trained else ""
        taken = {before + name: tensor for name, tensor in inner.items()}
        return taken, (f"a {AVERAGED} under {field!r}",)
    return tensors, ()


def _average_alone(
    tensors: dict[str, Tensor], averaged: bool
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the tensors without the field name of a running average that all of them share."""
    names = [name for name in tensors if not COUNTERS.fullmatch(name.rpartition(".")[2])]
    field = names[0].partition(".")[0] if names else ""
    inner = {name: tensors[name] for name in names}
    if not AVERAGE.fullmatch(field) or not _all_begin(inner, f"{field}."):
        return tensors, ()
    taken = {name.removeprefix(f"{field}."): tensor for name, tensor in inner.items()}
    return taken, (f"a {AVERAGED} under {field + '.'!r}; the file holds no others",)


def _as_trained(average: dict[str, Tensor], trained: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return an average without its counters, with the dots that its names may have lost."""
    average = {name: tensor for name, tensor in average.items() if not COUNTERS.fullmatch(name)}
    for prefix in (*PREFIXES, "ema_model.", "shadow."):
        if _all_begin(average, prefix):
            average = {name.removeprefix(prefix): tensor for name, tensor in average.items()}
    if any("." in name for name in average):
        return average
    own = {name.replace(".", ""): name for name in trained}
    ends = {bare.partition(".")[2].replace(".", ""): bare.partition(".")[2] for bare in trained}
    return {own.get(name, ends.get(name, name)): tensor for name, tensor in average.items()}


def _alike(tensors: Mapping[str, Tensor], field: str, average: Mapping[str, Tensor]) -> bool:
    """Return True if an average has most of these weights, in the same shapes, and no others."""
    own = {name.removeprefix(field): tensor.shape for name, tensor in tensors.items()}
    fits = all(own.get(name) == tensor.shape for name, tensor in average.items())
    return fits and 2 * len(average) > len(own)


def _without_others(
    tensors: dict[str, Tensor], averaged: bool
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the tensors without losses, metrics, counters and other networks, if any remain."""
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if not ASIDE.fullmatch(name.partition(".")[0])
        and not (tensor.numel() == 1 and COUNTERS.fullmatch(name))
    }
    if not kept or len(kept) == len(tensors):
        return tensors, ()
    gone = [name for name in tensors if name not in kept]
    return kept, _left("weights of losses, metrics and other models", gone)


def _left(what: str, names: Iterable[str], prefix: str = "") -> tuple[str, ...]:
    """Return a note on the names without a prefix, by their fields; empty if there are none."""
    counts: dict[str, int] = {}
    for name in names:
        if not prefix or not name.startswith(prefix):
            field = name.partition(".")[0]
            counts[field] = counts.get(field, 0) + 1
    if not counts:
        return ()
    shown = ", ".join(f"{field} ({count})" for field, count in list(counts.items())[:MOST_SHOWN])
    more = f" and {len(counts) - MOST_SHOWN} more" if len(counts) > MOST_SHOWN else ""
    return (f"{what} {LEFT}: {shown[:200]}{more}",)


def _fields(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Return the tensors by the first name part that not all of them share, including its dot."""
    first, shared = next(iter(tensors)), ""
    for _ in range(DEEPEST):
        prefix = shared + first.removeprefix(shared).partition(".")[0] + "."
        shared = prefix if _all_begin(tensors, prefix) else shared
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        part, dot, _ = name.removeprefix(shared).partition(".")
        if dot:
            found.setdefault(f"{shared}{part}.", {})[name] = tensor
    return found


def _all_begin(names: Mapping[str, Any], prefix: str) -> bool:
    return all(name.startswith(prefix) and name != prefix for name in names)


def _holds_tensors(value: Any, deep: int = DEEPEST) -> bool:
    """Return True if a value is a dictionary with tensors, or with a container of them."""
    if not isinstance(value, Mapping) or deep == 0:
        return False
    if any(isinstance(item, Tensor) for item in value.values()):
        return True
    words = (*CONTAINERS, *AVERAGES)
    return any(_holds_tensors(value.get(word), deep - 1) for word in words)
