"""Handlers of the torch calls that the probe sees: one file per kind of call.

May import capture, model and core. `HANDLERS` is the complete table from call to handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import torch_calls
from .exponential_masks import on_triangle
from .fused_attention import on_fused, on_opaque
from .joined_heads import on_join
from .masks import on_assign, on_copy, on_fill, on_where
from .matmul import on_baddbmm, on_einsum, on_matmul
from .normalization import on_norm, on_norm_sign
from .positions import on_index, on_lookup
from .projection_check import on_convolve, on_project
from .residual import on_add, on_subtract
from .rotary import on_multiply, on_waves
from .softmax import on_log_softmax, on_softmax, on_softmin, on_sparse_softmax
from .two_steps import on_divide, on_sum

#: Torch function -> handler. If two groups share a call, the later one handles it.
HANDLERS: dict[Any, Callable[..., Any]] = {
    call: handler
    for group, handler in (
        (torch_calls.NORM_SIGNS, on_norm_sign),
        (torch_calls.MATMUL, on_matmul),
        (torch_calls.EINSUM, on_einsum),
        (torch_calls.BADDBMM, on_baddbmm),
        (torch_calls.SOFTMAX, on_softmax),
        (torch_calls.PROJECT, on_project),
        (torch_calls.ADD, on_add),
        (torch_calls.SUBTRACT, on_subtract),
        (torch_calls.FILL, on_fill),
        (torch_calls.WHERE, on_where),
        (torch_calls.ASSIGN, on_assign),
        (torch_calls.COPY, on_copy),
        (torch_calls.TRIANGLE, on_triangle),
        (torch_calls.MULTIPLY, on_multiply),
        (torch_calls.LOOKUP, on_lookup),
        (torch_calls.INDEX, on_index),
        (torch_calls.CONVOLVE, on_convolve),
        (torch_calls.WAVES, on_waves),
        (torch_calls.SUM, on_sum),
        (torch_calls.DIVIDE, on_divide),
        (torch_calls.JOIN, on_join),
        (torch_calls.NORMS, on_norm),
        (torch_calls.FUSED, on_fused),
        (torch_calls.MULTI_HEAD, on_opaque),
        (torch_calls.GUMBEL, on_opaque),
        (torch_calls.SOFTMIN, on_softmin),
        (torch_calls.SPARSE_SOFTMAX, on_sparse_softmax),
        (torch_calls.LOG_SOFTMAX, on_log_softmax),
    )
    for call in group
}
