"""Roles of weights outside the layers: embeddings, positions, last norms, output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ..common.build_reference import kind_of_table
from . import weight_names as w
from .weight_names import NAME, ORDER, SHAPE, Layers, Part, Role

SINUSOIDS = 2**22  # numbers of a table that is compared with the sinusoid


def outer_roles(
    parts: Sequence[Part],
    stacks: Mapping[str, Layers],
    width: int,
    tensors: Mapping[str, Tensor],
) -> dict[Part, Role]:
    """Return the roles of embeddings, positions, last norms and the output layer."""
    found: dict[Part, Role] = {}
    norms = [part for part in parts if part.shape == (width,) and "weight" in part.keys]
    for norm in norms:
        side = _side(norm, stacks)
        embeds = bool(set(norm.words) & (w.EMBEDDING | w.POSITION))
        role = "embedding.norm" if embeds else "norm"
        others = [stack for stack in stacks if (f"{stack}.{role}") not in _given(found)]
        stack = side or next(iter(others), "")
        if stack and f"{stack}.{role}" not in _given(found):
            why = NAME if side or len(stacks) == 1 else ORDER
            found[norm] = f"{stack}.{role}", why
    tables = [part for part in parts if part.shape[-1:] == (width,) and len(part.shape) > 1]
    placed = [part for part in tables if _is_positions(part, tensors)]
    for part in placed:
        side = _side(part, stacks) or next(iter(stacks), "")
        if side and f"{side}.embedding.positions.table" not in _given(found):
            found[part] = f"{side}.embedding.positions.table", NAME
    flat = [part for part in tables if len(part.shape) == 2 and part not in placed]
    output = _output(flat, stacks)
    if output is not None:
        said = set(output.words) & w.HEAD or output.biased
        found[output] = "output", NAME if said else ORDER
    found |= _embeddings([p for p in flat if p is not output], output, stacks)
    return found | _other_positions([p for p in flat if p not in found], stacks, _given(found))


def _other_positions(
    parts: Sequence[Part], stacks: Mapping[str, Layers], given: set[str]
) -> dict[Part, Role]:
    """Return the single remaining table of each stack without positions; several are ambiguous."""
    if any(role.endswith("embedding.positions.table") for role in given):
        return {}
    sides: dict[str, list[Part]] = {}
    for part in parts:
        if not part.biased:
            sides.setdefault(_side(part, stacks) or next(iter(stacks), ""), []).append(part)
    role = "{}.embedding.positions.table"
    return {rest[0]: (role.format(s), SHAPE) for s, rest in sides.items() if s and len(rest) == 1}


def _given(found: Mapping[Part, Role]) -> set[str]:
    return {role for role, _ in found.values()}


def _side(part: Part, stacks: Mapping[str, Layers]) -> str:
    """Return the stack of a module outside of the layers; empty if its name indicates none."""
    if len(stacks) == 1:
        return next(iter(stacks))
    paths = [layers.path.split(".") for layers in stacks.values()]
    differ = next((n for n, words in enumerate(zip(*paths, strict=False)) if len({*words}) > 1), 0)
    for stack, path in zip(stacks, paths, strict=True):
        if part.path.startswith(".".join(path[: differ + 1]) + "."):
            return stack
    return w.side_word(part)


def _is_positions(part: Part, tensors: Mapping[str, Tensor]) -> bool:
    if part.biased:
        return False
    if set(part.words) & w.POSITION:
        return True
    tensor = tensors[next(iter(part.keys.values()))]
    if len(part.shape) == 3:
        return 1 in part.shape[:2]
    small = tensor.numel() <= SINUSOIDS and tensor.is_floating_point() and len(tensor) > 1
    return small and kind_of_table(tensor) != "learned"


def _output(parts: Sequence[Part], stacks: Mapping[str, Layers]) -> Part | None:
    """Return the output layer among the matrices ``[rows, d_model]`` outside of the layers."""

    def score(part: Part) -> tuple[float, int]:
        last = set(w.words_of(".".join(part.path.split(".")[-2:])))
        points = 3.0 * part.biased - 3.0 * bool(set(part.words) & w.EMBEDDING)
        return points + 2.0 * bool(last & w.HEAD), part.order

    best = max(parts, key=score, default=None)
    if best is None or score(best)[0] < 0 or (score(best)[0] == 0 and len(parts) <= len(stacks)):
        return None
    return best


def _embeddings(
    parts: Sequence[Part], output: Part | None, stacks: Mapping[str, Layers]
) -> dict[Part, Role]:
    """Return the embedding of each side."""
    if not stacks or not parts:
        return {}
    role = "{}.embedding.tokens"
    if len(stacks) == 1 or len(parts) == 1:
        stack = next(iter(stacks))
        named = [part for part in parts if set(part.words) & w.EMBEDDING] or parts
        rows = 0 if output is None else output.shape[0]
        first = max(named, key=lambda p: (p.shape[0] == rows, p.shape[0], -p.order))
        return {first: (role.format(stack), NAME if len(parts) > 1 else SHAPE)}
    pair = sorted(parts, key=lambda part: part.order)
    if len(pair) > 2:
        named = [part for part in pair if set(part.words) & w.EMBEDDING]
        pair = named if len(named) == 2 else pair[:2]
    sides = [_side(part, stacks) for part in pair]
    if sides[0] == sides[1]:
        sides = ["", ""]
    if "decoder" in (sides[0],) or sides[1] == "encoder":
        return {pair[1]: (role.format("encoder"), NAME), pair[0]: (role.format("decoder"), NAME)}
    if any(sides):
        why = NAME
    elif output is not None and pair[0].shape[0] == output.shape[0] != pair[1].shape[0]:
        pair, why = pair[::-1], SHAPE
    else:
        other = output is not None and pair[1].shape[0] == output.shape[0] != pair[0].shape[0]
        why = SHAPE if other else ORDER
    return {pair[0]: (role.format("encoder"), why), pair[1]: (role.format("decoder"), why)}
