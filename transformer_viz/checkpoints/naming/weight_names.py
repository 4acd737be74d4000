"""Names and shapes of a file's weights, parsed into words, modules and layers.

Only names and shapes are used here; :mod:`.weight_roles` decides the role of a weight.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

#: Reasons for the role of a weight.
NAME, SHAPE, ORDER, BUFFER = "name", "shape", "order", "buffer"
Role = tuple[str, str]  # the reference's name, and the reason
#: Last name parts of a weight and a bias.
WEIGHTS = ("weight", "gamma", "a_2", "scale", "g", "alpha")
BIASES = ("bias", "beta", "b_2", "shift", "b")
FUSED = re.compile(r"(.*?)(in_proj|[qkv]_proj)_(weight|bias)")
FEWEST_MODULES = 4  # of a layer
MAX_BUFFER = 2**24  # numbers of a mask that is checked

QUERY = {"q", "query", "queries", "wq", "qs", "fcq", "toq", "qproj"}
KEY = {"k", "key", "keys", "wk", "ks", "fck", "tok", "kproj"}
VALUE = {"v", "value", "values", "wv", "vs", "fcv", "tov", "vproj"}
OUTPUT = {"o", "out", "output", "wo", "fco", "oproj", "proj", "projection", "dense", "fc", "final"}
OUTPUT |= {"concat", "unify", "combine"}
QKV = {"qkv", "toqkv", "in", "attn", "wqkv", "kqv"}
ATTENTION = {"attn", "attention", "att", "mha", "multihead", "sa", "ca", "attend", "selfattn"}
SELF = {"self", "slf", "sa", "selfattn", "selfattention", "masked", "input"}
CROSS = {"cross", "crossattn", "crossattention", "encdec", "ca", "xattn", "context", "ctx", "inter"}
CROSS |= {"memory", "mem", "src", "source", "enc", "encoder"}
FEED = {"ff", "ffn", "ffwd", "ffw", "feed", "feedforward", "forward", "mlp", "positionwise", "pwff"}
NORM = {"norm", "ln", "layernorm", "norms", "rms", "rmsnorm"}
FIRST = {"inner", "up", "expand", "hidden", "intermediate", "c_fc", "in", "first", "wi"}
SECOND = {"outer", "down", "contract", "second", "wo", "proj", "out", "output"}
GATE = {"gate", "gated", "linear_v"}
EMBEDDING = {"emb", "embed", "embedding", "embeddings", "embedder", "lut", "wte", "lookup", "tok"}
EMBEDDING |= {"token", "tokens", "word", "words", "embs"}
POSITION = {"pe", "pos", "posn", "posi", "position", "positions", "positional", "posenc", "posemb"}
POSITION |= {"posembed", "wpe"}
HEAD = {"out", "output", "outputs", "fc", "head", "generator", "linear", "logits", "classifier"}
HEAD |= {"lm", "proj", "projection", "prj", "vocab", "final", "unembed", "unembedding", "cls"}
HEAD |= {"predict", "prediction", "predictor", "dense"}
SOURCE_SIDE = {"src", "source", "enc", "encoder", "in", "inp", "input", "inputs", "from"}
TARGET_SIDE = {
    "tgt",
    "trg",
    "target",
    "targets",
    "dec",
    "decoder",
    "out",
    "output",
    "outputs",
    "to",
}


@dataclass(frozen=True, eq=False)
class Part:
    """Module of a file: its path, the key of each of its tensors, the shape of its weight.

    The keys of ``keys`` are ``weight`` and ``bias``, or the empty string for a single tensor.
    ``order`` is its position in the file.
    """

    path: str
    keys: Mapping[str, str]
    shape: tuple[int, ...]
    order: int

    @property
    def words(self) -> tuple[str, ...]:
        """Words of its path, numbers included."""
        return words_of(self.path)

    @property
    def biased(self) -> bool:
        return "bias" in self.keys


@dataclass(frozen=True)
class Layers:
    """Equal layers: the path before their number, and each layer's modules by path."""

    path: str
    layers: tuple[tuple[Part, ...], ...]


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case: ``selfAttn.fc_1`` gives self, attn, fc and 1."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return tuple(re.findall(r"[a-z]+|\d+", apart.lower()))


