"""Role of each weight of an unknown file, by its name, its shape and its position in the file.

A role is a name of the reference Transformer (``decoder.layers.0.cross_attention.query``), with
``fused`` for a projection to queries, keys and values at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from . import weight_names as w
from .outer_roles import outer_roles
from .weight_names import NAME, ORDER, SHAPE, Layers, Part, Role

#: Name of the only stack of a file, without cross-attention.
ALONE = "alone"


@dataclass(frozen=True)
class Roles:
    """Roles of tensors by key, with the reason, and the stacks of the file.

    ``buffers`` are computed and can be left out. ``output`` and ``tokens`` are the rows of the
    output layer and the embedding, 0 without one.
    """

    of: Mapping[str, Role]
    buffers: tuple[str, ...]
    stacks: Mapping[str, int]
    output: int
    tokens: int


def find_roles(tensors: Mapping[str, Tensor]) -> Roles:
    """Return the role of each tensor, as far as names, shapes and order determine it."""
    buffers = tuple(key for key, tensor in tensors.items() if w.is_buffer(tensor))
    parts = w.parts_of({key: t for key, t in tensors.items() if key not in buffers})
    width = w.usual_width(parts)
    stacks = _named_stacks(w.layers_of(parts), width)
    roles: dict[str, Role] = {}
    for stack, layers in stacks.items():
        for n, layer in enumerate(layers.layers):
            for part, (role, why) in _of_a_layer(layer, layers.path, n, width).items():
                _put(roles, part, f"{stack}.layers.{n}.{role}", why)
    inside = {part.path for s in stacks.values() for layer in s.layers for part in layer}
    outside = [part for part in parts if part.path not in inside]
    found = outer_roles(outside, stacks, width, tensors)
    for part, (role, why) in found.items():
        _put(roles, part, role, why)
    rows = {role: part.shape[0] for part, (role, _) in found.items()}
    tokens = next((rows[role] for role in rows if role.endswith("embedding.tokens")), 0)
    counts = {stack: len(layers.layers) for stack, layers in stacks.items()}
    return Roles(roles, buffers, counts, rows.get("output", 0), tokens)


def _put(roles: dict[str, Role], part: Part, role: str, why: str) -> None:
    for kind, key in part.keys.items():
        roles[key] = (f"{role}.{kind}" if kind else role, why)


# ---- stacks ------------------------------------------------------------------------------------


def _named_stacks(stacks: Sequence[Layers], width: int) -> dict[str, Layers]:
    """Return the stacks by ``encoder`` and ``decoder``, or ``alone`` for one without a memory."""
    looking = [stack for stack in stacks if len(_clusters(stack.layers[0], stack.path, width)) > 1]
    plain = [stack for stack in stacks if stack not in looking]
    if looking and plain:
        return {"encoder": plain[0], "decoder": looking[0]}
    if looking:
        return {"decoder": looking[0]}
    if len(plain) == 2:
        words = [set(w.words_of(stack.path)) for stack in plain]
        turned = words[0] & {"dec", "decoder"} or words[1] & {"enc", "encoder"}
        return dict(zip(("encoder", "decoder"), plain[::-1] if turned else plain, strict=True))
    return {ALONE: plain[0]} if plain else {}


# ---- one layer ---------------------------------------------------------------------------------


def _of_a_layer(layer: Sequence[Part], path: str, number: int, width: int) -> dict[Part, Role]:
    """Return the role of each module of a layer."""
    clusters = _clusters(layer, path, width)
    names = ("self_attention", "cross_attention")
    blocks = dict(zip(names, _in_order(clusters), strict=False))
    found: dict[Part, Role] = {}
    for block, (members, why) in blocks.items():
        for part, (piece, reason) in _of_attention(members, width).items():
            weaker = ORDER if ORDER in (why, reason) else reason
            found[part] = f"{block}.{piece}", weaker
    attention = {part for members, _ in blocks.values() for part in members}
    left = [part for part in layer if len(part.shape) in (2, 3) and part not in attention]
    found |= _of_feed_forward(left, width)
    norms = [part for part in layer if part.shape == (width,) and "weight" in part.keys]
    found |= _of_norms(norms, {name: members for name, (members, _) in blocks.items()}, found, path)
    return found


def _inner(part: Part, path: str) -> list[str]:
    """Return the parts of a module's path inside its layer."""
    rest = part.path.removeprefix(path).lstrip(".")
    return rest.split(".")[1:]


