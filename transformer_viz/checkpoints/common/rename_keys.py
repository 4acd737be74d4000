"""Weight names: mapping from the names of a code base to those of a module.

A table holds pairs, the file's name left and the module's right: ``("{stack}.layer_stack.
{n}.slf_attn.w_qs.{part}", "{stack}.layers.{n}.self_attention.query.{part}")``. A word in braces
matches one part of a name, between two dots; ``{n}`` matches a number.
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
    """Return a regular expression that matches exactly the names with the form of the template."""
    literal, wild = re.split(r"\{\w+\}", template), re.findall(r"\{(\w+)\}", template)
    groups = [f"(?P<{word}>{NUMBER if word == 'n' else PART})" for word in wild]
    return re.compile(
        "".join(re.escape(a) + b for a, b in zip(literal, [*groups, ""], strict=True))
    )


def patterns(table: Table) -> tuple[str, ...]:
    """Return the regular expressions of a table's file names: a layout's ``NAMES``."""
    return tuple(pattern(file).pattern for file, _ in table)


def file_name(name: str, table: Table, present: Iterable[str] = ()) -> str:
    """Return the file's name for a module's: the first one present, or else the first.

    A name that is not in the table is the same on both sides.
    """
    found = [
        file.format(**match.groupdict())
        for file, own in table
        if (match := pattern(own).fullmatch(name))
    ]
    return next((file for file in found if file in present), (*found, name)[0])


def count(weights: Weights, template: str) -> int:
    """Return the number of weights of a form: ``encoder.layers.{n}.norm1.weight`` counts layers."""
    return sum(bool(pattern(template).fullmatch(name)) for name in weights.tensors)


def layers(weights: Weights, template: str) -> int:
    """Return the number of layers of a stack, counted by a weight that each layer has.

    Raises:
        CheckpointError: There are none.
    """
    found = count(weights, template)
    if not found:
        raise _lacking(weights, template.format(n=0))
    return found


def size(weights: Weights, name: str, dims: int = 2) -> tuple[int, ...]:
    """Return the shape of a weight from which a layout derives sizes.

    Raises:
        CheckpointError: The weight is missing, or has another number of axes.
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
    """Return True if a config.json is beside the weights; errors must not blame a missing one."""
    return (weights.path.parent / CONFIG).is_file()


def nearest(name: str, others: set[str]) -> str:
    """Return the most similar other name, in brackets for a sentence; empty if none is similar."""
    close = difflib.get_close_matches(name, sorted(others), n=1, cutoff=0.5)
    return f" (the nearest name is {close[0]})" if close else ""


def without(weights: Weights, *templates: str) -> Weights:
    """Return the weights without unused buffers, whose names have one of these forms."""
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
    """Return the weights with fused rows split: ``name`` becomes ``name[query]``, ``name[key]`` ...

    Each tensor whose name has the form of the template is cut along its first axis into as many
    equal pieces as there are ``parts``.

    Raises:
        CheckpointError: Rows cannot be cut so; names the weight.
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
    """Return the file's own name of rows that :func:`split` produced."""
    return name.partition("[")[0]
