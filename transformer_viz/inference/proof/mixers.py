"""Modules that mix neighboring tokens without attention, such as convolutions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.pooling import (
    _AdaptiveAvgPoolNd,
    _AdaptiveMaxPoolNd,
    _AvgPoolNd,
    _LPPoolNd,
    _MaxPoolNd,
)

#: Module types that mix neighboring tokens without attention, with a name.
MIXERS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((_ConvNd,), "convolution"),
    (
        (_MaxPoolNd, _AvgPoolNd, _LPPoolNd, _AdaptiveMaxPoolNd, _AdaptiveAvgPoolNd),
        "pooling",
    ),
    ((nn.RNNBase,), "recurrent"),
    ((_NormBase,), "batch norm"),
)
#: Modules of Transformers with a recurrent state, by the ends of their names.
STATES = re.compile(
    r"(Mamba\d?Mixer|MambaLayer|BambaMixer|FalconH1Mixer|GatedDeltaNet|ShortConv|RecurrentBlock)$"
)
#: Calls that a subclass may make around its own layer, such as padding.
AROUND = frozenset(
    (
        *("constant_pad_nd", "reflection_pad1d", "replication_pad1d", "slice", "select"),
        *("narrow", "split", "split_with_sizes", "chunk", "unbind", "cat", "view"),
        *("_unsafe_view", "alias", "permute", "transpose", "t", "unsqueeze", "squeeze"),
        *("expand", "clone", "contiguous", "_to_copy", "add", "add_", "sub", "mul", "mul_"),
        *("div", "neg", "relu", "relu_", "gelu", "silu", "silu_", "sigmoid", "tanh"),
        *("dropout", "native_dropout", "native_layer_norm", "native_group_norm"),
        *("native_batch_norm", "_native_batch_norm_legit", "batch_norm", "convolution"),
        *("max_pool2d_with_indices", "max_pool1d", "avg_pool2d", "avg_pool1d"),
        *("_adaptive_avg_pool2d", "adaptive_max_pool2d", "linear", "addmm", "mm"),
        *("mkldnn_rnn_layer", "lstm", "gru", "rnn_tanh", "var_mean", "rsqrt", "sqrt"),
        *("copy_", "empty", "zeros", "empty_like", "zeros_like", "new_empty", "new_zeros"),
        *("sigmoid_", "tanh_", "squeeze_", "stack", "unsafe_split", "transpose_", "sign"),
        *("abs", "pow", "repeat", "avg_pool3d", "max_pool3d_with_indices"),
        *("_adaptive_avg_pool3d", "reflection_pad2d", "replication_pad2d", "masked_fill"),
        *("masked_fill_", "where", "sub_", "rnn_relu", "_weight_norm_interface"),
    )
)


def mixer_of(part: nn.Module) -> str:
    """Return the name of a module's kind if it mixes tokens without attention; else empty."""
    known = type(part).__module__.startswith("transformers.models.")
    if known and STATES.search(type(part).__name__):
        return "recurrent"
    return next((name for kinds, name in MIXERS if isinstance(part, kinds)), "")


def mixers_in(module: nn.Module) -> dict[str, str]:
    """Return the paths of the modules that mix tokens, with their names."""
    found = {path: mixer_of(part) for path, part in module.named_modules()}
    return {path: mixer for path, mixer in found.items() if mixer}


def has_own_forward(part: nn.Module) -> bool:
    """Return True if a subclass of PyTorch's mixers overrides forward."""
    kinds = tuple(kind for some, _ in MIXERS for kind in some)
    own = "forward" in vars(part) or not type(part).forward.__module__.startswith("torch.")
    return isinstance(part, kinds) and own


def does_more(calls: Sequence[tuple[str, Any]]) -> bool:
    """Return True if calls do more than such a layer and the usual calls around it."""
    return not {name.partition("::")[2].partition(".")[0] for name, _ in calls} <= AROUND
