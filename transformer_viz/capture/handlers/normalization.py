"""Norms, recognised by what they do and not by their name, and what each did to every token."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..records import NormRecord
from ..roles import Mark, Stream, SubLayer
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, tensors

CLOSE = 1e-2  # relative difference under which a module is taken for a norm


@dataclass(frozen=True)
class Form:
    """What a norm computes: ``kind``, the names of gain and bias, and what is added to the gain."""

    kind: str
    gain: str | None
    bias: str | None
    plus: float = 0.0

    def gain_of(self, module: nn.Module) -> Tensor | None:
        if self.gain is None:
            return None
        return getattr(module, self.gain).detach() + self.plus

    def bias_of(self, module: nn.Module) -> Tensor | None:
        return None if self.bias is None else getattr(module, self.bias).detach()


_forms: weakref.WeakKeyDictionary[nn.Module, Form | None] = weakref.WeakKeyDictionary()


def form_of(module: nn.Module) -> Form | None:
    """The form of a module that is a norm, found by trying it on random vectors; None if none."""
    if module not in _forms:
        _forms[module] = _recognise(module)
    return _forms[module]


def normalised(kind: str, x: Tensor, eps: float = 1e-6) -> Tensor:
    """``x`` brought to a common scale over its last axis, without gain and bias."""
    if kind == "rms":
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    centred = x - x.mean(-1, keepdim=True)
    unbiased = kind == "annotated"
    return centred / (x.std(-1, keepdim=True, unbiased=unbiased) + eps)


def _recognise(module: nn.Module) -> Form | None:
    own = dict(module.named_parameters(recurse=False))
    widths = {p.shape for p in own.values()}
    if len(widths) != 1 or len(own) > 2 or list(module.children()):
        return None
    parameter = next(iter(own.values()))
    if parameter.dim() != 1 or parameter.numel() < 2 or not parameter.is_floating_point():
        return None
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 3, parameter.numel(), generator=generator) * 3 + 0.5
    with torch.no_grad():
        try:
            got = module.forward(x.to(parameter)).float().cpu()
        except Exception:  # a stranger's module may ask for anything; then it is no norm
            return None
        return _fitting(own, x, got) if got.shape == x.shape else None


def _fitting(own: dict[str, nn.Parameter], x: Tensor, got: Tensor) -> Form | None:
    """The candidate that explains what a module did, parameters used before not used."""
    names = list(own)
    pairs = (
        [(a, b) for a in names for b in names if a != b] if len(names) == 2 else [(names[0], None)]
    )
    values = {name: p.detach().float().cpu() for name, p in own.items()}
    best: tuple[float, Form | None] = (CLOSE, None)
    for kind in ("layer", "annotated", "rms"):
        unit = normalised(kind, x)
        for gain, bias in pairs:
            for plus in (0.0, 1.0):
                expected = unit * (values[gain] + plus) + (values[bias] if bias else 0.0)
                error = float((got - expected).norm() / got.norm().clamp(min=1e-12))
                if error < best[0]:
                    best = (error, Form(kind, gain, bias, plus))
    return best[1]


def on_norm(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call of PyTorch's own layer or rms norm."""
    out = func(*args, **kwargs)
    given = tensors(args, kwargs)
    x, rest = given[0], [t.detach() for t in given[1:] if t.dim() == 1]
    kind = "rms" if "rms" in getattr(func, "__name__", "") else "layer"
    gain, bias = (*rest, None, None)[:2]
    note(state, state.names.path(), kind, x, out, gain, bias)
    return after(state, x, state.lineage.propagate(out, given, carried(state, x)))


def on_norm_sign(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call that hand-written norms make: if a norm module runs, note its input once."""
    out = state.call(func, args, kwargs)
    x = args[0] if args and isinstance(args[0], Tensor) else None
    if (
        x is None
        or not state.request.norms
        or not x.is_floating_point()
        or not state.lineage.origin(x)
    ):
        return out
    path, frame = state.names.frame()
    if frame is None or frame is state.norm_frame:
        return out
    form = form_of(state.names.modules[path])
    if form is None:
        return out
    state.norm_frame = frame
    names = frame.f_code.co_varnames[1 : frame.f_code.co_argcount]
    entered = frame.f_locals.get(names[0]) if names else None
    if isinstance(entered, Tensor):
        module = state.names.modules[path]
        gain, bias = form.gain_of(module), form.bias_of(module)
        with torch._C.DisableTorchFunction():  # unseen: the norm itself says what it gives
            again = module.forward(entered)
        note(state, path, form.kind, entered, again, gain, bias)
        after(state, entered, again)
    return out


def note(
    state: CaptureState,
    path: str,
    kind: str,
    x: Tensor,
    out: Tensor,
    gain: Tensor | None,
    bias: Tensor | None,
) -> None:
    """Statistics a token of what a norm saw and gave; norms inside a head have no token axis."""
    if not state.request.norms or x.dim() not in (2, 3) or not state.lineage.origin(x):
        return
    seen, given = x.detach().float(), out.detach().float()
    length, root = torch.linalg.vector_norm, math.sqrt(x.shape[-1])
    mean = seen.mean(-1)
    std = length(seen - mean.unsqueeze(-1), dim=-1) / root  # Tensor.var is twenty times slower
    rms = torch.hypot(mean, std)
    statistics = {
        "mean": mean,
        "std": std,
        "rms": rms,
        "input_norm": rms * root,
        "output_norm": length(given, dim=-1),
        "output_mean": given.mean(-1),  # with the length it gives the spread, at a fraction's cost
    }
    role = state.lineage.role(x)
    stack = role.stack if isinstance(role, Stream) else None
    if isinstance(role, SubLayer):
        stack = role.record.stack
    serial = Mark().serial
    state.capture.norms.append(NormRecord(path, kind, statistics, gain, bias, stack, serial))


def carried(state: CaptureState, x: Tensor) -> Any:
    """A norm of the stream is the stream; a norm of a sub-layer's output is no longer exact."""
    role = state.lineage.role(x)
    if isinstance(role, SubLayer):
        return SubLayer(role.record, role.start, False)
    return role if isinstance(role, Stream) else None


def after(state: CaptureState, x: Tensor, out: Tensor) -> Tensor:
    """The last norm of a stack gives what the stack gives."""
    role = state.lineage.role(x)
    stack = role.stack if isinstance(role, Stream) else None
    if state.request.hidden and stack is not None and state.capture.streams.get(stack) is x:
        state.capture.streams[stack] = out
    return out