def _clusters(layer: Sequence[Part], path: str, width: int) -> list[list[Part]]:
    """Return the matrices of each attention of a layer, in the order of the file."""
    found: dict[str, list[Part]] = {}
    for part in layer:
        if len(part.shape) == 2 and width in part.shape and _attends(part, path, width):
            found.setdefault(_label(_inner(part, path)), []).append(part)
    _join_outputs(list(found.values()), width)
    whole = [members for members in found.values() if len(members) > 1]
    if len(whole) == 1 and not any(_pieces(part) for part in whole[0]):
        (members,) = whole  # one list of matrices: half for each of two attentions
        if len(members) == 8:
            return [members[:4], members[4:]]
    return whole


def _join_outputs(clusters: Sequence[list[Part]], width: int) -> None:
    """Add each lone square matrix to the attention that lacks one, if the counts agree."""
    fused = (3 * width, width)
    short = [one for one in clusters if len(one) == 3 or [part.shape for part in one] == [fused]]
    lone = [one for one in clusters if [part.shape for part in one] == [(width, width)]]
    if len(short) == len(lone):
        for members, more in zip(short, lone, strict=True):
            members += more


def _attends(part: Part, path: str, width: int) -> bool:
    """Return True if a matrix of a layer belongs to attention, not to the feed-forward."""
    words = {word for name in _inner(part, path) for word in w.words_of(name)}
    if words & w.FEED:
        return False
    if words & w.ATTENTION or words & (w.QUERY | w.KEY | w.VALUE) or "qkv" in words:
        return True
    return part.shape in ((width, width), (3 * width, width)) and not words & {"fc", "linear"}


def _label(inner: Sequence[str]) -> str:
    """Return the common part of the matrix names of one attention."""
    if len(inner) > 1:
        numbered = len(inner) > 2 and inner[1].isdigit()
        return ".".join(inner[:2]) if numbered else inner[0]
    pieces = w.QUERY | w.KEY | w.VALUE | w.OUTPUT | w.QKV | {"w", "linear", "proj", "to", "c"}
    return "_".join(word for word in w.words_of(inner[0]) if word not in pieces)


def _in_order(clusters: Sequence[list[Part]]) -> list[tuple[list[Part], str]]:
    """Return self-attention, then cross-attention, with the reason."""
    if len(clusters) < 2:
        return [(members, SHAPE) for members in clusters]
    first, second = clusters[:2]
    common = _words(first) & _words(second)
    one, other = _words(first) - common, _words(second) - common
    if (one & w.CROSS and not other & w.CROSS) or (other & w.SELF and not one & w.SELF):
        return [(second, NAME), (first, NAME)]
    if other & w.CROSS or one & w.SELF:
        return [(first, NAME), (second, NAME)]
    return [(first, ORDER), (second, ORDER)]


def _words(parts: Iterable[Part]) -> set[str]:
    return {word for part in parts for word in part.words}


def _pieces(part: Part) -> str:
    """Return the projection indicated by the end of a name; empty if it indicates none."""
    last = w.words_of(".".join(part.path.split(".")[-2:]))
    own = w.words_of(part.path.split(".")[-1])
    for words in (own, last):
        for piece, known in (("query", w.QUERY), ("key", w.KEY), ("value", w.VALUE)):
            if set(words) & known:
                return piece
    return "output" if set(own) & w.OUTPUT and not set(own) & {"in", "qkv"} else ""


def _of_attention(members: Sequence[Part], width: int) -> dict[Part, Role]:
    """Return the projections of one attention."""
    found: dict[Part, Role] = {}
    for part in members:
        if part.shape == (3 * width, width) and not any(r[0] == "fused" for r in found.values()):
            found[part] = "fused", SHAPE
    left = [part for part in members if part not in found]
    wanted = ["output"] if found else ["query", "key", "value", "output"]
    if len(left) > len(wanted):
        return found  # separate heads, or several projections each: no name fits
    tagged = {part: piece for part in left if (piece := _pieces(part)) in wanted}
    if len(set(tagged.values())) == len(tagged):
        found |= {part: (piece, NAME) for part, piece in tagged.items()}
    rest = [part for part in left if part not in found]
    open_ = [piece for piece in wanted if piece not in {role for role, _ in found.values()}]
    why = SHAPE if len(rest) == len(open_) == 1 else ORDER
    return found | {part: (piece, why) for part, piece in zip(rest, open_, strict=False)}


