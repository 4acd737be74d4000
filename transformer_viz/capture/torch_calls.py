"""Groups of torch functions by meaning (products, softmaxes, masks, ...), and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

aten = torch.ops.aten
Call = Callable[..., Any]
Args = tuple[Any, ...]  # positional arguments of a call
Kwargs = dict[str, Any]  # keyword arguments
SEQUENCES = (list, tuple)
PLAIN = (Tensor, nn.Parameter)  # quantised ones hide their single numbers, and have no float64


def _of(words: str | Iterable[str], *owners: Any) -> frozenset[Call]:
    names = words.split() if isinstance(words, str) else words
    found = (getattr(owner, name, None) for owner in owners for name in names)
    return frozenset(call for call in found if call is not None)


def _aten(*names: str) -> frozenset[Call]:
    return frozenset(getattr(getattr(aten, n.split(".")[0]), n.split(".")[1]) for n in names)


#: q times k, or weights times v.
MATMUL = _of(("matmul", "__matmul__", "bmm", "mm"), torch, Tensor) | _aten(
    "matmul.default", "bmm.default", "mm.default"
)
BADDBMM = _of(("baddbmm", "baddbmm_"), torch, Tensor) | _aten("baddbmm.default")
EINSUM = frozenset((torch.einsum, torch.functional.einsum)) | _aten("einsum.default")

SOFTMAX = frozenset(
    (F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax, torch._softmax)
) | _aten("softmax.int", "_softmax.default")

#: Linear maps of one activation by weights.
LINEAR = frozenset((F.linear,)) | _aten("linear.default")
PROJECT = frozenset((F.linear, torch.addmm, Tensor.addmm)) | _aten(
    "linear.default", "addmm.default"
)

ADD = _of(("add", "add_", "__add__", "__radd__", "__iadd__"), torch, Tensor) | _aten(
    "add.Tensor", "add_.Tensor"
)
SUBTRACT = _of(("sub", "sub_", "subtract", "__sub__", "__isub__"), torch, Tensor) | _aten(
    "sub.Tensor"
)
FILL = _of(("masked_fill", "masked_fill_"), torch, Tensor) | _aten(
    "masked_fill.Scalar", "masked_fill.Tensor"
)
WHERE = frozenset((torch.where, Tensor.where)) | _aten("where.self", "where.ScalarOther")
COPY = _of(["copy_"], Tensor)
ASSIGN = frozenset((Tensor.__setitem__,))

MULTIPLY = _of(
    ("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"), torch, Tensor
) | _aten("mul.Tensor")

#: Properties that permute a tensor's dimensions; every other property is read without handling.
TURNS = frozenset(getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "data"))

#: Calls that move values without changing them. The first argument is the tensor.
RESHAPE = (
    _of(
        """view reshape flatten unflatten transpose swapaxes swapdims permute movedim
    moveaxis t squeeze squeeze_ unsqueeze unsqueeze_ contiguous clone expand
    expand_as view_as reshape_as detach chunk split unbind narrow select
    index_select __getitem__ repeat_interleave repeat alias tile""",
        torch,
        Tensor,
    )
    | _aten(
        "view.default",
        "reshape.default",
        "_unsafe_view.default",
        "transpose.int",
        "permute.default",
        "unsqueeze.default",
        "squeeze.dim",
        "expand.default",
        "clone.default",
        "contiguous.default",
        "slice.Tensor",
        "select.int",
    )
    | TURNS
)
#: Calls that change the number type or nothing at all.
CAST = (
    _of(
        """to float double half bfloat16 type type_as cpu cuda nan_to_num nan_to_num_""",
        torch,
        Tensor,
    )
    | frozenset((F.dropout, torch.dropout, F.alpha_dropout))
    | _aten("_to_copy.default", "dropout.default", "alias.default")
)
DIVIDE = _of("div div_ divide true_divide __truediv__ __itruediv__", torch, Tensor) | _aten(
    "div.Tensor"
)
TANH = _of(("tanh", "tanh_"), torch, Tensor) | frozenset((F.tanh,)) | _aten("tanh.default")
#: Calls that keep values between two bounds.
CLAMP = _of("clamp clamp_ clip maximum minimum max min", torch, Tensor)
EXPONENTIAL = _of("exp exp_", torch, Tensor) | _aten("exp.default")
TRIANGLE = _of("tril tril_ triu triu_", torch, Tensor)
#: Element-wise calls, after which a score stays a score.
ELEMENTWISE = (
    _of(
        """__rtruediv__ neg __neg__ exp exp_ sigmoid relu relu_ square pow __pow__ softplus abs""",
        torch,
        Tensor,
    )
    | MULTIPLY
    | DIVIDE
    | ADD
    | SUBTRACT
    | TANH
    | CLAMP
    | TRIANGLE
    | frozenset((F.relu, F.sigmoid, F.softplus, F.silu, F.gelu, F.elu))
    | _aten("exp.default", "sigmoid.default", "relu.default")
)
SUM = _of(["sum"], torch, Tensor)
JOIN = frozenset((torch.cat, torch.concat, torch.concatenate)) | _aten("cat.default")

#: Calls that append constant columns.
PAD = frozenset((F.pad, torch._C._nn.pad))

#: Calls after which numbers of the input still count as numbers of the input.
NUMERIC = RESHAPE | CAST | ELEMENTWISE | JOIN
#: Calls that make random tensors, or tensors of Python numbers: an input, anywhere.
GIVEN = _of("tensor as_tensor from_numpy rand randn normal randint multinomial", torch)

#: Calls that write into a cache of fixed length.
STORE = _of(("index_copy", "index_copy_", "slice_scatter"), torch, Tensor)
GROWS = JOIN | STORE

#: Calls that leave the factor of scores unchanged.
SPARE = RESHAPE | CAST | ADD | SUBTRACT | CLAMP | FILL | WHERE | JOIN
#: Calls that keep the role of their first operand with one.
PASS = RESHAPE | CAST | ELEMENTWISE | FILL | WHERE | JOIN | PAD
IDENTITY = RESHAPE | CAST
#: Calls that read rows or cells of a table.
READ = (
    RESHAPE
    | JOIN
    | _of(("gather", "take_along_dim", "stack"), torch, Tensor)
    | frozenset((F.embedding,))
)
KEEP = PASS | READ
#: Calls that use only the shape of their operand, or (AS) that of their second one.
SHAPED = _of(
    """zeros_like ones_like full_like new_zeros new_ones new_full new_tensor""", torch, Tensor
)
AS = _of(["expand_as", "view_as", "reshape_as", "type_as"], torch, Tensor)
#: Calls that number tokens, as models do with the mask of padded inputs.
COUNT = _of(("cumsum", "cumsum_"), torch, Tensor)
VIEW = _of(("view", "reshape"), torch, Tensor)
#: Calls that merge dimensions into one axis, or split them.
FOLD = _of("view reshape flatten unflatten view_as reshape_as", torch, Tensor)

CONVOLVE = frozenset((F.conv1d, F.conv2d, F.conv3d))
INDEX = frozenset((Tensor.__getitem__,))
GATHER = _of(("gather", "take_along_dim"), torch, Tensor)
LOOKUP = (
    frozenset(
        (F.embedding, torch.embedding, Tensor.index_select, torch.index_select, F.embedding_bag)
    )
    | GATHER
    | (_aten("embedding.default"))
)
WAVES = (
    _of(("cos", "sin"), torch, Tensor)
    | frozenset((torch.polar,))
    | _aten("cos.default", "sin.default")
)
NORMS = frozenset((F.layer_norm, F.rms_norm, torch.layer_norm, torch.rms_norm)) | _aten(
    "layer_norm.default"
)
#: A hand-written norm calls one of these on its input or on a result of it.
NORM_SIGNS = _of("""mean var std var_mean std_mean rsqrt square pow norm __pow__""", torch, Tensor)

FUSED = frozenset((F.scaled_dot_product_attention,)) | _aten("scaled_dot_product_attention.default")
MULTI_HEAD = frozenset((F.multi_head_attention_forward,))
GUMBEL = frozenset((F.gumbel_softmax,))
SOFTMIN = frozenset((F.softmin,))
SPARSE_SOFTMAX = _of("softmax log_softmax", torch.sparse)
LOG_SOFTMAX = _of(["log_softmax"], torch, Tensor, F, torch.special)


def dense(x: Tensor) -> bool:
    """Return True if a tensor stores all of its numbers, so that views of it are possible."""
    return x.layout == torch.strided


# ---- a call's arguments ------------------------------------------------------------------------


def tensors(*groups: Any) -> list[Tensor]:
    """Return the tensors among the arguments of a call, also inside lists and tuples."""
    found: list[Tensor] = []
    for group in groups:
        for value in group.values() if isinstance(group, dict) else group:
            if isinstance(value, Tensor):
                found.append(value)
            elif isinstance(value, SEQUENCES):
                found.extend(tensors(value))
    return found


def swap(group: Any, by: dict[int, Tensor]) -> Any:
    """Return the arguments with some tensors replaced, found by identity."""
    if isinstance(group, Tensor):
        return by.get(id(group), group)
    if isinstance(group, dict):
        return {name: swap(value, by) for name, value in group.items()}
    if isinstance(group, list | tuple) and not hasattr(group, "_fields"):
        return type(group)(swap(value, by) for value in group)
    return group


def in_place(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")
