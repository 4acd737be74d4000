"""The names of weights: which name of a code base stands for which name of a module.

A table of pairs says it, the file's name left and the module's right: ``("{stack}.layer_stack.
{n}.slf_attn.w_qs.{part}", "{stack}.layers.{n}.self_attention.query.{part}")``. A word in braces
stands for one part of a name, between two dots, and for a number where it is ``{n}``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from ..files.errors import shell_name
from ..files.reading import CheckpointError, Weights
from .bundled import CONFIG

Table = Sequence[tuple[str, str]]
NUMBER, PART = r"\d+", r"[^.]+"


@cache
def pattern(template: str) -> re.Pattern[str]:
    """A regular expression that a name fits exactly when it has the form of the template."""
    literal, wild = re.split(r"\{\w+\}", template), re.findall(r"\{(\w+)\}", template)
    groups = [f"(?P<{word}>{NUMBER if word == 'n' else PART})" for word in wild]
    return re.compile(
        "".join(re.escape(a) + b for a, b in zip(literal, [*groups, ""], strict=True))
    )


def patterns(table: Table) -> tuple[str, ...]:
    """The regular expressions of a table's file names: a layout's ``NAMES``."""
    return tuple(pattern(file).pattern for file, _ in table)


def file_name(name: str, table: Table, present: Iterable[str] = ()) -> str:
    """The file's name for a module's; of several the one that is present, or else the first.

    A name that the table does not know is the same on both sides.
    """
    found = [
        file.format(**match.groupdict())
        for file, own in table
        if (match := pattern(own).fullmatch(name))
    ]
    return next((file for file in found if file in present), (*found, name)[0])


def count(weights: Weights, template: str) -> int:
    """How many weights have a name of this form: ``encoder.layers.{n}.norm1.weight``, layers."""
    return sum(bool(pattern(template).fullmatch(name)) for name in weights.tensors)


def layers(weights: Weights, template: str) -> int:
    """How many layers a stack has, by a weight that each of them has.

    Raises:
        CheckpointError: none at all.
    """
    found = count(weights, template)
    if not found:
        raise _lacking(weights, template.format(n=0))
    return found


def size(weights: Weights, name: str, dims: int = 2) -> tuple[int, ...]:
    """The shape of a weight by which a layout measures its model.

    Raises:
        CheckpointError: it is not there, or has another number of axes.
    """
    shape = tuple(weights.tensors[name].shape) if name in weights.tensors else None
    if shape is None:
        raise _lacking(weights, name)
    if len(shape) != dims:
        raise CheckpointError(
            f"{name} is {list(shape)} in {weights.path.name}; this layout has {dims} axes there. "
            "The file is damaged or of another kind."
        )
    return shape


def _lacking(weights: Weights, name: str) -> CheckpointError:
    near = nearest(name, set(weights.tensors))
    return CheckpointError(
        f"{weights.path.name} lacks the weight {name}{near}. Missing weights are not made up; "
        f"check that the file is whole and of this layout{map_names(weights)}."
    )


def map_names(weights: Weights) -> str:
    """Return the end of a sentence: a weight under another name can be mapped."""
    if weights.names:
        return ", or correct names="
    return f", or map its name (`transformer-viz names {shell_name(weights.path.name)}`)"


def has_config(weights: Weights) -> bool:
    """Whether a config.json stands beside the weights; errors blame none that is not there."""
    return (weights.path.parent / CONFIG).is_file()


def nearest(name: str, others: set[str]) -> str:
    """The other name that looks most like it, in brackets for a sentence; empty if none does."""
    close = difflib.get_close_matches(name, sorted(others), n=1, cutoff=0.5)
    return f" (the nearest name is {close[0]})" if close else ""


def without(weights: Weights, *templates: str) -> Weights:
    """The weights less those whose names have one of these forms: buffers that nobody reads."""
    forms = [pattern(template) for template in templates]
    kept = {
        name: tensor
        for name, tensor in weights.tensors.items()
        if not any(form.fullmatch(name) for form in forms)
    }
    return replace(weights, tensors=kept)


def split(
    weights: Weights, template: str, parts: Sequence[str] = ("query", "key", "value")
) -> Weights:
    """The weights with fused rows taken apart: ``name`` becomes ``name[query]``, ``name[key]`` ...

    Every tensor whose name has the form of the template is cut along its first axis into as many
    equal pieces as there are ``parts``.

    Raises:
        CheckpointError: rows that cannot be cut so; names the weight.
    """
    tensors = {}
    for name, tensor in weights.tensors.items():
        if not pattern(template).fullmatch(name):
            tensors[name] = tensor
            continue
        if tensor.dim() == 0 or tensor.shape[0] % len(parts):
            raise CheckpointError(
                f"{name} in {weights.path.name} is {list(tensor.shape)}; it should hold "
                f"{', '.join(parts)}, one below the other and equally high. It is damaged or of "
                "another kind."
            )
        for part, rows in zip(parts, tensor.chunk(len(parts)), strict=True):
            tensors[f"{name}[{part}]"] = rows
    return replace(weights, tensors=tensors)


def uncut(name: str) -> str:
    """The file's own name of rows that :func:`split` took apart."""
    return name.partition("[")[0]