def _of_feed_forward(parts: Sequence[Part], width: int) -> dict[Part, Role]:
    """Return the matrices of a feed-forward: inner, outer, and a gate if there are three."""
    squares = [part for part in parts if part.shape[:2] == (width, width)]
    inner = [part for part in parts if part.shape[1] == width and part not in squares]
    outer = [part for part in parts if part.shape[0] == width and part not in squares]
    if squares and not inner and len(squares) == 2:
        first, second = squares
        says = {part: _words([part]) for part in squares}
        if says[first] & w.SECOND and not says[second] & w.SECOND:
            return {second: ("feed_forward.inner", NAME), first: ("feed_forward.outer", NAME)}
        return {first: ("feed_forward.inner", ORDER), second: ("feed_forward.outer", ORDER)}
    if len(outer) != 1 or not 1 <= len(inner) <= 2:
        return {}
    found: dict[Part, Role] = {outer[0]: ("feed_forward.outer", SHAPE)}
    if len(inner) == 1:
        return found | {inner[0]: ("feed_forward.inner", SHAPE)}
    says = {part: _words([part]) for part in inner}
    gates = [part for part in inner if says[part] & w.GATE or says[part] & {"v"}]
    ups = [part for part in inner if "up" in says[part]]
    if ups:  # beside an "up" the gate is the one with the activation
        active = next(part for part in inner if part is not ups[0])
        return found | {
            active: ("feed_forward.inner", NAME),
            ups[0]: ("feed_forward.gate", NAME),
        }
    gate = gates[0] if len(gates) == 1 else inner[1]
    other = next(part for part in inner if part is not gate)
    why = NAME if len(gates) == 1 else ORDER
    return found | {other: ("feed_forward.inner", why), gate: ("feed_forward.gate", why)}


def _of_norms(
    norms: Sequence[Part],
    attention: Mapping[str, Sequence[Part]],
    found: Mapping[Part, Role],
    path: str,
) -> dict[Part, Role]:
    """Return the norm of each block of a layer."""
    blocks = [f"{name.partition('_')[0]}_norm" for name in attention]
    if any(role.startswith("feed_forward") for role, _ in found.values()):
        blocks.append("feed_forward_norm")
    feed = [part for part, (role, _) in found.items() if role.startswith("feed_forward")]
    homes = {
        **{
            f"{name.partition('_')[0]}_norm": _fields(parts, path)
            for name, parts in attention.items()
        },
        "feed_forward_norm": _fields(feed, path),
    }
    made: dict[Part, Role] = {}
    for norm in norms:
        block = _says_block(_inner(norm, path), homes, blocks)
        if block and block not in {role for role, _ in made.values()}:
            made[norm] = block, NAME
    rest = sorted((norm for norm in norms if norm not in made), key=lambda norm: norm.order)
    left = [block for block in blocks if block not in {role for role, _ in made.values()}]
    if len(rest) > len(left):
        return made
    why = SHAPE if len(rest) == len(left) == 1 else ORDER
    return made | {norm: (block, why) for norm, block in zip(rest, left, strict=False)}


def _fields(parts: Iterable[Part], path: str) -> set[str]:
    """Return the fields of a layer that contain the matrices of a block."""
    inner = [_inner(part, path) for part in parts]
    return {_label(names) for names in inner if len(names) > 1}


def _says_block(inner: Sequence[str], homes: Mapping[str, set[str]], blocks: Sequence[str]) -> str:
    """Return the block indicated by the name of a norm; empty if it indicates none."""
    if len(inner) > 1:
        lies = [block for block in blocks if _label(inner) in homes[block]]
        if len(lies) == 1:
            return lies[0]
    words = {word for name in inner for word in w.words_of(name)}
    if words & w.FEED or {"post", "attention"} <= words:
        return "feed_forward_norm" if "feed_forward_norm" in blocks else ""
    if words & w.CROSS and "cross_norm" in blocks:
        return "cross_norm"
    if words & w.SELF or (words & w.ATTENTION and not words & {"multihead"}):
        return "self_norm" if "self_norm" in blocks else ""
    return ""