def parts_of(tensors: Mapping[str, Tensor]) -> list[Part]:
    """Return the modules of the tensors, in the order of the file."""
    found: dict[str, dict[str, str]] = {}
    for key in tensors:
        path, part = _split(key)
        found.setdefault(path, {})[part] = key
    order = {key: n for n, key in enumerate(tensors)}
    parts = []
    for path, keys in found.items():
        shape = tuple(tensors[keys.get("weight") or next(iter(keys.values()))].shape)
        parts.append(Part(path, keys, shape, min(order[key] for key in keys.values())))
    return parts


def _split(key: str) -> tuple[str, str]:
    """Return the module of a tensor and its part: weight, bias, or empty for a single tensor."""
    if match := FUSED.fullmatch(key):
        return f"{match[1]}{match[2]}", match[3]
    path, _, last = key.rpartition(".")
    if path and last in WEIGHTS:
        return path, "weight"
    if path and last in BIASES:
        return path, "bias"
    return key, ""


def layers_of(parts: Sequence[Part]) -> list[Layers]:
    """Return the stacks of layers, in the order of the file; each part is in at most one."""
    groups: dict[str, dict[int, list[tuple[str, Part]]]] = {}
    for part in parts:
        for match in re.finditer(r"(?:^|\.)(\d+)\.", part.path):
            group = groups.setdefault(part.path[: match.start()], {})
            group.setdefault(int(match[1]), []).append((part.path[match.end() :], part))
    alike = {path: group for path, group in groups.items() if _are_alike(group)}
    found, taken = [], set[str]()
    for path, group in sorted(alike.items(), key=lambda item: (-len(item[1]), -len(item[0]))):
        inside = {part.path for layer in group.values() for _, part in layer}
        if inside.isdisjoint(taken):
            taken |= inside
            layers = tuple(tuple(part for _, part in group[n]) for n in range(len(group)))
            found.append(Layers(path, layers))
    return sorted(found, key=lambda stack: stack.layers[0][0].order)


def _are_alike(group: Mapping[int, Sequence[tuple[str, Part]]]) -> bool:
    """Return True if numbered modules are layers: numbered from 0, equal, with several matrices."""
    if sorted(group) != list(range(len(group))):
        return False
    first = {(inner, part.shape) for inner, part in group[0]}
    matrices = sum(len(shape) == 2 for _, shape in first)
    whole = len(first) >= FEWEST_MODULES and matrices >= 3
    return whole and all({(i, p.shape) for i, p in layer} == first for layer in group.values())


def usual_width(parts: Sequence[Part]) -> int:
    """Return d_model: the length of most norms, or else the last axis of most matrices."""
    norms = Counter(
        part.shape[0] for part in parts if len(part.shape) == 1 and part.keys.keys() - {""}
    )
    if norms:
        return norms.most_common(1)[0][0]
    matrices = Counter(part.shape[-1] for part in parts if len(part.shape) == 2)
    return matrices.most_common(1)[0][0] if matrices else 0


def is_buffer(tensor: Tensor) -> bool:
    """Return True if a tensor was computed, not learned: a causal mask, a counter, position ids."""
    if tensor.dtype == torch.bool or tensor.numel() == 1:
        return True
    if not 0 < tensor.numel() <= MAX_BUFFER:
        return False
    flat = tensor.reshape(-1)
    if not tensor.is_floating_point() and tensor.dim() <= 2:
        return bool(torch.equal(flat, torch.arange(len(flat), dtype=flat.dtype)))
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    if tensor.numel() != tensor.shape[-1] ** 2:
        return False
    square = tensor.reshape(tensor.shape[-2:])
    later = torch.ones(square.shape, dtype=torch.bool).triu(1)
    hidden, seen = square[later], square[~later]
    same = bool((hidden == hidden[0]).all()) and bool((seen == seen[0]).all())
    return same and bool(hidden[0] != seen[0])


def side_word(part: Part) -> str:
    """Return the side indicated by the words of a name; "pos_encoder" indicates none."""
    words = set(part.words)
    for one, other in pairwise(part.words):
        if one in POSITION and other in ("encoder", "enc"):
            words -= {other} if part.words.count(other) == 1 else set()
    source, target = words & SOURCE_SIDE, words & TARGET_SIDE
    return "" if bool(source) == bool(target) else "encoder" if source else "decoder"
